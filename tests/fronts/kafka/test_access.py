"""No API does anything for, or tells anything to, somebody whom no rule allows it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from msgspec import Struct

from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import Acl, Effect, Kind, Operation, Rule
from chordmq.broker.security.principal import Principal
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.apis import APIS as CODECS
from chordmq.codecs.kafka.header import RequestHeader
from chordmq.codecs.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from chordmq.codecs.kafka.messages.describe_cluster import DescribeClusterRequest
from chordmq.codecs.kafka.messages.describe_groups import DescribeGroupsRequest
from chordmq.codecs.kafka.messages.init_producer_id import InitProducerIdRequest
from chordmq.codecs.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from chordmq.codecs.kafka.messages.offset_commit import OffsetCommitRequest
from chordmq.codecs.kafka.wire import fields_at
from chordmq.fronts.kafka.access import OPERATIONS, authorized_operations
from chordmq.fronts.kafka.call import Call, Client, KafkaFront
from chordmq.fronts.kafka.dispatch import APIS, answer
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.records.record import NewRecord, build_batch
from tests.fronts.kafka.conftest import Ask

SECRET, MISSING = "secret", "wanted"
DENIED = {29, 30, 31, 53}
OPEN = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
"""What a client needs before it can prove who it is."""
HIDING = {
    "Metadata",
    "DescribeTopicPartitions",
    "DescribeCluster",
    "DescribeLogDirs",
    "ElectLeaders",
    "ListGroups",
    "ListTransactions",
}
"""What shows each client the part that it may see, or has no room for a refusal in old versions."""
VALUES: dict[str, Any] = {"acks": -1, "resource_type": 2, "max_wait_ms": 0, "state_filters": []}
MALLORY = Principal("mallory")

Send = Callable[[int, int, Any, Principal], Any]


@pytest.fixture
async def secretive(broker: Broker) -> AsyncIterator[Broker]:
    """Give a broker with a topic, a group and a transactional id, on which ACLs are enforced."""
    await broker.groups.loaded.wait()
    await broker.topics.create(SECRET, 1)
    await broker.append_records(SECRET, 0, [NewRecord(SystemClock().now_ms(), b"k", b"v")])
    commit = filled(OffsetCommitRequest, 9, SECRET, broker)
    commit.member_id, commit.group_instance_id = "", None
    assert set(codes(await send(broker, 8, 9, commit))) == {0}
    init = InitProducerIdRequest(transactional_id=SECRET, transaction_timeout_ms=1000)
    assert (await send(broker, 22, 4, init)).error_code == 0
    broker.permissions.is_enforced = True
    yield broker
    broker.permissions.is_enforced = False


async def send(
    broker: Broker, key: int, version: int, request: Any, who: Principal = MALLORY
) -> Any:
    """Send a request through the table as a connection does, and read the answer."""
    listener = Listener(ListenerSettings(), SystemClock(), "kafka")
    front = KafkaFront(broker, listener, answer=answer)
    call = Call(front, Client("10.0.0.1", who), version, "test")
    frame = memoryview(bytearray(schema.encode(request, version)))
    result = answer(APIS[key], call, frame, RequestHeader(key, version, 0, "test", 0))
    if asyncio.iscoroutine(result) or asyncio.isfuture(result):
        result = await asyncio.wait_for(result, 60)
    assert isinstance(result, list)
    body = b"".join(result)
    return schema.decode(message_of(key, "Response"), version, body)


def message_of(key: int, side: str) -> type[Any]:
    api = CODECS[key]
    module = import_module(f"chordmq.codecs.kafka.messages.{api.module}")
    found: type[Any] = getattr(module, f"{api.name}{side}")
    return found


def request_of(key: int) -> type[Any]:
    return message_of(key, "Request")


def filled(
    cls: type[Any], version: int, name: str, broker: Broker, *, with_nulls: bool = False
) -> Any:
    """Return a message that names one thing wherever it can name something."""
    message = cls()
    present = [field for field in fields_at(cls, version) if field.is_present]
    has_name = any(
        field.name in ("name", "topic", "topic_name") and not (with_nulls and field.is_nullable)
        for field in present
    )
    for field in present:
        if field.name in VALUES:
            setattr(message, field.name, VALUES[field.name])
        elif with_nulls and field.is_nullable:
            setattr(message, field.name, None)
        else:
            value = _value(field, version, name, broker, with_nulls, has_name)
            setattr(message, field.name, value)
    return message


def _value(
    field: Any, version: int, name: str, broker: Broker, with_nulls: bool, has_name: bool
) -> Any:
    element = field.kind.removeprefix("[]")
    value: Any = field.default
    if field.struct is not None and (field.kind.startswith("[]") or not field.is_nullable):
        value = filled(field.struct, version, name, broker, with_nulls=with_nulls)
    elif element == "string":
        value = name
    elif element == "uuid" and not has_name:
        topic = broker.topics.find(name)
        value = topic.id if topic else bytes(15) + b"\7"
    elif element == "records":
        value = bytes(build_batch([NewRecord(0, b"k", b"v")]))
    elif element in ("int32", "int64", "int8") and field.kind.startswith("[]"):
        value = 0
    if field.kind.startswith("[]") and not isinstance(value, list):
        value = [value]
    return value


def codes(message: Any) -> Iterator[int]:
    """Yield every error code in a message."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Struct):
                yield from codes(one)
            elif name.endswith("error_code"):
                yield one


@pytest.mark.parametrize("with_nulls", [False, True], ids=["named", "all"])
async def test_who_has_no_rights_is_refused_by_every_api(
    secretive: Broker, with_nulls: bool
) -> None:
    """C9, E13: default deny; a new API without a check fails here."""
    before = state(secretive)
    for key, version in closed():
        name = CODECS[key].name
        request = filled(request_of(key), version, SECRET, secretive, with_nulls=with_nulls)
        response = await send(secretive, key, version, request)
        found = set(codes(response))
        if name in HIDING and not found & DENIED:
            assert SECRET not in repr(response), f"{name} {version} shows it"
            assert repr(secretive.topics.get(SECRET).id) not in repr(response)
        else:
            assert found & DENIED, f"{name} {version}: {response}"
            assert found <= {0, *DENIED}, f"{name} {version}: {response}"
        assert state(secretive) == before, f"{name} {version} changes something"


async def test_a_refusal_does_not_tell_whether_the_thing_is_there(secretive: Broker) -> None:
    """C9: the answers about what is there and what is not are the same."""
    for key, version in closed():
        if any(field.kind == "uuid" and field.is_present for field in all_fields(key, version)):
            continue  # ids cannot be guessed, and Kafka tells known from unknown ones too
        answers = [
            repr(
                await send(
                    secretive, key, version, filled(request_of(key), version, name, secretive)
                )
            )
            for name in (SECRET, MISSING)
        ]
        assert answers[0].replace(SECRET, MISSING) == answers[1]


def closed() -> Iterator[tuple[int, int]]:
    """Yield every version of every API that needs rights."""
    for key, api in APIS.items():
        if CODECS[key].name not in OPEN:
            for version in api.versions:
                yield key, version


def all_fields(key: int, version: int) -> Iterator[Any]:
    waiting = [request_of(key)]
    while waiting:
        for field in fields_at(waiting.pop(), version):
            yield field
            if field.struct is not None:
                waiting.append(field.struct)


def state(broker: Broker) -> object:
    """Return what a request could have changed."""
    partitions = [
        (partition.topic, partition.index, partition.log.end_offset, partition.log.start_offset)
        for partition in broker.partitions()
        if not partition.topic.startswith("__")
    ]
    groups = [(group.group_id, group.state) for group in broker.groups.groups()]
    return partitions, groups, broker.permissions.document(), broker.topics.settings


def allow(broker: Broker, operation: Operation, kind: Kind, name: str = SECRET) -> Rule:
    rule = Rule(kind=kind, name=name, principal="User:mallory", operation=operation)
    broker.permissions.acl.change(add=[rule])
    return rule


@pytest.mark.parametrize(
    ("key", "rights"),
    [
        (0, [(Operation.WRITE, Kind.TOPIC)]),
        (1, [(Operation.READ, Kind.TOPIC)]),
        (2, [(Operation.DESCRIBE, Kind.TOPIC)]),
        (2, [(Operation.READ, Kind.TOPIC)]),
        (3, [(Operation.DESCRIBE, Kind.TOPIC)]),
        (9, [(Operation.DESCRIBE, Kind.GROUP), (Operation.DESCRIBE, Kind.TOPIC)]),
        (15, [(Operation.DESCRIBE, Kind.GROUP)]),
        (32, [(Operation.DESCRIBE_CONFIGS, Kind.TOPIC)]),
        (61, [(Operation.READ, Kind.TOPIC)]),
        (65, [(Operation.DESCRIBE, Kind.TRANSACTIONAL_ID)]),
        (75, [(Operation.DESCRIBE, Kind.TOPIC)]),
    ],
    ids=lambda value: CODECS[value].name if isinstance(value, int) else "",
)
async def test_the_rights_that_kafka_names_are_enough(
    secretive: Broker, key: int, rights: list[tuple[Operation, Kind]]
) -> None:
    """C9: operation per API as in Kafka."""
    for operation, kind in rights:
        allow(secretive, operation, kind)
    version = APIS[key].versions[-1]
    request = filled(request_of(key), version, SECRET, secretive, with_nulls=key == 0)
    if key == 0:
        request.topic_data[0].partition_data[0].records = bytes(
            build_batch([NewRecord(0, b"k", b"v")])
        )
    response = await send(secretive, key, version, request)
    assert set(codes(response)) == {0}


async def test_a_topic_may_be_created_by_who_may_create_topics_or_this_one(
    secretive: Broker,
) -> None:
    """C9: and its settings are shown only to who may see them."""
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
    )
    allow(secretive, Operation.CREATE, Kind.TOPIC, "new")
    (row,) = (await send(secretive, 19, 7, request)).topics
    assert (row.error_code, row.topic_config_error_code, row.num_partitions) == (0, 29, -1)
    request.topics[0].name = "newer"
    assert (await send(secretive, 19, 7, request)).topics[0].error_code == 29
    allow(secretive, Operation.CREATE, Kind.CLUSTER, "kafka-cluster")
    assert (await send(secretive, 19, 7, request)).topics[0].error_code == 0


async def test_asking_for_a_topic_does_not_make_it_without_the_right(secretive: Broker) -> None:
    """C9: automatic creation needs the right to create."""
    allow(secretive, Operation.DESCRIBE, Kind.TOPIC, MISSING)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=MISSING)])
    assert (await send(secretive, 3, 12, request)).topics[0].error_code == 29
    assert secretive.topics.find(MISSING) is None
    allow(secretive, Operation.CREATE, Kind.TOPIC, MISSING)
    assert (await send(secretive, 3, 12, request)).topics[0].error_code == 0


async def test_who_may_write_somewhere_may_do_so_idempotently(secretive: Broker) -> None:
    """C9, C7: KIP-679."""
    request = InitProducerIdRequest(transactional_id=None)
    assert (await send(secretive, 22, 4, request)).error_code == 31
    allow(secretive, Operation.WRITE, Kind.TOPIC, "other")
    assert (await send(secretive, 22, 4, request)).error_code == 0


async def test_authorized_operations_are_what_the_client_may_do(secretive: Broker) -> None:
    """C9: Metadata, DescribeCluster and DescribeGroups tell it when asked (KIP-430)."""
    for kind in (Kind.TOPIC, Kind.GROUP):
        allow(secretive, Operation.READ, kind)
    reading = 1 << OPERATIONS[Operation.READ] | 1 << OPERATIONS[Operation.DESCRIBE]
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=SECRET)],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = await send(secretive, 3, 8, asked)
    assert answer.topics[0].topic_authorized_operations == reading
    assert answer.cluster_authorized_operations == 0
    groups = DescribeGroupsRequest(groups=[SECRET], include_authorized_operations=True)
    (group,) = (await send(secretive, 15, 5, groups)).groups
    assert group.authorized_operations == reading
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await send(secretive, 60, 1, cluster)).cluster_authorized_operations == 0
    allow(secretive, Operation.ALTER, Kind.CLUSTER, "kafka-cluster")
    expected = 1 << OPERATIONS[Operation.ALTER] | 1 << OPERATIONS[Operation.DESCRIBE]
    assert (await send(secretive, 60, 1, cluster)).cluster_authorized_operations == expected


async def test_without_security_everything_is_allowed_and_no_rule_is_asked(
    broker: Broker, ask: Ask
) -> None:
    """C9: rules count only where clients can be told apart."""
    everybody = Rule(
        kind=Kind.CLUSTER,
        name="kafka-cluster",
        principal="User:*",
        operation=Operation.ALL,
        effect=Effect.DENY,
    )
    broker.permissions.acl.change(add=[everybody])
    answer = await ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert answer.cluster_authorized_operations == 0b1_1111_1010_0000
    assert isinstance(broker.permissions.acl, Acl)


def test_every_operation_has_kafkas_number() -> None:
    """C9: the numbers of org.apache.kafka.common.acl.AclOperation."""
    assert OPERATIONS[Operation.ALL] == 2
    assert OPERATIONS[Operation.IDEMPOTENT_WRITE] == 12
    assert OPERATIONS[Operation.TWO_PHASE_COMMIT] == 15
    assert authorized_operations.__doc__

"""Unmodified clients under ACLs, roles and quotas: allowed, refused, revoked and slowed."""

import base64
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.cli.command_line import CommandLine, Outcome
from tests.interop.program import built, installed, run
from tests.interop.test_java import CLASSES, LIBRARIES, OPTIONS
from tests.running_node import RunningNode
from tests.secured_node import secured_node

PASSWORDS = {"admin": "wise-and-old", "alice": "wonderland-9", "bob": "builder-77"}
WAIT_S = 60

Settings = dict[str, Any]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node where clients log in; `admin` may do everything, the others nothing."""
    with secured_node(tmp_path_factory.mktemp("secure"), PASSWORDS, "SCRAM-SHA-512,PLAIN") as node:
        yield node


def login(node: RunningNode, user: str, **more: Any) -> Settings:
    """Return the settings of a client that logs in."""
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
        **more,
    }


@pytest.fixture(scope="module")
def admin(secure: RunningNode) -> AdminClient:
    """Give librdkafka's admin client, logged in as the administrator."""
    return AdminClient(login(secure, "admin"))


@pytest.fixture
def topic(admin: AdminClient, name: str) -> str:
    """Give a topic that nobody but the administrator has rights on."""
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(WAIT_S)
    return name


@pytest.fixture
def chordmq(secure: RunningNode) -> Callable[..., Outcome]:
    """Give the command line, logged in as the administrator."""
    cli = CommandLine(secure.bootstrap)

    def command(*arguments: str) -> Outcome:
        return cli("--user", "admin", "--password", PASSWORDS["admin"], *arguments)

    return command


def acl(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)


def meaning(
    kind: ResourceType, name: str, pattern: ResourcePatternType, who: Any = None
) -> AclBindingFilter:
    """Return a filter for whatever is allowed or denied there."""
    return AclBindingFilter(kind, name, pattern, who, who, AclOperation.ANY, AclPermissionType.ANY)


def add(admin: AdminClient, *bindings: AclBinding) -> None:
    for future in admin.create_acls(list(bindings)).values():
        future.result(WAIT_S)


def forget(admin: AdminClient, name: str) -> list[AclBinding]:
    wanted = meaning(ResourceType.ANY, name, ResourcePatternType.ANY)
    (future,) = admin.delete_acls([wanted]).values()
    return list(future.result(WAIT_S))


def produced(producer: Producer, topic: str) -> KafkaError | None:
    """Send one record and return its error, None when it has arrived."""
    errors: list[KafkaError | None] = []
    try:
        producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    except KafkaException as refused:  # known from an answer to another request
        return refused.args[0]  # type: ignore[no-any-return]
    producer.flush(WAIT_S)
    (error,) = errors
    return error


def accepted(node: RunningNode) -> float:
    """Return how many Kafka connections were ever made."""
    request = urllib.request.Request(f"{node.http}/metrics")
    pair = base64.b64encode(f"admin:{PASSWORDS['admin']}".encode()).decode()
    request.add_header("Authorization", f"Basic {pair}")
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith('chordmq_connections_accepted_total{listener="kafka"}'):
                return float(line.rpartition(" ")[2])
    raise AssertionError("no such metric")


def test_librdkafka_sees_adds_and_removes_acls(
    secure: RunningNode, admin: AdminClient, name: str
) -> None:
    """C2, C9: DescribeAcls, CreateAcls and DeleteAcls; refused to who has no rights."""
    binding = acl(ResourceType.GROUP, name, AclOperation.READ, ResourcePatternType.PREFIXED)
    alice = AdminClient(login(secure, "alice"))
    with pytest.raises(KafkaException) as refused:
        add(alice, binding)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    add(admin, binding)
    about = meaning(ResourceType.GROUP, name + "-x", ResourcePatternType.MATCH)
    assert admin.describe_acls(about).result(WAIT_S) == [binding]
    assert forget(admin, name) == [binding]
    assert admin.describe_acls(about).result(WAIT_S) == []


def test_the_java_client_sees_adds_and_removes_acls_and_quotas(
    secure: RunningNode, name: str
) -> None:
    """C2, C9: also authorized operations of topics and of the cluster."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    run(
        [
            installed("java"), *OPTIONS, "-cp", classpath, "AclCheck",
            secure.bootstrap, name, PASSWORDS["admin"], PASSWORDS["alice"],
        ]
    )  # fmt: skip


def test_a_right_that_is_revoked_ends_on_the_open_connection(
    secure: RunningNode, admin: AdminClient, topic: str
) -> None:
    """C9: a producer and a consumer that are connected are refused from the next request on."""
    error = produced(Producer(login(secure, "alice")), topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    group = acl(ResourceType.GROUP, topic, AclOperation.READ)
    write, read = (
        acl(ResourceType.TOPIC, topic, right) for right in (AclOperation.WRITE, AclOperation.READ)
    )
    add(admin, write, read, group)
    producer = Producer(login(secure, "alice"))
    assert produced(producer, topic) is None
    consumer = Consumer(
        login(secure, "alice", **{"group.id": topic, "auto.offset.reset": "earliest"})
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        connections = accepted(secure)
        forget(admin, topic)
        codes = {KafkaError.GROUP_AUTHORIZATION_FAILED}  # a heartbeat may come before a fetch
        while codes == {KafkaError.GROUP_AUTHORIZATION_FAILED}:
            message = consumer.poll(WAIT_S)
            assert message is not None
            error = message.error()
            assert error is not None
            codes.add(error.code())
        assert codes - {KafkaError.GROUP_AUTHORIZATION_FAILED} == {
            KafkaError.TOPIC_AUTHORIZATION_FAILED
        }
        error = produced(producer, topic)
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert accepted(secure) == connections
    finally:
        consumer.close()


def test_a_pattern_shows_no_topic_that_its_member_may_not_know_of(
    secure: RunningNode, admin: AdminClient, name: str
) -> None:
    """C4, C9: librdkafka in the consumer protocol; a right that is given later counts at once."""
    seen, hidden = f"{name}-seen", f"{name}-hidden"
    for topic in (seen, hidden):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)
        assert produced(Producer(login(secure, "admin")), topic) is None
    add(
        admin,
        acl(ResourceType.TOPIC, seen, AclOperation.READ),
        acl(ResourceType.GROUP, name, AclOperation.READ),
    )
    settings = {"group.id": name, "auto.offset.reset": "earliest", "group.protocol": "consumer"}
    consumer = Consumer(login(secure, "alice", **settings))
    try:
        consumer.subscribe([f"^{name}-.*"])
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert (message.error(), message.topic()) == (None, seen)
        assert [place.topic for place in consumer.assignment()] == [seen]
        add(admin, acl(ResourceType.TOPIC, hidden, AclOperation.READ))
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert (message.error(), message.topic()) == (None, hidden)
    finally:
        consumer.close()
        for topic in (seen, hidden, name):
            forget(admin, topic)


def test_kcat_is_refused_what_its_user_may_not(secure: RunningNode, topic: str) -> None:
    """C9: it neither lists, reads nor writes the topic."""
    kcat = [installed("kcat"), "-b", secure.bootstrap]
    for key, value in login(secure, "bob", **{"sasl.mechanism": "PLAIN"}).items():
        kcat += ["-X", f"{key}={value}"] if key != "bootstrap.servers" else []
    assert topic.encode() not in run([*kcat, "-L"])
    for arguments, given in ((["-P", "-t", topic], b"v\n"), (["-C", "-e", "-t", topic], b"")):
        done = subprocess.run(
            [*kcat, *arguments], input=given, capture_output=True, timeout=60, check=False
        )
        assert done.returncode != 0
        assert b"Topic authorization failed" in done.stderr


def test_a_role_lets_its_members_in_and_the_command_line_says_why(
    secure: RunningNode, admin: AdminClient, topic: str, chordmq: Callable[..., Outcome]
) -> None:
    """A10, C9: roles and ACLs on the command line."""
    url = ("--url", secure.http)
    why = ("acls", "why", "User:bob", "write", f"topic:{topic}", *url)
    assert chordmq(*why).status == 1
    saved = chordmq("roles", "save", topic, "--allow", f"write=topic:{topic[:8]}*", *url)
    assert saved.status == 0, saved.err
    given = chordmq("roles", "give", topic, "User:bob", *url)
    assert given.status == 0, given.err
    explained = chordmq(*why)
    assert explained.status == 0
    assert f"from the role {topic}" in explained.out
    producer = Producer(login(secure, "bob"))
    assert produced(producer, topic) is None
    assert chordmq("roles", "take", topic, "User:bob", *url).status == 0
    error = produced(producer, topic)
    assert error is not None
    added = chordmq("acls", "add", "User:bob", "--deny", "read", "--topic", topic)
    assert added.status == 0, added.err
    assert "deny" in chordmq("acls", "list", "--topic", topic).out
    removed = chordmq("acls", "remove", "--topic", topic, "--json")
    assert [row["operation"] for row in removed.data] == ["read"]
    assert chordmq("roles", "delete", topic, *url).status == 0


def test_what_is_exported_can_be_imported(
    secure: RunningNode, topic: str, chordmq: Callable[..., Outcome], tmp_path: Path
) -> None:
    """C9: JSON file import and export."""
    url = ("--url", secure.http)
    assert chordmq("acls", "add", "User:bob", "--allow", "read", "--topic", f"{topic}*").status == 0
    file = tmp_path / "acls.json"
    file.write_text(chordmq("acls", "export", *url).out)
    assert chordmq("acls", "remove", "--topic", f"{topic}*").status == 0
    imported = chordmq("acls", "import", str(file), *url)
    assert imported.status == 0, imported.err
    (row,) = chordmq("acls", "list", "--topic", f"{topic}*", "--json").data
    assert (row["principal"], row["match"]) == ("User:bob", "prefixed")
    assert chordmq("acls", "remove", "--topic", f"{topic}*").status == 0


def test_a_producer_is_slowed_to_its_quota(
    secure: RunningNode, admin: AdminClient, topic: str, chordmq: Callable[..., Outcome]
) -> None:
    """C2: throttled by answer and by silence, on a connection that stays open."""
    rate, size, count = 200_000, 10_000, 60
    client_id = f"slow-{uuid.uuid4().hex[:8]}"
    quota = ("--client-id", client_id)
    done = chordmq("quotas", "set", *quota, "--set", f"producer_byte_rate={rate}")
    assert done.status == 0, done.err
    add(admin, acl(ResourceType.TOPIC, topic, AclOperation.WRITE))
    throttled: list[float] = []
    producer = Producer(
        login(
            secure, "alice",
            **{
                "client.id": client_id,
                "batch.size": 20_000,
                "linger.ms": 5,
                "max.in.flight.requests.per.connection": 1,
                "throttle_cb": lambda event: throttled.append(event.throttle_time),
            },
        )
    )  # fmt: skip
    assert produced(producer, topic) is None
    began = time.monotonic()
    for _ in range(count):
        producer.produce(topic, bytes(size))
    assert producer.flush(WAIT_S) == 0
    took_s = time.monotonic() - began
    # A second's worth may pass at once; the last piece is waited for afterwards.
    expected_s = size * count / rate - 1.0
    assert took_s >= expected_s * 0.8
    assert throttled
    assert chordmq("quotas", "set", *quota, "--reset", "producer_byte_rate").status == 0
    assert client_id not in chordmq("quotas", "list").out
    forget(admin, topic)

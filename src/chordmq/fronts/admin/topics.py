"""Topics over HTTP: create, list, describe, change and delete."""

import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from chordmq.broker.bounds import Extent
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.setting import Shown
from chordmq.broker.topic import INTERNAL_TOPICS, Topic
from chordmq.broker.topics import USE_DEFAULT
from chordmq.errors import InvalidRequest, PolicyViolation
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.mapping import Index, Offset

PARTITIONS_MAX = 10_000

TopicName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
Settings = dict[str, str]


class NewTopic(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A topic to create; what is not said is as the node's settings have it."""

    name: TopicName
    partitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)] | None = None
    replication_factor: Annotated[int, Meta(ge=1, le=32767)] | None = None
    settings: Annotated[Settings, Meta(description='Such as `{"retention.ms": "60000"}`.')] = {}


class TopicRow(msgspec.Struct, frozen=True):
    """A topic in a list."""

    name: str
    id: str
    partitions: int
    internal: bool


class TopicList(msgspec.Struct, frozen=True):
    """The topics that the client may see."""

    topics: list[TopicRow]


class PartitionRow(msgspec.Struct, frozen=True):
    """One partition and what it holds."""

    partition: Index
    leader: Annotated[int, Meta(description="-1 while nobody leads.")]
    start_offset: Offset
    end_offset: Annotated[int, Meta(description="After the newest committed record.")]
    size_bytes: int
    replicas: list[int]
    in_sync: list[int]
    adding: Annotated[list[int], Meta(description="Nodes that are getting a copy.")]
    removing: Annotated[list[int], Meta(description="Nodes that lose theirs afterwards.")]
    held: Annotated[bool, Meta(description="Whether this node has it; else offsets are 0.")] = True


class TopicDetail(msgspec.Struct, frozen=True):
    """A topic with its partitions and its own settings."""

    name: str
    id: str
    internal: bool
    partitions: list[PartitionRow]
    settings: Annotated[Settings, Meta(description="Those that differ from the node's.")]


class SettingRow(msgspec.Struct, frozen=True):
    """A setting in force, and where its value comes from."""

    name: str
    value: str
    source: str
    help: str


class SettingList(msgspec.Struct, frozen=True):
    """Every setting of a topic."""

    settings: list[SettingRow]


class PartitionCount(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How many partitions a topic is to have; never fewer than it has."""

    count: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)]


async def list_topics(call: Call) -> TopicList:
    """List the topics that the client may see."""
    return TopicList(
        [
            TopicRow(topic.name, _id(topic), len(topic.partitions), topic.is_internal)
            for topic in sorted(call.broker.topics, key=lambda topic: topic.name)
            if call.allows(Operation.DESCRIBE, Kind.TOPIC, topic.name)
        ]
    )


async def create_topic(call: Call, body: NewTopic) -> TopicDetail:
    """Create a topic; answers when it would survive a crash."""
    if not call.allows(Operation.CREATE, Kind.CLUSTER):
        call.check(Operation.CREATE, Kind.TOPIC, body.name)
    if body.name in INTERNAL_TOPICS:
        raise InvalidRequest(f"{body.name} is made by the broker itself")
    topic = await call.broker.topics.create(
        body.name,
        USE_DEFAULT if body.partitions is None else body.partitions,
        USE_DEFAULT if body.replication_factor is None else body.replication_factor,
        body.settings,
    )
    return await _detail(call, topic)


async def describe_topic(call: Call) -> TopicDetail:
    """Show a topic, its partitions and its own settings."""
    return await _detail(call, _topic(call, Operation.DESCRIBE))


async def delete_topic(call: Call) -> None:
    """Delete a topic with all its records."""
    await call.broker.topics.delete(_own_topic(call, Operation.DELETE).name)


async def grow_topic(call: Call, body: PartitionCount) -> TopicDetail:
    """Give a topic more partitions; the same number changes nothing."""
    topic = _own_topic(call, Operation.ALTER)
    if body.count != len(topic.partitions):
        await call.broker.topics.add_partitions(topic.name, body.count)
    return await _detail(call, topic)


async def list_settings(call: Call) -> SettingList:
    """Show every setting of a topic, and where its value comes from."""
    topic = _topic(call, Operation.DESCRIBE_CONFIGS)
    rows = call.broker.settings.shown_for_topic(topic.overrides)
    return SettingList([_setting(row) for row in rows])


async def change_settings(call: Call, body: dict[str, str | None]) -> SettingList:
    """Change settings of a topic while it is in use; null goes back to the node's value."""
    topic = _own_topic(call, Operation.ALTER_CONFIGS)

    def changed(overrides: Mapping[str, str]) -> Mapping[str, str]:
        merged = {**overrides, **body}
        return {name: value for name, value in merged.items() if value is not None}

    await call.broker.topics.alter_settings(topic.name, changed)
    rows = call.broker.settings.shown_for_topic(topic.overrides)
    return SettingList([_setting(row) for row in rows])


def _topic(call: Call, operation: Operation) -> Topic:
    """Return the topic in the path, if the client may do this with it."""
    name = call.path("topic")
    call.check(operation, Kind.TOPIC, name)
    return call.broker.topics.get(name)


def _own_topic(call: Call, operation: Operation) -> Topic:
    """Return the topic in the path, unless the broker made it for itself."""
    topic = _topic(call, operation)
    if topic.is_internal:
        raise PolicyViolation(f"{topic.name} is the broker's own")
    return topic


async def _detail(call: Call, topic: Topic) -> TopicDetail:
    extents = await call.broker.bounds.known(topic.partitions)
    return TopicDetail(
        name=topic.name,
        id=_id(topic),
        internal=topic.is_internal,
        partitions=[_partition(call, topic, *row) for row in extents.items()],
        settings=dict(topic.overrides),
    )


def _partition(call: Call, topic: Topic, partition: Partition, extent: Extent) -> PartitionRow:
    state = call.broker.topics.state(topic, partition.index)
    return PartitionRow(
        partition=partition.index,
        leader=state.leader,
        start_offset=extent.start,
        end_offset=extent.watermark,
        size_bytes=extent.size,
        replicas=list(state.replicas),
        in_sync=list(state.isr),
        adding=list(state.adding),
        removing=list(state.removing),
        held=not partition.is_absent,
    )


def _id(topic: Topic) -> str:
    return str(uuid.UUID(bytes=topic.id))


def _setting(row: Shown) -> SettingRow:
    source = row.source.name.lower().replace("_", " ")
    return SettingRow(row.setting.name, row.value, source, row.setting.help)


ROUTES = [
    Api("GET", "/v1/topics", list_topics),
    Api("POST", "/v1/topics", create_topic, status=HTTPStatus.CREATED),
    Api("GET", "/v1/topics/{topic}", describe_topic),
    Api("DELETE", "/v1/topics/{topic}", delete_topic),
    Api("PUT", "/v1/topics/{topic}/partitions", grow_topic),
    Api("GET", "/v1/topics/{topic}/settings", list_settings),
    Api("PATCH", "/v1/topics/{topic}/settings", change_settings),
]

"""Creates, describes and changes topics and groups."""

from collections.abc import Iterable, Mapping

from chordmq.client.cluster import Cluster, TopicInfo
from chordmq.client.codes import Code
from chordmq.client.connection import Connection, ConnectionSettings
from chordmq.client.errors import BrokerRefused, check
from chordmq.client.membership import MOVED, PROTOCOL_TYPE, read_assignment
from chordmq.client.offsets import (
    TopicPartition,
    commit_offsets,
    ends_of,
    fetch_committed,
)
from chordmq.client.opened import Opened
from chordmq.codecs.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from chordmq.codecs.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from chordmq.codecs.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chordmq.codecs.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from chordmq.codecs.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from chordmq.codecs.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from chordmq.codecs.kafka.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from chordmq.codecs.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from chordmq.codecs.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chordmq.dataclass import dataclass

PATIENCE_S = 15.0
TOPIC_RESOURCE, NODE_RESOURCE = 2, 4
EVERY_NODE = ""
SET, DELETE = 0, 1
SOURCES = {
    1: "topic",
    2: "broker (dynamic)",
    3: "cluster (dynamic)",
    4: "broker",
    5: "default",
    8: "group",
}

_NOT_CONTROLLER = frozenset({Code.NOT_CONTROLLER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a topic or a node, and where its value comes from."""

    name: str
    value: str | None
    source: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One line of the list of groups."""

    group: str
    state: str
    kind: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group and the partitions it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group, its state and its members."""

    group: str
    state: str
    assignor: str
    coordinator: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a group is behind in one partition."""

    topic: str
    partition: int
    committed: int | None
    """None where a member reads the partition but nothing is committed yet."""
    start: int
    end: int
    member: Member | None

    @property
    def lag(self) -> int:
        """Return the number of records still to be read."""
        return self.end - max(self.start, self.committed if self.committed is not None else 0)


class Admin(Opened):
    """Administers a cluster; use it as `async with Admin("host:port") as admin`."""

    def __init__(self, bootstrap: str, settings: ConnectionSettings | None = None) -> None:
        self.cluster = Cluster(bootstrap, settings)

    async def _open(self) -> None:
        """Reach a broker, or raise CannotConnect."""
        await self.cluster.open()

    async def _close(self, error: BaseException | None) -> None:
        """Close the connections."""
        self.cluster.close()

    async def topics(self) -> list[TopicInfo]:
        """Return every topic, sorted by name."""
        answer = await self.cluster.refresh(None)
        found = [self.cluster.known(row.name) for row in answer.topics if row.name]
        return sorted((info for info in found if info), key=lambda info: info.name)

    async def topic(self, name: str) -> TopicInfo:
        """Return one topic, or raise BrokerRefused with UNKNOWN_TOPIC_OR_PARTITION."""
        self.cluster.forget(name)
        return await self.cluster.topic(name)

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        settings: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; -1 leaves a number to the broker's default."""
        rows = [CreatableTopicConfig(key, value) for key, value in (settings or {}).items()]
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=rows,
        )
        request = CreateTopicsRequest(topics=[topic], validate_only=validate_only)

        async def create() -> None:
            connection = await self.cluster.controller()
            answer = await connection.call(request, CreateTopicsResponse)
            check(answer.topics[0].error_code, f"topic {name}", answer.topics[0].error_message)

        await self.cluster.retrying(create, _NOT_CONTROLLER, PATIENCE_S)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)

        async def delete() -> None:
            connection = await self.cluster.controller()
            answer = await connection.call(request, DeleteTopicsResponse)
            row = answer.responses[0]
            check(row.error_code, f"topic {name}", row.error_message)

        await self.cluster.retrying(delete, _NOT_CONTROLLER, PATIENCE_S)
        self.cluster.forget(name)

    async def add_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to a total number of partitions."""
        # Null leaves the placement to the broker; an empty list would place nothing.
        row = CreatePartitionsTopic(name=topic, count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[row], timeout_ms=30_000)

        async def grow() -> None:
            connection = await self.cluster.controller()
            answer = await connection.call(request, CreatePartitionsResponse)
            result = answer.results[0]
            check(result.error_code, f"topic {topic}", result.error_message)

        await self.cluster.retrying(grow, _NOT_CONTROLLER, PATIENCE_S)
        self.cluster.forget(topic)

    async def settings(self, topic: str) -> list[Setting]:
        """Return all settings of a topic, sorted by name."""
        return await _settings(await self.cluster.any_node(), TOPIC_RESOURCE, topic)

    async def node_settings(self, node_id: int | None = None) -> list[Setting]:
        """Return all settings of a node, else of the controller, sorted by name."""
        if node_id is None:
            await self.cluster.controller()
            node_id = self.cluster.controller_id
        return await _settings(await self.cluster.node(node_id), NODE_RESOURCE, str(node_id))

    async def alter_settings(
        self, topic: str, changes: Mapping[str, str], resets: Iterable[str] = ()
    ) -> None:
        """Set settings of a topic, and give others back to their defaults."""
        await self._alter(TOPIC_RESOURCE, topic, changes, resets)

    async def alter_node_settings(
        self, changes: Mapping[str, str], resets: Iterable[str] = ()
    ) -> None:
        """Set settings of all nodes while they run, and give others back to their defaults."""
        await self._alter(NODE_RESOURCE, EVERY_NODE, changes, resets)

    async def _alter(
        self, kind: int, name: str, changes: Mapping[str, str], resets: Iterable[str]
    ) -> None:
        rows = [AlterableConfig(name, SET, value) for name, value in changes.items()]
        rows += [AlterableConfig(name, DELETE, None) for name in resets]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
        connection = await self.cluster.controller()
        answer = await connection.call(
            IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
        )
        result = answer.responses[0]
        check(result.error_code, _resource(kind, name), result.error_message)

    async def ends(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the next offset of each partition."""
        return await ends_of(self.cluster, partitions)

    async def groups(self) -> list[GroupSummary]:
        """Return the groups of all nodes, sorted by name."""
        found: dict[str, GroupSummary] = {}
        for node_id in list(self.cluster.nodes):
            connection = await self.cluster.node(node_id)
            answer = await connection.call(ListGroupsRequest(), ListGroupsResponse)
            check(answer.error_code, "the list of groups")
            for row in answer.groups:
                found[row.group_id] = GroupSummary(
                    group=row.group_id,
                    state=row.group_state,
                    kind=row.group_type,
                    protocol_type=row.protocol_type,
                )
        return [found[group] for group in sorted(found)]

    async def describe_group(self, group: str) -> GroupDescription:
        """Return a group's state and members, or raise BrokerRefused with GROUP_ID_NOT_FOUND."""

        async def describe() -> GroupDescription:
            connection = await self.cluster.coordinator(group)
            answer = await connection.call(
                DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse
            )
            row = answer.groups[0]
            if row.group_state == "Dead" and connection.knows(ConsumerGroupDescribeRequest):
                return await _describe_consumers(connection, group)
            check(row.error_code, f"group {group}", row.error_message)
            if row.group_state == "Dead":
                raise BrokerRefused(Code.GROUP_ID_NOT_FOUND, f"group {group}")
            members = [
                Member(
                    member_id=member.member_id,
                    instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    host=member.client_host.removeprefix("/"),
                    partitions=tuple(_partitions(row.protocol_type, member.member_assignment)),
                )
                for member in row.members
            ]
            return GroupDescription(
                group=group,
                state=row.group_state,
                assignor=row.protocol_data,
                coordinator=str(connection.address),
                members=tuple(members),
            )

        return await self.cluster.retrying(describe, MOVED, PATIENCE_S)

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return every offset that a group has committed."""

        async def fetch() -> dict[TopicPartition, int]:
            return await fetch_committed(await self.cluster.coordinator(group), group)

        return await self.cluster.retrying(fetch, MOVED, PATIENCE_S)

    async def lag(self, group: str) -> list[Lag]:
        """Return how far a group is behind, for each partition it reads or has committed."""
        description = await self.describe_group(group)
        committed = await self.committed(group)
        readers = {pair: member for member in description.members for pair in member.partitions}
        known = {info.name: len(info.partitions) for info in await self.topics()}
        pairs = sorted(pair for pair in {*committed, *readers} if pair[1] < known.get(pair[0], 0))
        ends = await self.ends(pairs)
        return [
            Lag(
                topic=pair[0],
                partition=pair[1],
                committed=committed.get(pair),
                start=ends[pair][0],
                end=ends[pair][1],
                member=readers.get(pair),
            )
            for pair in pairs
        ]

    async def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group that has no members at the moment."""

        async def commit() -> None:
            await commit_offsets(await self.cluster.coordinator(group), group, offsets)

        await self.cluster.retrying(commit, MOVED, PATIENCE_S)

    async def delete_group(self, group: str) -> None:
        """Delete a group without members, and its offsets."""

        async def delete() -> None:
            connection = await self.cluster.coordinator(group)
            request = DeleteGroupsRequest(groups_names=[group])
            answer = await connection.call(request, DeleteGroupsResponse)
            check(answer.results[0].error_code, f"group {group}")

        await self.cluster.retrying(delete, MOVED, PATIENCE_S)


def _partitions(protocol_type: str, assignment: bytes) -> list[TopicPartition]:
    return read_assignment(bytes(assignment)) if protocol_type == PROTOCOL_TYPE else []


async def _settings(connection: Connection, kind: int, name: str) -> list[Setting]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer = await connection.call(request, DescribeConfigsResponse)
    result = answer.results[0]
    check(result.error_code, _resource(kind, name), result.error_message)
    rows = [
        Setting(
            name=row.name,
            value=row.value,
            source=SOURCES.get(row.config_source, "unknown"),
            read_only=row.read_only,
        )
        for row in result.configs
    ]
    return sorted(rows, key=lambda row: row.name)


def _resource(kind: int, name: str) -> str:
    if kind == TOPIC_RESOURCE:
        return f"topic {name}"
    return f"node {name}" if name else "all nodes"


async def _describe_consumers(connection: Connection, group: str) -> GroupDescription:
    """Return what a node says of a group of the consumer protocol."""
    answer = await connection.call(
        ConsumerGroupDescribeRequest(group_ids=[group]), ConsumerGroupDescribeResponse
    )
    row = answer.groups[0]
    check(row.error_code, f"group {group}", row.error_message)
    members = [
        Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host.removeprefix("/"),
            partitions=tuple(
                (topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for member in row.members
    ]
    return GroupDescription(
        group=group,
        state=row.group_state,
        assignor=row.assignor_name,
        coordinator=str(connection.address),
        members=tuple(members),
    )

"""Consumer groups over HTTP: list, describe, lag, commit, move and delete."""

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chordmq.broker.bounds import NO_TIME, Extent
from chordmq.broker.broker import Broker
from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.consumer_groups import ConsumerGroup
from chordmq.broker.groups.consumer_image import ConsumerMember
from chordmq.broker.groups.consumer_protocol import CONSUMER, read_assignment
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.groups.reach import Summary
from chordmq.broker.groups.roster import Member
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.errors import InvalidRequest
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.mapping import LONG_MAX, Index, Offset

COMMITS_MAX = 10_000


class GroupRow(msgspec.Struct, frozen=True):
    """A group in a list."""

    group: str
    state: str
    protocol_type: str
    members: int


class GroupList(msgspec.Struct, frozen=True):
    """The groups that the client may see."""

    groups: list[GroupRow]


class PlaceRow(msgspec.Struct, frozen=True):
    """A partition."""

    topic: str
    partition: Index


class MemberRow(msgspec.Struct, frozen=True):
    """A consumer in a group, and what it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[PlaceRow]


class GroupDetail(msgspec.Struct, frozen=True):
    """A group with its consumers."""

    group: str
    state: str
    protocol_type: str
    assignor: str
    members: list[MemberRow]


class LagRow(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition."""

    topic: str
    partition: Index
    committed: Offset
    start_offset: Offset
    end_offset: Offset
    lag: int
    member_id: str | None


class Lag(msgspec.Struct, frozen=True):
    """How far a group is behind."""

    group: str
    total_lag: int
    partitions: list[LagRow]


class CommitRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The offset of the record that a group processes next in a partition."""

    topic: str
    partition: Index
    offset: Offset
    metadata: str = ""


class Commits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a group has processed."""

    offsets: Annotated[list[CommitRow], Meta(min_length=1, max_length=COMMITS_MAX)]


class Move(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Where a group's offsets go: exactly one of `to`, `timestamp` and `shift`."""

    topic: Annotated[str, Meta(description="Else all in which the group committed.")] | None = None
    partitions: Annotated[list[Index], Meta(description="Of the topic; else all.")] | None = None
    to: Annotated[
        Literal["earliest", "latest"] | Offset | None, Meta(description="An end, or an offset.")
    ] = None
    timestamp: Annotated[int, Meta(ge=0, le=LONG_MAX)] | None = None
    shift: (
        Annotated[int, Meta(ge=-LONG_MAX, le=LONG_MAX, description="So many records on, or back.")]
        | None
    ) = None
    execute: Annotated[bool, Meta(description="Do it; else only show what would change.")] = False


class MovedRow(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """One offset before and after."""

    topic: str
    partition: Index
    before: Offset | None
    after: Offset


class Moved(msgspec.Struct, frozen=True):
    """What moved, or would."""

    group: str
    executed: bool
    partitions: list[MovedRow]


async def all_groups(broker: Broker) -> list[Summary]:
    """Return the groups of all living nodes."""
    others = [node for node in broker.members.live() if node != broker.node_id]
    return await broker.group_reach.all(others)


async def list_groups(call: Call) -> GroupList:
    """List the groups that the client may see."""
    sees_all = call.allows(Operation.DESCRIBE, Kind.CLUSTER)
    return GroupList(
        [
            GroupRow(one.group, one.state, one.protocol_type, one.members)
            for one in await all_groups(call.broker)
            if sees_all or call.allows(Operation.DESCRIBE, Kind.GROUP, one.group)
        ]
    )


async def describe_group(call: Call) -> GroupDetail:
    """Show a group's state and its consumers."""
    group = _group(call, Operation.DESCRIBE)
    return GroupDetail(
        group=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type,
        assignor=group.assignor if isinstance(group, ConsumerGroup) else group.protocol or "",
        members=[
            MemberRow(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host.removeprefix("/"),
                partitions=[PlaceRow(*place) for place in places],
            )
            for member, places in _members(call, group)
        ],
    )


async def show_lag(call: Call) -> Lag:
    """Show how many records a group has still to read, by partition."""
    group = _group(call, Operation.DESCRIBE)
    readers = {
        place: member.member_id for member, places in _members(call, group) for place in places
    }
    committed = {
        call.broker.partition(*place): one.offset
        for place, one in sorted(call.broker.groups.committed(group.group_id).items())
        if call.allows(Operation.DESCRIBE, Kind.TOPIC, place[0])
    }
    extents = await call.broker.bounds.of(committed)
    rows = [
        LagRow(
            topic=partition.topic,
            partition=partition.index,
            committed=offset,
            start_offset=extents[partition].start,
            end_offset=extents[partition].watermark,
            lag=max(extents[partition].watermark - max(offset, extents[partition].start), 0),
            member_id=readers.get((partition.topic, partition.index)),
        )
        for partition, offset in committed.items()
    ]
    return Lag(group.group_id, sum(row.lag for row in rows), rows)


async def commit_offsets(call: Call, body: Commits) -> None:
    """Store how far a group has got; it must have no consumers that Kafka's protocol manages."""
    name = call.path("group")
    call.check(Operation.READ, Kind.GROUP, name)
    call.request.state.is_traffic = True
    for row in body.offsets:
        call.check(Operation.READ, Kind.TOPIC, row.topic)
        call.broker.partition(row.topic, row.partition)
    commits = [
        Commit(row.topic, row.partition, row.offset, metadata=row.metadata) for row in body.offsets
    ]
    await _commit(call, name, commits)


async def move_offsets(call: Call, body: Move) -> Moved:
    """Move a group's offsets; shows what would change unless told to `execute`."""
    name = call.path("group")
    call.check(Operation.READ, Kind.GROUP, name)
    if sum(one is not None for one in (body.to, body.timestamp, body.shift)) != 1:
        raise InvalidRequest("give one of to, timestamp and shift")
    committed = call.broker.groups.committed(name)
    rows = []
    partitions = list(_to_move(call, name, body))
    for partition in partitions:
        call.check(Operation.READ, Kind.TOPIC, partition.topic)
    time_ms = NO_TIME if body.timestamp is None else body.timestamp
    for partition, extent in (await call.broker.bounds.of(partitions, time_ms)).items():
        before = committed.get((partition.topic, partition.index))
        now = None if before is None else before.offset
        after = _target(extent, now, body)
        rows.append(MovedRow(partition.topic, partition.index, now, after))
    if body.execute:
        await _commit(call, name, [Commit(row.topic, row.partition, row.after) for row in rows])
    return Moved(name, body.execute, rows)


def _to_move(call: Call, group: str, body: Move) -> Iterator[Partition]:
    if body.topic is not None:
        topic = call.broker.topics.get(body.topic)
        indexes = range(len(topic.partitions)) if body.partitions is None else body.partitions
        yield from (call.broker.partition(topic.name, index) for index in indexes)
        return
    if body.partitions is not None:
        raise InvalidRequest("partitions are of a topic; name it")
    call.broker.groups.find(group)
    for place in sorted(call.broker.groups.committed(group)):
        yield call.broker.partition(*place)


def _target(extent: Extent, now: int | None, body: Move) -> int:
    """Return the offset to move to, within what the partition holds."""
    start, end = extent.start, extent.watermark
    if body.timestamp is not None:
        wanted = extent.at
    elif body.shift is not None:
        wanted = (start if now is None else now) + body.shift
    elif isinstance(body.to, int):
        wanted = body.to
    else:
        wanted = start if body.to == "earliest" else end
    return min(max(wanted, start), end)


async def delete_group(call: Call) -> None:
    """Delete a group that has no consumers, with its offsets."""
    name = call.path("group")
    call.check(Operation.DELETE, Kind.GROUP, name)
    await call.broker.groups.delete(name)


async def _commit(call: Call, group: str, commits: list[Commit]) -> None:
    call.broker.share_groups.refuse(group)
    await call.broker.group_reach.commit(group, commits)


def _group(call: Call, operation: Operation) -> Group | ConsumerGroup:
    name = call.path("group")
    call.check(operation, Kind.GROUP, name)
    return call.broker.groups.find(name)


def _members(
    call: Call, group: Group | ConsumerGroup
) -> list[tuple[Member | ConsumerMember, list[tuple[str, int]]]]:
    """Return the members with what each reads, as far as that can be understood."""
    if isinstance(group, ConsumerGroup):
        names = {topic.id: topic.name for topic in call.broker.topics}
        return [
            (member, [(names[id_], i) for id_, i in _held(group, member_id) if id_ in names])
            for member_id, member in group.image.members.items()
        ]
    return [
        (member, sorted(read_assignment(member.assignment) or ()))
        if group.protocol_type == CONSUMER
        else (member, [])
        for member in group.roster.members.values()
    ]


def _held(group: ConsumerGroup, member_id: str) -> list[tuple[bytes, int]]:
    return sorted(group.image.holding(member_id).assigned)


ROUTES = [
    Api("GET", "/v1/groups", list_groups),
    Api("GET", "/v1/groups/{group}", describe_group),
    Api("DELETE", "/v1/groups/{group}", delete_group),
    Api("GET", "/v1/groups/{group}/lag", show_lag),
    Api("PUT", "/v1/groups/{group}/offsets", commit_offsets),
    Api("POST", "/v1/groups/{group}/offsets", move_offsets),
]

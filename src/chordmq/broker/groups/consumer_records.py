"""Groups of the consumer protocol as records of `__consumer_offsets`, in Kafka's own bytes.

A key is its type as i16 and one or two strings with i16 lengths; a value is its version as i16 and
one of the structures below in Kafka's compact form. A null value deletes the key.

    key 3   group          the group's epoch
    key 5   group, member  what a member says of itself
    key 6   group          the epoch of the target assignment
    key 7   group, member  what a member is to have
    key 8   group, member  what a member has

Key 4, the partitions of all topics in older releases, is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, TypeVar

from msgspec import Struct, field

from chordmq.broker.groups.assignors import Assignment
from chordmq.broker.groups.consumer_image import (
    ClassicTerms,
    ConsumerMember,
    ConsumerRecord,
    EpochRecord,
    Holding,
    HoldingRecord,
    MemberRecord,
    Step,
    TargetEpochRecord,
    TargetRecord,
)
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.codecs.kafka.wire import NO_UUID, Wire
from chordmq.errors import DecodeError

EPOCH_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, HOLDING_KEY = 3, 5, 6, 7, 8
KEYS = frozenset({EPOCH_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, HOLDING_KEY})
KIND_SIZE = 2
VERSION = 0

Value = TypeVar("Value")


class GroupKey(Struct):
    """The rest of a key that names a group."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    group_id: Annotated[str, Wire("string")] = ""


class MemberKey(Struct):
    """The rest of a key that names a member of a group."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    group_id: Annotated[str, Wire("string")] = ""
    member_id: Annotated[str, Wire("string")] = ""


class EpochValue(Struct):
    """Value of key 3."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    epoch: Annotated[int, Wire("int32")] = 0
    metadata_hash: Annotated[int, Wire("int64", tag=0)] = 0


class ClassicProtocol(Struct):
    """A part of MemberValue."""

    name: Annotated[str, Wire("string")] = ""
    metadata: Annotated[bytes, Wire("bytes")] = b""


class ClassicMemberMetadata(Struct):
    """A part of MemberValue."""

    session_timeout_ms: Annotated[int, Wire("int32")] = 0
    supported_protocols: Annotated[list[ClassicProtocol], Wire("[]ClassicProtocol")] = field(
        default_factory=list
    )


class MemberValue(Struct):
    """Value of key 5."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    instance_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    rack_id: Annotated[str | None, Wire("string", nullable="0+")] = None
    client_id: Annotated[str, Wire("string")] = ""
    client_host: Annotated[str, Wire("string")] = ""
    subscribed_topic_names: Annotated[list[str], Wire("[]string")] = field(default_factory=list)
    subscribed_topic_regex: Annotated[str | None, Wire("string", nullable="0+")] = None
    rebalance_timeout_ms: Annotated[int, Wire("int32")] = -1
    server_assignor: Annotated[str | None, Wire("string", nullable="0+")] = None
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None, Wire("ClassicMemberMetadata", nullable="0+", tag=0)
    ] = None


class TargetEpochValue(Struct):
    """Value of key 6."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    assignment_epoch: Annotated[int, Wire("int32")] = 0


class TopicPartitions(Struct):
    """A part of TargetValue and HoldingValue."""

    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partitions: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class TargetValue(Struct):
    """Value of key 7."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    topic_partitions: Annotated[list[TopicPartitions], Wire("[]TopicPartitions")] = field(
        default_factory=list
    )


class HoldingValue(Struct):
    """Value of key 8."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    member_epoch: Annotated[int, Wire("int32")] = 0
    previous_member_epoch: Annotated[int, Wire("int32")] = 0
    state: Annotated[int, Wire("int8")] = 0
    assigned_partitions: Annotated[list[TopicPartitions], Wire("[]TopicPartitions")] = field(
        default_factory=list
    )
    partitions_pending_revocation: Annotated[list[TopicPartitions], Wire("[]TopicPartitions")] = (
        field(default_factory=list)
    )


def write(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value that store the record."""
    match record:
        case EpochRecord(group_id, epoch, digest):
            value = None if epoch is None else EpochValue(epoch, digest)
            return _key(EPOCH_KEY, GroupKey(group_id)), _value(value)
        case MemberRecord(group_id, member_id, member):
            return _key(MEMBER_KEY, MemberKey(group_id, member_id)), _value(
                None if member is None else _member_value(member)
            )
        case TargetEpochRecord(group_id, epoch):
            return _key(TARGET_EPOCH_KEY, GroupKey(group_id)), _value(
                None if epoch is None else TargetEpochValue(epoch)
            )
        case TargetRecord(group_id, member_id, assignment):
            return _key(TARGET_KEY, MemberKey(group_id, member_id)), _value(
                None if assignment is None else TargetValue(_topics(assignment))
            )
        case HoldingRecord(group_id, member_id, holding):
            return _key(HOLDING_KEY, MemberKey(group_id, member_id)), _value(
                None if holding is None else _holding_value(holding)
            )


def read(kind: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """Return what a key of one of the types above and its value store."""
    if kind == EPOCH_KEY:
        group_id = decode(GroupKey, 0, key, KIND_SIZE).group_id
        epoch = _read(EpochValue, value, lambda read: read)
        if epoch is None:
            return EpochRecord(group_id, None)
        return EpochRecord(group_id, epoch.epoch, epoch.metadata_hash)
    if kind == TARGET_EPOCH_KEY:
        group_id = decode(GroupKey, 0, key, KIND_SIZE).group_id
        target = _read(TargetEpochValue, value, lambda read: read.assignment_epoch)
        return TargetEpochRecord(group_id, target)
    names = decode(MemberKey, 0, key, KIND_SIZE)
    group_id, member_id = names.group_id, names.member_id
    if kind == MEMBER_KEY:
        member = _read(MemberValue, value, lambda read: _read_member(member_id, read))
        return MemberRecord(group_id, member_id, member)
    if kind == TARGET_KEY:
        assignment = _read(TargetValue, value, lambda read: _places(read.topic_partitions))
        return TargetRecord(group_id, member_id, assignment)
    return HoldingRecord(group_id, member_id, _read(HoldingValue, value, _read_holding))


def _key(kind: int, names: GroupKey | MemberKey) -> bytes:
    return kind.to_bytes(KIND_SIZE, "big") + encode(names, 0)


def _value(value: Any) -> bytes | None:
    if value is None:
        return None
    return VERSION.to_bytes(KIND_SIZE, "big") + encode(value, VERSION)


Result = TypeVar("Result")


def _read(cls: type[Value], value: bytes | None, then: Callable[[Value], Result]) -> Result | None:
    if value is None:
        return None
    if len(value) < KIND_SIZE or int.from_bytes(value[:KIND_SIZE], "big") != VERSION:
        raise DecodeError(f"{cls.__name__} of an unknown version")
    return then(decode(cls, VERSION, value, KIND_SIZE))


def _member_value(member: ConsumerMember) -> MemberValue:
    classic = None
    if member.classic is not None:
        protocols = [ClassicProtocol(*entry) for entry in member.classic.protocols]
        classic = ClassicMemberMetadata(member.classic.session_timeout_ms, protocols)
    return MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )


def _read_member(member_id: str, value: MemberValue) -> ConsumerMember:
    classic = None
    if value.classic_member_metadata is not None:
        terms = value.classic_member_metadata
        protocols = tuple((p.name, bytes(p.metadata)) for p in terms.supported_protocols)
        classic = ClassicTerms(terms.session_timeout_ms, protocols)
    return ConsumerMember(
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        pattern=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=classic,
    )


def _holding_value(holding: Holding) -> HoldingValue:
    return HoldingValue(
        member_epoch=holding.epoch,
        previous_member_epoch=holding.previous_epoch,
        state=holding.step.value,
        assigned_partitions=_topics(holding.assigned),
        partitions_pending_revocation=_topics(holding.revoking),
    )


def _read_holding(value: HoldingValue) -> Holding:
    if value.state not in {step.value for step in Step}:
        raise DecodeError(f"a member in the unknown state {value.state}")
    return Holding(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        step=Step(value.state),
        assigned=_places(value.assigned_partitions),
        revoking=_places(value.partitions_pending_revocation),
    )


def _topics(assignment: Assignment) -> list[TopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(assignment):
        topics.setdefault(topic_id, []).append(index)
    return [TopicPartitions(*entry) for entry in topics.items()]


def _places(topics: Iterable[TopicPartitions]) -> Assignment:
    return frozenset((bytes(topic.topic_id), i) for topic in topics for i in topic.partitions)

"""A group with members from one protocol to the other, while they go on reading."""

from collections.abc import Iterable

from chordmq.broker.groups.classic_groups import Group
from chordmq.broker.groups.classic_members import common_protocols, to_names, to_places
from chordmq.broker.groups.consumer_image import (
    ClassicTerms,
    ConsumerMember,
    ConsumerRecord,
    EpochRecord,
    Holding,
    HoldingRecord,
    Image,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
)
from chordmq.broker.groups.consumer_protocol import (
    CONSUMER,
    read_assignment,
    read_subscription,
    write_assignment,
)
from chordmq.broker.groups.membership import GroupSnapshot, MemberSnapshot
from chordmq.broker.groups.roster import Member
from chordmq.broker.groups.topic_view import TopicView
from chordmq.broker.settings import BrokerSettings


def can_upgrade(group: Group, settings: BrokerSettings) -> bool:
    """Return whether a classic group can go on as one of the consumer protocol."""
    members = group.roster.members.values()
    if not members:
        return True
    return (
        settings.group_consumer_migration_policy in ("upgrade", "bidirectional")
        and group.protocol_type == CONSUMER
        and len(members) <= settings.group_consumer_max_size
        and all(
            read_subscription(metadata) is not None
            for member in members
            for _, metadata in member.protocols
        )
    )


def upgraded(group: Group, topics: TopicView) -> Image:
    """Return the classic group as the consumer protocol sees it: everybody has what it had.

    Members that have not finished their first join are left out; they will join again.
    """
    image = Image(group.group_id)
    group_id, epoch = group.group_id, max(group.generation, 1)
    image.replay(EpochRecord(group_id, epoch))
    image.replay(TargetEpochRecord(group_id, epoch))
    for old in group.roster.members.values():
        if old.is_new:
            continue
        member = _upgraded_member(old, group.protocol)
        places = to_places(read_assignment(old.assignment) or frozenset(), topics)
        places = frozenset(place for place in places if place not in image.holders)
        holding = Holding(epoch=epoch, previous_epoch=epoch, assigned=places)
        for record in _records_of(group_id, member, holding):
            image.replay(record)
    return image


def _upgraded_member(old: Member, protocol: str | None) -> ConsumerMember:
    elected = [entry for entry in old.protocols if entry[0] == protocol]
    protocols = (*elected, *(entry for entry in old.protocols if entry[0] != protocol))
    subscription = read_subscription(protocols[0][1])
    assert subscription is not None, "a group that cannot be upgraded was"
    return ConsumerMember(
        member_id=old.member_id,
        instance_id=old.instance_id,
        rack_id=subscription.rack_id,
        client_id=old.client_id,
        client_host=old.client_host,
        topics=subscription.topics,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        classic=ClassicTerms(old.session_timeout_ms, protocols),
    )


def _records_of(
    group_id: str, member: ConsumerMember, holding: Holding
) -> Iterable[ConsumerRecord]:
    yield MemberRecord(group_id, member.member_id, member)
    yield TargetRecord(group_id, member.member_id, holding.assigned)
    yield HoldingRecord(group_id, member.member_id, holding)


def can_downgrade(image: Image, settings: BrokerSettings) -> bool:
    """Return whether only classic members are left, and may go on among themselves."""
    members = image.members.values()
    return (
        bool(members)
        and settings.group_consumer_migration_policy in ("downgrade", "bidirectional")
        and len(members) <= settings.group_max_size
        and all(member.classic is not None for member in members)
    )


def downgraded(image: Image, topics: TopicView) -> GroupSnapshot:
    """Return the group as a generation of the classic protocol: everybody has what it had."""
    terms = {m.member_id: m.classic for m in image.members.values() if m.classic is not None}
    names = common_protocols([classic.protocols for classic in terms.values()])
    first = next(iter(terms.values()), None)
    protocol = None
    if first is not None:
        protocol = next(name for name, _ in first.protocols if name in names)
    return GroupSnapshot(
        group_id=image.group_id,
        protocol_type=CONSUMER,
        generation=max(image.target_epoch, 1),
        protocol=protocol,
        leader=next(iter(terms), None),
        members=tuple(
            _downgraded_member(image, member_id, classic, protocol or "", topics)
            for member_id, classic in terms.items()
        ),
    )


def _downgraded_member(
    image: Image, member_id: str, classic: ClassicTerms, protocol: str, topics: TopicView
) -> MemberSnapshot:
    member = image.members[member_id]
    metadata = dict(classic.protocols)[protocol]
    subscription = read_subscription(metadata)
    version = subscription.version if subscription is not None else 0
    assigned = image.holding(member_id).assigned
    return MemberSnapshot(
        member_id=member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        subscription=metadata,
        assignment=write_assignment(to_names(assigned, topics), version),
    )

"""Members of the classic protocol in a group of the consumer protocol, while it changes over.

They join, sync and beat as always. The group's machine decides what they read, so nobody leads;
a member's epoch stands for the generation, and a member that is to change is told to join again.
"""

from collections.abc import Callable
from dataclasses import replace

from chordmq.broker.groups.assignors import Assignment
from chordmq.broker.groups.consumer_groups import ConsumerGroup
from chordmq.broker.groups.consumer_image import ClassicTerms, ConsumerMember, Step
from chordmq.broker.groups.consumer_protocol import (
    CONSUMER,
    NamedPlace,
    Subscription,
    read_subscription,
    write_assignment,
)
from chordmq.broker.groups.membership import Identity, Join, Joined, Protocols, Sync, Synced
from chordmq.broker.groups.topic_view import TopicView
from chordmq.errors import (
    FencedInstance,
    InconsistentProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)


def join(
    group: ConsumerGroup, join: Join, topics: TopicView, new_id: Callable[[], str], now_ms: int
) -> Joined:
    """Take a classic member in, or let it follow the group's changes; it never leads."""
    subscription = _checked(group, join)
    if join.takes_id_first and not join.member_id and join.instance_id is None:
        group.check_room()
        raise MemberIdRequired(f"{join.client_id}-{new_id()}")
    member = _member(group, join, new_id)
    member = replace(
        member,
        instance_id=join.instance_id,
        rack_id=subscription.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        topics=subscription.topics,
        pattern=None,
        classic=ClassicTerms(join.session_timeout_ms, join.protocols),
    )
    holding = group.settle(member, to_places(subscription.owned, topics), topics, now_ms)
    return Joined(
        generation=holding.epoch,
        protocol_type=CONSUMER,
        protocol=join.protocols[0][0],
        leader="",
        member_id=member.member_id,
    )


def sync(group: ConsumerGroup, sync: Sync, topics: TopicView, now_ms: int) -> Synced:
    """Tell a classic member what it may read."""
    member = _current(group, sync.member)
    terms = _terms(member)
    protocol = sync.protocol or terms.protocols[0][0]
    if (sync.protocol_type or CONSUMER) != CONSUMER or protocol not in dict(terms.protocols):
        raise InconsistentProtocol(f"the member does not know {sync.protocol}")
    holding = group.image.holding(member.member_id)
    if holding.epoch < group.image.epoch and holding.step is not Step.UNREVOKED:
        group.wait_for(member.member_id, now_ms)
        raise RebalanceInProgress(f"group {group.group_id} has changed")
    group.touch(member.member_id, now_ms)
    subscription = read_subscription(terms.protocols[0][1])
    version = subscription.version if subscription is not None else 0
    assignment = write_assignment(to_names(holding.assigned, topics), version)
    return Synced(protocol_type=CONSUMER, protocol=protocol, assignment=assignment)


def heartbeat(group: ConsumerGroup, identity: Identity, now_ms: int) -> None:
    """Prolong a classic member's session, and tell it when it must join again."""
    member = _current(group, identity)
    group.touch(member.member_id, now_ms)
    image = group.image
    holding = image.holding(member.member_id)
    missing = image.target(member.member_id) - holding.assigned
    if (
        holding.epoch < image.epoch
        or holding.step is Step.UNREVOKED
        or (holding.step is Step.UNRELEASED and missing.isdisjoint(image.holders))
    ):
        group.wait_for(member.member_id, now_ms)
        raise RebalanceInProgress(f"group {group.group_id} has changed")


def to_places(named: frozenset[NamedPlace], topics: TopicView) -> Assignment:
    """Return partitions by the ids of their topics; those of unknown topics fall away."""
    known = topics.by_name
    return frozenset((known[name].id, index) for name, index in named if name in known)


def to_names(places: Assignment, topics: TopicView) -> frozenset[NamedPlace]:
    """Return partitions by the names of their topics; those of deleted topics fall away."""
    known = topics.by_id
    return frozenset((known[id_].name, index) for id_, index in places if id_ in known)


def common_protocols(protocols: list[Protocols]) -> frozenset[str]:
    """Return the names that all members know."""
    names = [frozenset(dict(known)) for known in protocols]
    return frozenset.intersection(*names) if names else frozenset()


def _checked(group: ConsumerGroup, join: Join) -> Subscription:
    """Return what a join says, unless its bytes or its protocols do not fit the group."""
    read = [read_subscription(metadata) for _, metadata in join.protocols]
    first = read[0] if read else None
    if join.protocol_type != CONSUMER or first is None or None in read:
        raise InconsistentProtocol("only consumers can join this group")
    others = [
        member.classic.protocols
        for member in group.image.members.values()
        if member.classic is not None and member.member_id != join.member_id
    ]
    if not common_protocols([join.protocols, *others]):
        raise InconsistentProtocol(f"no protocol in common with group {group.group_id}")
    if join.session_timeout_ms < 0:
        raise InvalidSessionTimeout(f"{join.session_timeout_ms} ms")
    return first


def _member(group: ConsumerGroup, join: Join, new_id: Callable[[], str]) -> ConsumerMember:
    holder = group.image.static.get(join.instance_id or "")
    if holder is not None:
        if not join.member_id:
            return group.take_over(holder, f"{join.instance_id}-{new_id()}")
        if holder != join.member_id:
            raise FencedInstance(f"instance id {join.instance_id} belongs to {holder}")
    elif join.instance_id is not None and join.member_id:
        raise UnknownMember(f"no member has instance id {join.instance_id}")
    member_id = join.member_id or f"{join.instance_id or join.client_id}-{new_id()}"
    known = group.image.members.get(member_id)
    if known is None:
        group.check_room()
        return ConsumerMember(member_id=member_id)
    return known


def _current(group: ConsumerGroup, identity: Identity) -> ConsumerMember:
    member = group.find(identity.member_id, identity.instance_id)
    _terms(member)
    group.check_epoch(member, identity.generation)
    return member


def _terms(member: ConsumerMember) -> ClassicTerms:
    if member.classic is None:
        raise UnknownMember(f"{member.member_id} does not use the classic protocol")
    return member.classic

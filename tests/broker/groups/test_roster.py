"""Votes on a protocol, room in the group, and static members that come back (KIP-345)."""

import pytest

from chordmq.broker.groups.classic_states import State
from chordmq.broker.groups.membership import Identity, Joined, Leaver, Protocols, Sync
from chordmq.errors import (
    FencedInstance,
    GroupFull,
    InconsistentProtocol,
    UnknownMember,
)
from tests.broker.groups.group_driver import DELAY_MS, REBALANCE_MS, SESSION_MS, Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def pair(driver: Driver) -> tuple[Driver, Joined, Joined]:
    leader, follower = driver.stable(2)
    return driver, leader, follower


def test_the_protocol_with_most_votes_among_the_common_ones_wins(driver: Driver) -> None:
    """C4: cooperative rebalancing needs the right protocol, the rest is the clients' business."""
    sticky, ranged = ("cooperative-sticky", b"s"), ("range", b"r")
    other = ("roundrobin", b"o")
    wishes = [(ranged, sticky), (sticky, ranged), (other, sticky, ranged)]
    driver = Driver(group_initial_rebalance_delay_ms=DELAY_MS)
    tickets = [driver.join(f"c{n}", protocols=wish) for n, wish in enumerate(wishes)]
    driver.advance(DELAY_MS)
    for ticket in tickets:
        assert driver.joined(ticket).protocol == "cooperative-sticky"
    assert {m.metadata for m in driver.joined(tickets[0]).members} == {b"s"}


def test_a_tie_of_votes_goes_to_the_leaders_choice() -> None:
    driver = Driver(group_initial_rebalance_delay_ms=DELAY_MS)
    a, b = ("a", b""), ("b", b"")
    tickets = [driver.join("c0", protocols=(b, a)), driver.join("c1", protocols=(a, b))]
    driver.advance(DELAY_MS)
    assert driver.joined(tickets[1]).protocol == "b"


def test_a_group_moves_to_another_protocol_by_a_rolling_restart(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    both: Protocols = (("new", b""), ("range", b"r"))
    driver.join("c0", member_id=leader.member_id, protocols=both)
    driver.join("c1", member_id=follower.member_id, protocols=both)
    assert driver.group.protocol == "new"


@pytest.mark.parametrize(
    "changes",
    [
        {"protocols": (("sticky", b""),)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ],
)
def test_a_member_that_shares_no_protocol_is_refused(
    pair: tuple[Driver, Joined, Joined], changes: dict[str, object]
) -> None:
    driver, _, _ = pair
    with pytest.raises(InconsistentProtocol):
        driver.join("d", **changes)
    assert driver.state() is State.STABLE


def test_the_only_member_may_change_its_protocols(driver: Driver) -> None:
    (member,) = driver.stable()
    ticket = driver.join("c0", member_id=member.member_id, protocols=(("sticky", b""),))
    assert driver.joined(ticket).protocol == "sticky"


def test_a_full_group_takes_no_more_members() -> None:
    driver = Driver(group_max_size=2)
    leader, _ = driver.stable(2)
    with pytest.raises(GroupFull):
        driver.join("d")
    driver.heartbeat(leader)
    driver.join("c0", member_id=leader.member_id)


def test_a_group_with_ten_thousand_idle_members_looks_at_few_of_them_at_a_time() -> None:
    driver = Driver(group_initial_rebalance_delay_ms=DELAY_MS)
    tickets = [driver.join(f"c{n}") for n in range(10_000)]
    driver.advance(DELAY_MS)
    members = [driver.joined(ticket) for ticket in tickets]
    driver.sync(members[0])
    for member in members[1:]:
        driver.sync(member)
    for member in members:
        driver.heartbeat(member)
    assert driver.state() is State.STABLE
    assert len(driver.group._sessions._heap) <= 2 * len(members)


def static_pair(rebalance_timeout_ms: int = REBALANCE_MS) -> tuple[Driver, Joined, Joined]:
    """Return a stable group of two static members, i0 leading and i1."""
    driver = Driver(group_initial_rebalance_delay_ms=DELAY_MS)
    tickets = [
        driver.join(f"c{n}", instance_id=f"i{n}", rebalance_timeout_ms=rebalance_timeout_ms)
        for n in (0, 1)
    ]
    driver.advance(DELAY_MS)
    leader, follower = (driver.joined(ticket) for ticket in tickets)
    waiting = driver.sync(follower)
    driver.sync(leader, i0_1=b"left", i1_2=b"right")
    assert driver.synced(waiting) == b"right"
    return driver, leader, follower


def of(joined: Joined, instance_id: str) -> Identity:
    return Identity(
        member_id=joined.member_id, instance_id=instance_id, generation=joined.generation
    )


def test_a_static_member_is_named_after_its_instance_and_needs_no_second_step() -> None:
    driver = Driver()
    joined = driver.joined(driver.join("c", instance_id="i", takes_id_first=True))
    assert joined.member_id == "i-1"
    assert joined.members[0].instance_id == "i"


def test_a_restarted_static_follower_keeps_its_assignment_without_a_rebalance() -> None:
    """C4: static membership."""
    driver, leader, follower = static_pair()
    again = driver.joined(driver.join("c1", instance_id="i1"))
    assert driver.state() is State.STABLE
    assert again.generation == follower.generation
    assert again.member_id != follower.member_id
    assert again.members == ()
    assert driver.synced(driver.sync(again)) == b"right"
    driver.heartbeat(leader)


def test_a_replaced_static_member_is_in_the_log_before_it_is_answered() -> None:
    driver, _, _ = static_pair()
    driver._log_at_once = False
    driver.join("c1", instance_id="i1")
    (snapshot,) = driver.unlogged
    assert [(m.instance_id, m.assignment) for m in snapshot.members] == [
        ("i0", b"left"),
        ("i1", b"right"),
    ]


def test_the_former_process_of_a_static_member_is_fenced() -> None:
    driver, _, follower = static_pair()
    driver.join("c1", instance_id="i1")
    stale = of(follower, "i1")
    with pytest.raises(FencedInstance):
        driver.group.heartbeat(stale, 0)
    with pytest.raises(FencedInstance):
        driver.group.sync(Sync(member=stale, assignments={}), 99, 0)
    with pytest.raises(FencedInstance):
        driver.group.check_commit(stale, 0)
    with pytest.raises(FencedInstance):
        driver.join("c1", instance_id="i1", member_id=follower.member_id)
    (result,) = driver.leave(Leaver(member_id=follower.member_id, instance_id="i1"))
    assert isinstance(result, FencedInstance)


def test_the_parked_join_of_a_former_process_is_fenced_at_once() -> None:
    driver, leader, follower = static_pair()
    driver.join("c2", instance_id="i2")
    parked = driver.join("c1", instance_id="i1", member_id=follower.member_id)
    driver.join("c1", instance_id="i1")
    assert driver.refused(parked) is FencedInstance
    assert len(driver.group.roster) == 3
    assert leader.member_id in driver.group.roster.members


def test_a_restarted_static_leader_is_told_that_its_former_self_leads() -> None:
    """C4: before v9 that keeps it from computing an assignment that nobody asked for."""
    driver, leader, follower = static_pair()
    again = driver.joined(driver.join("c0", instance_id="i0"))
    assert again.leader == leader.member_id
    assert again.members == ()
    assert not again.skip_assignment
    assert driver.synced(driver.sync(again)) == b"left"
    assert driver.group.roster.leader == again.member_id
    driver.heartbeat(follower)


def test_a_restarted_static_leader_skips_the_assignment_when_it_can() -> None:
    """C4: JoinGroup v9."""
    driver, _, _ = static_pair()
    again = driver.joined(driver.join("c0", instance_id="i0", can_skip_assignment=True))
    assert again.skip_assignment
    assert again.leader == again.member_id
    assert len(again.members) == 2
    follower = driver.joined(driver.join("c1", instance_id="i1", can_skip_assignment=True))
    assert not follower.skip_assignment
    assert follower.leader == again.member_id
    assert driver.synced(driver.sync(again)) == b"left"


def test_a_static_member_that_brings_another_protocol_starts_a_rebalance() -> None:
    driver = Driver()
    joined = driver.joined(driver.join("c", instance_id="i"))
    driver.sync(joined)
    again = driver.joined(driver.join("c", instance_id="i", protocols=(("sticky", b""),)))
    assert again.generation == joined.generation + 1
    assert again.protocol == "sticky"


def test_a_static_member_that_returns_in_a_half_made_generation_starts_the_next() -> None:
    driver = Driver()
    first = driver.joined(driver.join("c", instance_id="i"))
    assert driver.state() is State.COMPLETING
    again = driver.joined(driver.join("c", instance_id="i"))
    assert again.generation == first.generation + 1
    assert len(driver.group.roster) == 1


def test_an_absent_static_member_stays_in_the_group_until_its_session_ends() -> None:
    """C4: a rebalance does not drop it, so that it finds its partitions when it is back."""
    timeout_ms = SESSION_MS // 10
    driver, leader, _ = static_pair(rebalance_timeout_ms=timeout_ms)
    ticket = driver.join(
        "c0",
        instance_id="i0",
        member_id=leader.member_id,
        rebalance_timeout_ms=timeout_ms,
    )
    driver.advance(timeout_ms)
    leader = driver.joined(ticket)
    assert leader.generation == 2
    assert [member.instance_id for member in leader.members] == ["i0", "i1"]
    driver.sync(leader, i0_1=b"left", i1_2=b"still right")
    back = driver.joined(driver.join("c1", instance_id="i1"))
    assert driver.synced(driver.sync(back)) == b"still right"


def test_a_rebalance_with_nobody_but_absent_static_members_waits_for_their_sessions() -> None:
    driver, leader, _ = static_pair(rebalance_timeout_ms=SESSION_MS // 10)
    driver.leave(Leaver(member_id=leader.member_id, instance_id="i0"))
    driver.advance(SESSION_MS // 2)
    assert driver.state() is State.PREPARING
    driver.advance(SESSION_MS)
    assert driver.state() is State.EMPTY


def test_a_silent_static_member_is_dropped_at_the_end_of_its_session() -> None:
    driver, leader, follower = static_pair()
    driver.advance(SESSION_MS - 1)
    driver.group.heartbeat(of(leader, "i0"), driver.now_ms)
    driver.advance(1)
    assert follower.member_id not in driver.group.roster.members
    with pytest.raises(UnknownMember):
        driver.group.heartbeat(of(follower, "i1"), driver.now_ms)


def test_an_operator_removes_a_static_member_by_its_instance_id() -> None:
    driver, leader, _ = static_pair()
    results = driver.leave(Leaver(instance_id="i1"), Leaver(instance_id="nobody"))
    assert results[0] is None
    assert isinstance(results[1], UnknownMember)
    assert list(driver.group.roster.members) == [leader.member_id]


def test_a_static_member_may_return_to_a_full_group() -> None:
    driver = Driver(group_max_size=1)
    driver.sync(driver.joined(driver.join("c", instance_id="i")))
    assert driver.joined(driver.join("c", instance_id="i")).generation == 1
    with pytest.raises(GroupFull):
        driver.join("d", instance_id="j")

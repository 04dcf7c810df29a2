"""The machine of one classic group: its phases, its time-outs and who is let in."""

import itertools

import pytest

from chordmq.broker.groups.classic_groups import NEW_MEMBER_TIMEOUT_MS
from chordmq.broker.groups.classic_states import TRANSITIONS, Event, State
from chordmq.broker.groups.membership import Identity, Joined, Leaver, Sync
from chordmq.errors import (
    CoordinatorNotAvailable,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    StorageFailed,
    UnknownMember,
)
from tests.broker.groups.group_driver import DELAY_MS, REBALANCE_MS, SESSION_MS, Driver, identity


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def pair(driver: Driver) -> tuple[Driver, Joined, Joined]:
    leader, follower = driver.stable(2)
    return driver, leader, follower


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_a_pair_of_state_and_event_not_in_the_table_is_refused(
    driver: Driver, state: State, event: Event
) -> None:
    driver.group.state = state
    if (state, event) in TRANSITIONS:
        driver.group._move(event)
        assert driver.group.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError):
            driver.group._move(event)
        assert driver.group.state is state


def test_the_first_member_leads_and_sees_the_members(driver: Driver) -> None:
    """C4: join, sync and the assignment that the leader made."""
    joined = driver.joined(driver.join("c"))
    assert joined.generation == 1
    assert joined.leader == joined.member_id == "c-1"
    assert [(m.member_id, m.metadata) for m in joined.members] == [("c-1", b"r")]
    assert driver.state() is State.COMPLETING
    assert driver.synced(driver.sync(joined, c_1=b"all")) == b"all"
    assert driver.state() is State.STABLE


def test_only_the_leader_sees_the_members(pair: tuple[Driver, Joined, Joined]) -> None:
    _, leader, follower = pair
    assert leader.generation == follower.generation == 2
    assert leader.leader == follower.leader == leader.member_id
    assert len(leader.members) == 2
    assert follower.members == ()


def test_each_member_gets_its_part_of_the_leaders_plan(driver: Driver) -> None:
    first = driver.joined(driver.join("a"))
    driver.sync(first, a_1=b"all")
    second_ticket = driver.join("b")
    with pytest.raises(RebalanceInProgress):
        driver.heartbeat(first)
    first = driver.joined(driver.join("a", member_id=first.member_id))
    second = driver.joined(second_ticket)
    waiting = driver.sync(second)
    assert waiting not in driver.answers
    leading = driver.sync(first, a_1=b"left", b_2=b"right")
    assert driver.synced(leading) == b"left"
    assert driver.synced(waiting) == b"right"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(driver: Driver) -> None:
    joined = driver.joined(driver.join())
    assert driver.synced(driver.sync(joined)) == b""


def test_an_assignment_is_told_only_after_it_is_in_the_log() -> None:
    """C4: what a member was told survives a crash."""
    driver = Driver(log_at_once=False)
    joined = driver.joined(driver.join())
    ticket = driver.sync(joined, c_1=b"all")
    assert ticket not in driver.answers
    assert driver.state() is State.COMPLETING
    driver.log()
    assert driver.synced(ticket) == b"all"
    assert driver.state() is State.STABLE


def test_a_sync_repeated_while_the_log_is_written_is_answered_once(driver: Driver) -> None:
    driver = Driver(log_at_once=False)
    joined = driver.joined(driver.join())
    lost = driver.sync(joined, c_1=b"all")
    again = driver.sync(joined, c_1=b"all")
    assert len(driver.unlogged) == 1
    driver.log()
    assert driver.refused(lost) is RebalanceInProgress
    assert driver.synced(again) == b"all"


def test_a_generation_that_the_log_refuses_is_formed_again() -> None:
    driver = Driver(log_at_once=False)
    joined = driver.joined(driver.join())
    ticket = driver.sync(joined, c_1=b"all")
    driver.group.lose(driver.unlogged.pop(), StorageFailed("no"), driver.now_ms)
    driver.collect()
    assert driver.refused(ticket) is StorageFailed
    assert driver.state() is State.PREPARING
    again = driver.joined(driver.join("c", member_id=joined.member_id))
    assert again.generation == joined.generation + 1


def test_a_snapshot_that_arrives_after_the_next_rebalance_began_changes_no_member() -> None:
    driver = Driver(log_at_once=False)
    first = driver.joined(driver.join("a"))
    ticket = driver.sync(first, a_1=b"all")
    driver.join("b")
    assert driver.refused(ticket) is RebalanceInProgress
    driver.log()
    assert driver.state() is State.PREPARING
    assert driver.group.committed is not None
    assert driver.group.committed.generation == first.generation


def test_a_new_member_is_first_given_an_id_when_its_client_knows_that_step(
    driver: Driver,
) -> None:
    """C1: JoinGroup v4+ answers MEMBER_ID_REQUIRED once."""
    with pytest.raises(MemberIdRequired) as raised:
        driver.join("c", takes_id_first=True)
    assert driver.state() is State.EMPTY
    joined = driver.joined(driver.join(member_id=raised.value.member_id, takes_id_first=True))
    assert joined.member_id == raised.value.member_id == "c-1"


def test_an_id_that_is_never_used_expires(driver: Driver) -> None:
    with pytest.raises(MemberIdRequired) as raised:
        driver.join("c", takes_id_first=True)
    driver.advance(SESSION_MS)
    assert driver.group.is_unused
    with pytest.raises(UnknownMember):
        driver.join(member_id=raised.value.member_id)


def test_a_rebalance_waits_for_members_that_were_just_given_an_id(driver: Driver) -> None:
    (first,) = driver.stable()
    with pytest.raises(MemberIdRequired) as raised:
        driver.join("d", takes_id_first=True)
    ticket = driver.join("c0", member_id=first.member_id)
    assert ticket not in driver.answers
    second = driver.join("d", member_id=raised.value.member_id, takes_id_first=True)
    assert len(driver.joined(ticket).members) == 2
    assert driver.joined(second).generation == 2


def test_a_pending_id_that_expires_lets_the_rebalance_go_on(driver: Driver) -> None:
    (first,) = driver.stable()
    with pytest.raises(MemberIdRequired):
        driver.join("d", takes_id_first=True)
    ticket = driver.join("c0", member_id=first.member_id)
    driver.advance(SESSION_MS)
    assert len(driver.joined(ticket).members) == 1


def test_a_pending_id_may_leave(driver: Driver) -> None:
    with pytest.raises(MemberIdRequired) as raised:
        driver.join("c", takes_id_first=True)
    assert driver.leave(Leaver(member_id=raised.value.member_id)) == [None]
    assert driver.group.is_unused


def test_a_new_group_waits_a_moment_for_more_members() -> None:
    driver = Driver(group_initial_rebalance_delay_ms=DELAY_MS)
    first = driver.join("a")
    driver.advance(DELAY_MS - 1)
    second = driver.join("b")
    driver.advance(DELAY_MS - 1)
    assert first not in driver.answers
    driver.advance(1)
    assert driver.joined(first).generation == driver.joined(second).generation == 1
    assert len(driver.joined(first).members) == 2


def test_the_initial_delay_ends_at_the_rebalance_time_out_however_many_come() -> None:
    driver = Driver(group_initial_rebalance_delay_ms=DELAY_MS)
    first = driver.join("c0", rebalance_timeout_ms=3 * DELAY_MS)
    for n in range(1, 10):
        driver.advance(DELAY_MS // 2)
        driver.join(f"c{n}", rebalance_timeout_ms=3 * DELAY_MS)
        if first in driver.answers:
            break
    assert driver.joined(first).generation == 1
    assert driver.now_ms <= 3 * DELAY_MS


def test_a_member_that_is_silent_for_its_session_is_dropped(
    pair: tuple[Driver, Joined, Joined],
) -> None:
    driver, leader, follower = pair
    driver.advance(SESSION_MS - 1)
    driver.heartbeat(leader)
    driver.advance(1)
    assert driver.state() is State.PREPARING
    with pytest.raises(UnknownMember):
        driver.heartbeat(follower)
    with pytest.raises(RebalanceInProgress):
        driver.heartbeat(leader)


def test_a_heartbeat_prolongs_the_session(driver: Driver) -> None:
    (member,) = driver.stable()
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(member)
    assert driver.state() is State.STABLE


def test_a_member_that_waits_for_others_does_not_time_out(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    ticket = driver.join("c0", member_id=leader.member_id)
    for _ in range(4):
        driver.advance(SESSION_MS - 1)
        with pytest.raises(RebalanceInProgress):
            driver.heartbeat(follower)
    assert ticket not in driver.answers
    assert leader.member_id in driver.group.roster.members


def test_members_that_do_not_rejoin_in_time_are_dropped(
    pair: tuple[Driver, Joined, Joined],
) -> None:
    """C4: the rebalance time-out."""
    driver, leader, follower = pair
    ticket = driver.join("c0", member_id=leader.member_id)
    for _ in range(REBALANCE_MS // SESSION_MS):
        driver.advance(SESSION_MS - 1)
        with pytest.raises(RebalanceInProgress):
            driver.heartbeat(follower)
    driver.advance(SESSION_MS)
    assert [m.member_id for m in driver.joined(ticket).members] == [leader.member_id]
    with pytest.raises(UnknownMember):
        driver.heartbeat(follower)


def test_a_member_that_never_syncs_is_dropped(driver: Driver) -> None:
    leader = driver.joined(driver.join("a"))
    driver.sync(leader, a_1=b"")
    late = driver.join("b")
    leader = driver.joined(driver.join("a", member_id=leader.member_id))
    driver.sync(leader, a_1=b"")
    lazy = driver.joined(late)
    assert driver.state() is State.STABLE
    for _ in range(REBALANCE_MS // SESSION_MS + 1):
        for member in (leader, lazy):
            try:
                driver.heartbeat(member)
            except RebalanceInProgress:
                pass
            except UnknownMember:
                assert member is lazy
        driver.advance(SESSION_MS - 1)
    assert list(driver.group.roster.members) == [leader.member_id]


def test_a_leader_that_never_syncs_does_not_block_the_group(driver: Driver) -> None:
    leader, _ = driver.stable(2)
    late = driver.join("d")
    for index in (0, 1):
        driver.join(f"c{index}", member_id=list(driver.group.roster.members)[index])
    waiting = driver.sync(driver.joined(late))
    driver.advance(REBALANCE_MS)
    assert driver.refused(waiting) in (RebalanceInProgress, UnknownMember)
    assert leader.member_id not in driver.group.roster.members


def test_a_first_join_that_is_parked_too_long_is_dropped(driver: Driver) -> None:
    driver.stable(1, rebalance_timeout_ms=10 * NEW_MEMBER_TIMEOUT_MS)
    member_id = next(iter(driver.group.roster.members))
    parked = driver.join("d", rebalance_timeout_ms=10 * NEW_MEMBER_TIMEOUT_MS)
    generation = driver.group.generation
    for _ in range(NEW_MEMBER_TIMEOUT_MS // SESSION_MS + 40):
        with pytest.raises(RebalanceInProgress):
            driver.group.heartbeat(
                Identity(member_id=member_id, generation=generation), driver.now_ms
            )
        driver.advance(SESSION_MS - 1)
        if parked in driver.answers:
            break
    assert driver.refused(parked) is UnknownMember


def test_when_the_last_member_leaves_the_group_is_empty_and_that_is_logged(
    driver: Driver,
) -> None:
    (member,) = driver.stable()
    assert driver.leave(Leaver(member_id=member.member_id)) == [None]
    assert driver.state() is State.EMPTY
    assert driver.group.generation == 2
    assert driver.logged[-1].members == ()
    assert driver.logged[-1].generation == 2
    assert driver.logged[-1].protocol_type == "consumer"


def test_members_leave_in_one_batch_each_with_its_own_result(
    pair: tuple[Driver, Joined, Joined],
) -> None:
    """C1: LeaveGroup v3+."""
    driver, leader, follower = pair
    results = driver.leave(
        Leaver(member_id=leader.member_id),
        Leaver(member_id="nobody"),
        Leaver(member_id=follower.member_id),
    )
    assert [type(result) for result in results] == [type(None), UnknownMember, type(None)]
    assert driver.state() is State.EMPTY


def test_when_the_leader_leaves_another_member_leads(pair: tuple[Driver, Joined, Joined]) -> None:
    driver, leader, follower = pair
    driver.leave(Leaver(member_id=leader.member_id))
    joined = driver.joined(driver.join("c1", member_id=follower.member_id))
    assert joined.leader == follower.member_id
    assert joined.generation == 3


def test_a_leader_that_does_not_rejoin_in_time_is_replaced_by_one_that_did(
    pair: tuple[Driver, Joined, Joined],
) -> None:
    driver, leader, follower = pair
    ticket = driver.join("d")
    again = driver.join("c1", member_id=follower.member_id)
    driver.advance(REBALANCE_MS)
    assert driver.joined(again).leader != leader.member_id
    assert driver.joined(ticket).leader == driver.joined(again).leader


def test_a_follower_that_repeats_its_join_gets_the_same_generation(
    pair: tuple[Driver, Joined, Joined],
) -> None:
    driver, _, follower = pair
    again = driver.joined(driver.join("c1", member_id=follower.member_id))
    assert again == follower
    assert driver.state() is State.STABLE


def test_a_leader_that_joins_again_starts_a_rebalance(pair: tuple[Driver, Joined, Joined]) -> None:
    driver, leader, _ = pair
    driver.join("c0", member_id=leader.member_id)
    assert driver.state() is State.PREPARING


def test_a_leader_whose_join_answer_was_lost_gets_it_again(driver: Driver) -> None:
    joined = driver.joined(driver.join())
    again = driver.joined(driver.join(member_id=joined.member_id))
    assert again == joined
    assert driver.state() is State.COMPLETING


def test_new_metadata_starts_a_rebalance(pair: tuple[Driver, Joined, Joined]) -> None:
    driver, _, follower = pair
    driver.join("c1", member_id=follower.member_id, protocols=(("range", b"changed"),))
    assert driver.state() is State.PREPARING


def test_a_join_repeated_while_parked_takes_the_place_of_the_first(driver: Driver) -> None:
    leader, _ = driver.stable(2)
    first = driver.join("c0", member_id=leader.member_id)
    second = driver.join("c0", member_id=leader.member_id)
    assert driver.refused(first) is RebalanceInProgress
    assert second not in driver.answers


@pytest.mark.parametrize("timeout_ms", [9, 1_800_001])
def test_a_session_time_out_outside_the_nodes_limits_is_refused(
    driver: Driver, timeout_ms: int
) -> None:
    with pytest.raises(InvalidSessionTimeout):
        driver.join("c", session_timeout_ms=timeout_ms)
    assert driver.group.is_unused


@pytest.mark.parametrize("generation", [0, 1, 3])
def test_a_request_of_another_generation_is_refused(
    pair: tuple[Driver, Joined, Joined], generation: int
) -> None:
    driver, leader, _ = pair
    stale = Identity(member_id=leader.member_id, generation=generation)
    with pytest.raises(IllegalGeneration):
        driver.group.heartbeat(stale, 0)
    with pytest.raises(IllegalGeneration):
        driver.group.sync(Sync(member=stale, assignments={}), 99, 0)
    with pytest.raises(IllegalGeneration):
        driver.group.check_commit(stale, 0)


def test_a_sync_under_another_protocol_is_refused(driver: Driver) -> None:
    """C1: SyncGroup v5+ names the protocol."""
    joined = driver.joined(driver.join())
    for field in ({"protocol": "sticky"}, {"protocol_type": "connect"}):
        sync = Sync(member=identity(joined), assignments={}, **field)
        with pytest.raises(InconsistentProtocol):
            driver.group.sync(sync, 99, 0)


def test_an_outsider_commits_only_to_an_empty_group(driver: Driver) -> None:
    """C1: consumers that assign themselves and admin tools commit without a generation."""
    outsider = Identity()
    driver.group.check_commit(outsider, 0)
    (member,) = driver.stable()
    with pytest.raises(UnknownMember):
        driver.group.check_commit(outsider, 0)
    driver.leave(Leaver(member_id=member.member_id))
    driver.group.check_commit(outsider, 0)
    with pytest.raises(UnknownMember):
        driver.group.check_commit(identity(member), 0)


def test_members_commit_before_they_rejoin_but_not_in_a_half_made_generation(
    pair: tuple[Driver, Joined, Joined],
) -> None:
    driver, leader, follower = pair
    ticket = driver.join("c0", member_id=leader.member_id)
    driver.group.check_commit(identity(follower), 0)
    driver.join("c1", member_id=follower.member_id)
    assert driver.state() is State.COMPLETING
    with pytest.raises(RebalanceInProgress):
        driver.group.check_commit(identity(driver.joined(ticket)), 0)


def test_a_commit_prolongs_the_session(driver: Driver) -> None:
    (member,) = driver.stable()
    for _ in range(3):
        driver.advance(SESSION_MS - 1)
        driver.group.check_commit(identity(member), driver.now_ms)
    assert driver.state() is State.STABLE


def test_a_group_with_members_cannot_be_deleted(driver: Driver) -> None:
    (member,) = driver.stable()
    with pytest.raises(GroupNotEmpty):
        driver.group.check_delete()
    driver.leave(Leaver(member_id=member.member_id))
    driver.group.check_delete()
    driver.group.replay(None, 0)
    assert driver.state() is State.DEAD
    with pytest.raises(CoordinatorNotAvailable):
        driver.join("c")
    with pytest.raises(CoordinatorNotAvailable):
        driver.heartbeat(member)


def test_a_group_that_is_in_use_again_survives_its_deletion(driver: Driver) -> None:
    driver.stable()
    driver.group.replay(None, 0)
    assert driver.state() is State.STABLE


def test_subscriptions_are_read_from_the_members(driver: Driver) -> None:
    metadata = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x05" + b"topic" + b"\xff\xff\xff\xff"
    driver.stable(1, protocols=(("range", metadata),))
    assert driver.group.subscribes("topic")
    assert not driver.group.subscribes("other")


def test_members_that_cannot_be_understood_may_read_any_topic(driver: Driver) -> None:
    driver.stable()
    assert driver.group.subscribes("topic")

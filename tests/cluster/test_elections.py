"""How partitions change hands: nobody leads who may lack what was acknowledged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cluster.elections import (
    Rules,
    cancelled,
    elected,
    elected_uncleanly,
    fenced,
    handed_over,
    led_by_preferred,
    reassigned,
    settled,
)
from chordmq.cluster.state import NO_LEADER, PartitionState

BROKERS = range(1, 6)
RULES = Rules(min_in_sync=2)
CAREFREE = Rules(min_in_sync=2, is_durable=False)


def state(
    leader: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...] = (),
    last_known_elr: tuple[int, ...] = (),
) -> PartitionState:
    return PartitionState(
        replicas=(1, 2, 3),
        leader=leader,
        leader_epoch=7,
        isr=isr,
        elr=elr,
        last_known_elr=last_known_elr,
    )


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    """Return a state that brokers and controllers can have brought about."""
    replicas = tuple(draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True)))
    rest = list(replicas)
    parts = []
    for _ in range(3):
        part = draw(st.lists(st.sampled_from(rest), unique=True)) if rest else []
        parts.append(tuple(sorted(part)))
        rest = [one for one in rest if one not in part]
    isr, elr, known = parts
    leader = draw(st.sampled_from([*isr, NO_LEADER]))
    adding = tuple(one for one in replicas if one not in isr and draw(st.booleans()))
    return PartitionState(
        replicas=replicas, leader=leader, leader_epoch=draw(st.integers(0, 9)),
        isr=isr, elr=elr, last_known_elr=known, adding=adding,
    )  # fmt: skip


lives = st.frozensets(st.sampled_from(BROKERS))
rules = st.builds(Rules, min_in_sync=st.integers(1, 3), is_durable=st.booleans())


def test_a_leader_that_goes_is_followed_by_another_in_sync() -> None:
    after = handed_over(state(1, (1, 2, 3)), {2, 3}, RULES)

    assert after == PartitionState(replicas=(1, 2, 3), leader=2, leader_epoch=9, isr=(2, 3))


def test_those_who_leave_a_small_in_sync_set_stay_eligible() -> None:
    """KIP-966: with too few in sync nothing is acknowledged, so they lack nothing."""
    alone = handed_over(state(1, (1, 2)), {1}, RULES)
    assert (alone.leader, alone.isr, alone.elr) == (1, (1,), (2,))

    nobody = handed_over(alone, set(), RULES)
    assert (nobody.leader, nobody.isr, nobody.elr) == (NO_LEADER, (), (1, 2))

    back = handed_over(nobody, {2}, RULES)
    assert (back.leader, back.isr, back.elr) == (2, (2,), (1,))
    assert back.leader_epoch > nobody.leader_epoch > alone.leader_epoch


def test_the_last_in_sync_is_waited_for_though_others_live() -> None:
    """KIP-966, last replica standing: what it alone acknowledged is not given up."""
    lonely = handed_over(state(1, (1,)), {2, 3}, Rules(min_in_sync=1))

    assert (lonely.leader, lonely.elr) == (NO_LEADER, (1,))
    assert handed_over(lonely, {1, 2, 3}, Rules(min_in_sync=1)).leader == 1


def test_a_broker_that_lost_records_is_not_eligible_any_more() -> None:
    lonely = handed_over(state(1, (1,), elr=(2,)), set(), CAREFREE)

    after = fenced(lonely, 2, CAREFREE, lost=True)

    assert (after.elr, after.last_known_elr) == ((1,), (2,))
    assert elected(after, {2}, CAREFREE).leader == NO_LEADER
    assert elected(after, {1, 2}, CAREFREE).leader == 1


def test_records_on_disk_are_not_lost_by_a_crash() -> None:
    lonely = handed_over(state(1, (1,), elr=(2,)), set(), RULES)

    assert fenced(lonely, 2, RULES, lost=True).elr == (1, 2)


def test_the_last_known_leader_leads_when_nobody_else_could_have_more() -> None:
    only = PartitionState(replicas=(1,), leader=1, isr=(1,))

    after = fenced(only, 1, CAREFREE, lost=True)

    assert (after.leader, after.last_known_elr) == (NO_LEADER, (1,))
    assert elected(after, {1}, CAREFREE).leader == 1


def test_an_unclean_election_takes_whom_there_is_but_the_best_of_them() -> None:
    dead = state(NO_LEADER, (), elr=(1,), last_known_elr=(3,))

    assert elected_uncleanly(dead, {2, 3}, RULES).leader == 3
    after = elected_uncleanly(dead, {2}, RULES)
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (2, (2,), (), ())
    assert elected_uncleanly(state(1, (1,)), {2}, RULES).leader == 1


def test_a_topic_may_allow_unclean_elections() -> None:
    dead = state(NO_LEADER, ())

    assert elected(dead, {3}, RULES).leader == NO_LEADER
    assert elected(dead, {3}, Rules(allows_unclean=True)).leader == 3


@pytest.mark.parametrize("isr", [(2, 3), (1, 2)])
def test_leadership_goes_back_to_the_first_replica_in_sync(isr: tuple[int, ...]) -> None:
    before = state(2, isr)

    after = led_by_preferred(before, {1, 2, 3}, RULES)

    assert after.leader == (1 if 1 in isr else 2)
    assert led_by_preferred(before, {2, 3}, RULES) == before


def test_a_partition_moves_while_it_stays_in_sync() -> None:
    moving = reassigned(state(1, (1, 2, 3)), [4, 5, 3])
    assert (moving.replicas, moving.adding, moving.removing) == (
        (4, 5, 3, 1, 2), (4, 5), (1, 2),
    )  # fmt: skip
    assert settled(moving, BROKERS, RULES) == moving

    halfway = PartitionState(
        replicas=moving.replicas, leader=1, leader_epoch=7, isr=(1, 2, 3, 4),
        adding=(4, 5), removing=(1, 2),
    )  # fmt: skip
    assert settled(halfway, BROKERS, RULES) == halfway

    caught_up = PartitionState(
        replicas=moving.replicas, leader=1, leader_epoch=7, isr=(1, 2, 3, 4, 5),
        adding=(4, 5), removing=(1, 2),
    )  # fmt: skip
    assert settled(caught_up, BROKERS, RULES) == PartitionState(
        replicas=(4, 5, 3), leader=4, leader_epoch=9, isr=(3, 4, 5)
    )


def test_a_move_is_cancelled_without_losing_whoever_is_in_sync() -> None:
    moving = reassigned(state(1, (1, 2, 3)), [4, 5, 3])

    back = cancelled(moving)

    assert sorted(back.replicas) == [1, 2, 3]
    assert (back.adding, back.removing, back.isr, back.leader) == ((), (), (1, 2, 3), 1)


def test_a_move_whose_new_replica_is_alone_in_sync_goes_back_by_moving() -> None:
    alone = PartitionState(
        replicas=(4, 1), leader=4, leader_epoch=3, isr=(4,), adding=(4,), removing=(1,)
    )

    back = cancelled(alone)

    assert (back.replicas, back.removing, back.isr, back.leader) == ((1, 4), (4,), (4,), 4)
    assert settled(back, BROKERS, RULES) == back


@given(states(), lives, rules)
def test_a_controller_only_ever_elects_who_has_everything(
    before: PartitionState, live: frozenset[int], held: Rules
) -> None:
    after = handed_over(before, live, held)

    assert after.replicas == before.replicas
    assert set(after.isr) <= live & ({*before.isr} | {after.leader})
    if after.leader != NO_LEADER:
        assert after.leader in after.isr
        known = before.last_known_elr
        is_last = before.isr == before.elr == () and known == (after.leader,)
        assert after.leader in {*before.isr, *before.elr} or is_last
    if after.leader != before.leader:
        assert after.leader_epoch > before.leader_epoch
    else:
        assert after.leader_epoch == before.leader_epoch


@given(states(), lives, rules)
def test_whoever_has_everything_stays_known(
    before: PartitionState, live: frozenset[int], held: Rules
) -> None:
    after = handed_over(before, live, held)

    if len(after.isr) < min(held.min_in_sync, len(after.replicas)):
        assert {*before.isr, *before.elr} <= {*after.isr, *after.elr}
    assert not set(after.isr) & set(after.elr)
    assert not set(after.last_known_elr) & ({*after.isr} | {*after.elr})


@given(states(), lives, rules)
def test_what_is_settled_stays_as_it_is(
    before: PartitionState, live: frozenset[int], held: Rules
) -> None:
    once = settled(handed_over(before, live, held), live, held)

    assert settled(handed_over(once, live, held), live, held) == once


@given(states(), st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True))
def test_a_reassignment_touches_neither_leader_nor_in_sync_set(
    before: PartitionState, target: list[int]
) -> None:
    after = reassigned(before, target)

    assert (after.leader, after.isr, after.leader_epoch) == (
        before.leader, before.isr, before.leader_epoch,
    )  # fmt: skip
    assert set(target) <= set(after.replicas)
    assert set(after.isr) <= set(after.replicas)
    assert set(after.adding) | set(after.removing) <= set(after.replicas)
    assert not set(after.adding) & set(after.isr)
    assert after.replicas[: len(target)] == tuple(target)

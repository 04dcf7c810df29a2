"""What a controller decides: elections at once, moves a few at a time, nothing twice."""

import uuid
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as struct_replace

from chordmq.cluster.controller import Change, Controller, ControllerSettings, Place, Seen, View
from chordmq.cluster.elections import Rules
from chordmq.cluster.ring.placement import Placement
from chordmq.cluster.state import NO_LEADER, PartitionState

TOPIC = bytes(range(16))
UUIDS = {number: f"uuid-{number}" for number in range(1, 6)}
EAGER = ControllerSettings(leader_balance_s=0)
STILL = ControllerSettings(leader_balance_s=0, rebalance=False)


def placed(brokers: list[int], partitions: int, factor: int = 3) -> dict[Place, Seen]:
    """Return partitions where the ring of these brokers wants them, all in sync."""
    ring = Placement("c", {one: UUIDS[one] for one in brokers})
    return {
        (TOPIC, index): Seen(
            PartitionState(replicas=replicas, leader=replicas[0], isr=tuple(sorted(replicas))), 1
        )
        for index, replicas in enumerate(ring.proposal(TOPIC, partitions, factor))
    }


def view(live: list[int], partitions: dict[Place, Seen], known: list[int] | None = None) -> View:
    uuids = {one: UUIDS[one] for one in known or [1, 2, 3]}
    return View(live=live, uuids=uuids, partitions=partitions, rules=lambda _: Rules())


def made(partitions: dict[Place, Seen], changes: list[Change]) -> dict[Place, Seen]:
    """Return the partitions after the changes, in sync as soon as somebody holds them."""
    after = dict(partitions)
    for change in changes:
        assert change.revision == after[change.place].revision
        after[change.place] = Seen(change.state, change.revision + 1)
    return after


def caught_up(partitions: dict[Place, Seen], live: list[int]) -> dict[Place, Seen]:
    """Return the partitions once the living replicas have all records."""
    after = {}
    for place, seen in partitions.items():
        isr = tuple(sorted(one for one in seen.state.replicas if one in live))
        state = struct_replace(seen.state, isr=isr, elr=(), last_known_elr=())
        after[place] = Seen(state, seen.revision + 1)
    return after


def test_nothing_is_to_be_done_where_all_is_well() -> None:
    controller = Controller("c", EAGER, 0)

    assert controller.plan(view([1, 2, 3], placed([1, 2, 3], 20)), 1) == []


def test_what_a_dead_broker_led_is_led_by_others_at_once() -> None:
    partitions = placed([1, 2, 3], 12)
    controller = Controller("c", STILL, 0)

    after = made(partitions, controller.plan(view([1, 3], partitions), 1))

    assert {seen.state.leader for seen in after.values()} == {1, 3}
    assert all(2 not in seen.state.isr for seen in after.values())
    assert controller.plan(view([1, 3], after), 2) == []


def test_a_change_is_compared_with_what_was_seen() -> None:
    partitions = {(TOPIC, 0): Seen(placed([1, 2, 3], 1)[TOPIC, 0].state, revision=77)}
    controller = Controller("c", STILL, 0)

    (change,) = controller.plan(view([3], partitions), 1)

    assert (change.place, change.revision) == ((TOPIC, 0), 77)


def test_leaders_are_balanced_now_and_then_and_only_then() -> None:
    partitions = placed([1, 2, 3], 9)
    controller = Controller("c", ControllerSettings(leader_balance_s=60, rebalance=False), 0)
    away = made(partitions, controller.plan(view([1, 2], partitions), 1))
    back = caught_up(away, [1, 2, 3])
    assert controller.plan(view([1, 2, 3], back), 59) == []

    balanced = made(back, controller.plan(view([1, 2, 3], back), 60))

    assert all(seen.state.leader == seen.state.replicas[0] for seen in balanced.values())
    assert controller.plan(view([1, 2, 3], balanced), 61) == []


def test_a_broker_that_joins_gets_its_share_a_few_partitions_at_a_time() -> None:
    """A8: joining moves only what the ring says, throttled."""
    partitions = placed([1, 2, 3], 60)
    controller = Controller("c", replace(EAGER, moves_max=3), 0)
    live = [1, 2, 3, 4]
    moved: set[Place] = set()
    for now_s in range(200):
        changes = controller.plan(view(live, partitions, live), now_s)
        partitions = made(partitions, changes)
        moving = [place for place, seen in partitions.items() if seen.state.adding]
        assert len(moving) <= 3
        moved.update(moving)
        if not changes:
            break
        partitions = caught_up(partitions, live)
    wanted = placed(live, 60)

    assert {p: set(s.state.replicas) for p, s in partitions.items()} == {
        p: set(s.state.replicas) for p, s in wanted.items()
    }
    share = sum(4 in seen.state.replicas for seen in partitions.values())
    assert len(moved) == share
    assert 0.5 * 45 <= share <= 1.3 * 45


def test_a_broker_that_is_away_for_long_is_replaced() -> None:
    partitions = placed([1, 2, 3, 4], 8)
    controller = Controller("c", replace(EAGER, rebalance_delay_s=600, moves_max=100), 0)
    known, live = [1, 2, 3, 4], [1, 2, 3]
    partitions = made(partitions, controller.plan(view(live, partitions, known), 0))

    assert controller.plan(view(live, partitions, known), 599) == []
    partitions = made(partitions, controller.plan(view(live, partitions, known), 600))
    partitions = caught_up(partitions, live)
    partitions = made(partitions, controller.plan(view(live, partitions, known), 601))

    assert all(set(seen.state.replicas) == {1, 2, 3} for seen in partitions.values())


def test_a_broker_that_comes_back_in_time_keeps_what_it_holds() -> None:
    partitions = placed([1, 2, 3, 4], 8)
    controller = Controller("c", replace(EAGER, rebalance_delay_s=600), 0)
    known = [1, 2, 3, 4]
    partitions = made(partitions, controller.plan(view([1, 2, 3], partitions, known), 0))
    partitions = caught_up(partitions, known)
    assert controller.plan(view(known, partitions, known), 500) == []

    away_again = controller.plan(view([1, 2, 3], partitions, known), 700)

    assert not any(change.state.adding for change in away_again)


def test_what_a_person_has_placed_stays() -> None:
    state = PartitionState(replicas=(3, 1), leader=3, isr=(1, 3))
    seen = {(TOPIC, index): Seen(state, 1) for index in range(10)}
    held = View(
        live=[1, 2, 3], uuids={one: UUIDS[one] for one in (1, 2, 3)}, partitions=seen,
        rules=lambda _: Rules(follows_ring=False),
    )  # fmt: skip

    assert Controller("c", EAGER, 0).plan(held, 1) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.frozensets(st.integers(1, 5)), min_size=1, max_size=12), st.integers(1, 3))
def test_whatever_comes_and_goes_no_leader_lacks_anything_and_all_settles(
    history: list[frozenset[int]], min_in_sync: int
) -> None:
    """One leader per epoch; who leads was in sync or eligible; at rest nothing changes."""
    everyone = [1, 2, 3, 4, 5]
    controller = Controller("c", replace(EAGER, rebalance_delay_s=2, moves_max=2), 0)
    partitions = placed([1, 2, 3], 4)
    led: dict[tuple[Place, int], int] = {}
    now_s = 0.0

    def look(live: list[int]) -> list[Change]:
        seen = View(
            live=live, uuids=UUIDS, partitions=partitions,
            rules=lambda _: Rules(min_in_sync=min_in_sync),
        )  # fmt: skip
        return controller.plan(seen, now_s)

    for living in [*history, frozenset(everyone)]:
        live = sorted(living)
        for _ in range(3):
            now_s += 1
            changes = look(live)
            for change in changes:
                before = partitions[change.place].state
                if change.state.leader not in (NO_LEADER, before.leader):
                    assert change.state.leader in {*before.isr, *before.elr}
            partitions = made(partitions, changes)
            for place, seen in partitions.items():
                if seen.state.leader != NO_LEADER:
                    key = place, seen.state.leader_epoch
                    assert led.setdefault(key, seen.state.leader) == seen.state.leader
        partitions = {
            p: caught_up({p: s}, live)[p] if s.state.leader in live else s
            for p, s in partitions.items()
        }
    for _ in range(60):
        now_s += 1
        partitions = caught_up(made(partitions, look(everyone)), everyone)
    now_s += 1
    assert look(everyone) == []
    assert all(seen.state.leader != NO_LEADER for seen in partitions.values())


def test_new_topics_are_looked_after_too() -> None:
    other = uuid.UUID(int=7).bytes
    nobody = PartitionState(replicas=(1, 2), leader=NO_LEADER, isr=(1,))

    (change,) = Controller("c", STILL, 0).plan(view([1, 2], {(other, 0): Seen(nobody, 5)}), 1)

    assert (change.state.leader, change.place) == (1, (other, 0))

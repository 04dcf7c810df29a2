"""A shared cursor gives each record to one consumer at a time, until somebody is done with it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from chordmq.broker.shared_cursor import Limits, Outcome, Settlement, SharedCursor, Taken
from chordmq.errors import InvalidRecordState

END = 100


def apply(cursor: SharedCursor, settlement: Settlement) -> Settlement:
    for change in settlement.changes:
        cursor.replay(change)
    return settlement


def settle(cursor: SharedCursor, who: str, first: int, last: int, *outcomes: Outcome) -> Settlement:
    return apply(cursor, cursor.settle(who, first, last, outcomes))


def test_consumers_get_different_records() -> None:
    """A3: a shared index; each message is processed by exactly one."""
    cursor = SharedCursor(0)
    assert cursor.take("a", 0, END, 10) == [Taken(0, 9, 1)]
    assert cursor.take("b", 0, END, 10) == [Taken(10, 19, 1)]


def test_accepted_records_are_done_and_the_start_moves_over_them() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 10)
    settle(cursor, "a", 5, 9, Outcome.ACCEPT)
    assert cursor.start == 0
    settle(cursor, "a", 0, 4, Outcome.ACCEPT)
    assert cursor.start == 10


def test_released_records_go_to_the_next_who_asks_with_a_higher_count() -> None:
    """D8: what is not acknowledged is delivered again."""
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 10)
    settle(cursor, "a", 2, 3, Outcome.RELEASE)
    assert cursor.take("b", 0, 10, 10) == [Taken(2, 3, 2)]


def test_a_consumer_that_is_too_slow_loses_its_records() -> None:
    cursor = SharedCursor(0, Limits(lock_ms=100))
    cursor.take("a", 0, END, 3)
    assert cursor.next_deadline_ms() == 100
    assert apply(cursor, cursor.expire(99)).changes == []
    apply(cursor, cursor.expire(100))
    with pytest.raises(InvalidRecordState):
        cursor.settle("a", 0, 2, [Outcome.ACCEPT])
    assert cursor.take("b", 100, 3, 10) == [Taken(0, 2, 2)]


def test_a_consumer_that_leaves_gives_its_records_back() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 3)
    cursor.take("b", 0, END, 3)
    apply(cursor, cursor.leave("a"))
    assert cursor.take("c", 0, 6, 10) == [Taken(0, 2, 2)]


def test_more_time_can_be_asked_for() -> None:
    cursor = SharedCursor(0, Limits(lock_ms=100))
    cursor.take("a", 0, END, 4)
    cursor.renew("a", 50, 1, 2, [Outcome.RENEW])
    assert [(c.first, c.last) for c in cursor.expire(100).changes] == [(0, 0), (3, 3)]


def test_what_fails_too_often_is_given_up_and_reported() -> None:
    """D10: after its last delivery a record is for the dead-letter topic."""
    cursor = SharedCursor(0, Limits(deliveries_max=2))
    cursor.take("a", 0, 1, 1)
    assert settle(cursor, "a", 0, 0, Outcome.RELEASE).dead == []
    cursor.take("a", 0, 1, 1)
    assert settle(cursor, "a", 0, 0, Outcome.RELEASE).dead == [Taken(0, 0, 2)]
    assert cursor.start == 1


def test_rejected_records_are_done_and_reported() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 3)
    settlement = settle(cursor, "a", 0, 2, Outcome.ACCEPT, Outcome.REJECT, Outcome.GAP)
    assert settlement.dead == [Taken(1, 1, 1)]
    assert cursor.start == 3


def test_nobody_settles_what_another_holds() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 3)
    for who, first, last in [("b", 0, 2), ("a", 2, 3), ("a", 50, 60), ("a", 2, 1)]:
        with pytest.raises(InvalidRecordState):
            cursor.settle(who, first, last, [Outcome.ACCEPT])


def test_only_so_many_records_are_under_way() -> None:
    cursor = SharedCursor(0, Limits(in_flight_max=5))
    assert cursor.take("a", 0, END, 10) == [Taken(0, 4, 1)]
    assert cursor.take("b", 0, END, 10) == []
    assert not cursor.has_available(END)
    settle(cursor, "a", 0, 1, Outcome.ACCEPT)
    assert cursor.take("b", 0, END, 10) == [Taken(5, 6, 1)]


def test_records_that_retention_removed_are_skipped() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 10)
    cursor.skip_to(4)
    settle(cursor, "a", 4, 9, Outcome.ACCEPT)
    assert cursor.start == 10
    cursor.skip_to(50)
    assert cursor.take("a", 0, END, 1) == [Taken(50, 50, 1)]


class Histories(RuleBasedStateMachine):
    """Random consumers against a dictionary of single offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits(lock_ms=50, deliveries_max=3, in_flight_max=20)
        self.cursor = SharedCursor(0, self.limits)
        self.now = 0
        self.holder: dict[int, str] = {}
        self.deadline: dict[int, int] = {}
        self.deliveries: dict[int, int] = {}
        self.done: set[int] = set()

    def settled(self, settlement: Settlement) -> None:
        dead = {o for part in settlement.dead for o in range(part.first, part.last + 1)}
        for change in settlement.changes:
            self.cursor.replay(change)
            for offset in range(change.first, change.last + 1):
                del self.holder[offset]
                if change.state:
                    assert offset not in self.done, "done twice"
                    self.done.add(offset)
                else:
                    assert self.deliveries[offset] < self.limits.deliveries_max
        assert dead <= self.done

    @rule(who=st.sampled_from("abc"), count=st.integers(1, 8))
    def take(self, who: str, count: int) -> None:
        taken = self.cursor.take(who, self.now, END, count)
        offsets = [o for part in taken for o in range(part.first, part.last + 1)]
        assert len(offsets) <= count
        for part in taken:
            for offset in range(part.first, part.last + 1):
                assert offset not in self.holder, "given to two consumers"
                assert offset not in self.done, "given again after it was done"
                self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
                assert self.deliveries[offset] == part.deliveries
                self.holder[offset] = who
                self.deadline[offset] = self.now + self.limits.lock_ms

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if self.holder:
            first = data.draw(st.sampled_from(sorted(self.holder)))
            who, last = self.holder[first], first
            while self.holder.get(last + 1) == who and data.draw(st.booleans()):
                last += 1
            outcomes = data.draw(
                st.lists(
                    st.sampled_from([Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT]),
                    min_size=last - first + 1,
                    max_size=last - first + 1,
                )
            )
            self.settled(self.cursor.settle(who, first, last, outcomes))

    @rule(ms=st.integers(1, 60))
    def wait(self, ms: int) -> None:
        self.now += ms
        late = {o for o in self.holder if self.deadline[o] <= self.now}
        self.settled(self.cursor.expire(self.now))
        assert not late & set(self.holder)

    @rule(who=st.sampled_from("abc"))
    def leave(self, who: str) -> None:
        self.settled(self.cursor.leave(who))
        assert who not in self.holder.values()

    @rule()
    def crash(self) -> None:
        """Only what was settled is stored; what was taken is available again."""
        copy = SharedCursor(self.cursor.start, self.limits)
        for change in self.cursor.changes():
            copy.replay(change)
        self.cursor = copy
        for offset in self.holder:
            self.deliveries[offset] -= 1
        self.holder.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert self.cursor.in_flight == len(self.holder)
        assert all(offset in self.done for offset in range(self.cursor.start))


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

"""A shared cursor gives each record to one consumer at a time, until somebody is done with it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from chordmq.broker.cursors.shared_cursor import (
    Change,
    Dead,
    Limits,
    Outcome,
    Settlement,
    SharedCursor,
    State,
    Taken,
)
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


def test_a_consumer_without_a_time_limit_keeps_its_records() -> None:
    cursor = SharedCursor(0, Limits(lock_ms=0))
    cursor.take("a", 0, END, 4)
    assert cursor.next_deadline_ms() is None
    assert cursor.expire(10**12).changes == []


def test_without_a_limit_a_record_is_tried_for_ever() -> None:
    cursor = SharedCursor(0, Limits(deliveries_max=0))
    for attempt in range(1, 50):
        assert cursor.take("a", 0, 1, 1) == [Taken(0, 0, attempt)]
        assert settle(cursor, "a", 0, 0, Outcome.RELEASE).dead == []


def test_records_that_a_consumer_did_not_look_at_do_not_count_as_tried() -> None:
    cursor = SharedCursor(0, Limits(deliveries_max=1))
    cursor.take("a", 0, END, 3)
    assert apply(cursor, cursor.leave("a", is_counted=False)).dead == []
    assert cursor.take("b", 0, 3, 10) == [Taken(0, 2, 1)]


def test_a_verdict_cannot_be_changed_while_it_is_being_stored() -> None:
    cursor = SharedCursor(0, Limits(lock_ms=100))
    cursor.take("a", 0, END, 3)
    decided = cursor.settle("a", 0, 1, [Outcome.ACCEPT])
    with pytest.raises(InvalidRecordState):
        cursor.settle("a", 1, 2, [Outcome.RELEASE])
    assert cursor.expire(100).changes == [Change(2, 2, State.AVAILABLE, 1)]
    assert cursor.leave("a").changes == []
    assert cursor.take("b", 0, 3, 3) == []
    assert cursor.stored() == (2, [Change(2, 2, State.AVAILABLE, 1)])
    apply(cursor, decided)
    assert cursor.start == 2


def test_a_verdict_that_cannot_be_stored_is_taken_back() -> None:
    cursor = SharedCursor(0, Limits(lock_ms=100))
    cursor.take("a", 0, END, 3)
    (change,) = cursor.settle("a", 0, 2, [Outcome.ACCEPT]).changes
    cursor.undo(change, 500)
    assert cursor.next_deadline_ms() == 500
    assert cursor.stored() == (0, [])
    settle(cursor, "a", 0, 2, Outcome.ACCEPT)
    assert cursor.start == 3


def test_taking_one_verdict_back_leaves_its_neighbour_alone() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 6)
    (change,) = cursor.settle("a", 0, 1, [Outcome.ACCEPT]).changes
    cursor.settle("a", 2, 3, [Outcome.ACCEPT])
    cursor.undo(change, 0)
    assert cursor.stored() == (0, [Change(2, 3, State.DONE, 1)])
    with pytest.raises(InvalidRecordState):
        cursor.settle("a", 2, 3, [Outcome.RELEASE])


def test_offsets_without_records_are_not_given() -> None:
    cursor = SharedCursor(0)
    cursor.skip(0, 3)
    cursor.skip(6, 7)
    assert cursor.take("a", 0, 10, 10) == [Taken(4, 5, 1), Taken(8, 9, 1)]


def test_taking_ends_where_the_reader_says() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 10)
    settle(cursor, "a", 0, 9, Outcome.RELEASE)
    assert cursor.count_available(0, 99) == 100
    assert cursor.take("b", 0, 6, 100) == [Taken(0, 5, 2)]
    assert cursor.next_available(END) == 6
    assert cursor.count_available(3, 11) == 6


def test_what_fails_too_often_is_given_up_and_reported() -> None:
    """D10: after its last delivery a record is for the dead-letter topic."""
    cursor = SharedCursor(0, Limits(deliveries_max=2))
    cursor.take("a", 0, 1, 1)
    assert settle(cursor, "a", 0, 0, Outcome.RELEASE).dead == []
    cursor.take("a", 0, 1, 1)
    assert settle(cursor, "a", 0, 0, Outcome.RELEASE).dead == [Dead(0, 0, 2, is_rejected=False)]
    assert cursor.start == 1


def test_rejected_records_are_done_and_reported() -> None:
    cursor = SharedCursor(0)
    cursor.take("a", 0, END, 3)
    settlement = settle(cursor, "a", 0, 2, Outcome.ACCEPT, Outcome.REJECT, Outcome.GAP)
    assert settlement.dead == [Dead(1, 1, 1, is_rejected=True)]
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
    assert cursor.next_available(END) is None
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
        self.fails = False
        self.holder: dict[int, str] = {}
        self.deadline: dict[int, int] = {}
        self.deliveries: dict[int, int] = {}
        self.done: set[int] = set()

    def settled(self, settlement: Settlement) -> None:
        if self.fails:
            for change in settlement.changes:
                self.cursor.undo(change, self.now)
            self.fails = False
            return
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

    def excused(self) -> set[int]:
        """Return the offsets that a failed write keeps from coming free."""
        return set(self.holder) if self.fails else set()

    @rule(ms=st.integers(1, 60))
    def wait(self, ms: int) -> None:
        self.now += ms
        late = {o for o in self.holder if self.deadline[o] <= self.now} - self.excused()
        self.settled(self.cursor.expire(self.now))
        assert not late & set(self.holder)

    @rule(who=st.sampled_from("abc"))
    def leave(self, who: str) -> None:
        fails = self.fails
        self.settled(self.cursor.leave(who))
        assert fails or who not in self.holder.values()

    @rule()
    def fail_the_next_write(self) -> None:
        self.fails = True

    @rule()
    def crash(self) -> None:
        """Only what was settled is stored; what was taken is available again."""
        start, changes = self.cursor.stored()
        copy = SharedCursor(start, self.limits)
        for change in changes:
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


class Crashes(RuleBasedStateMachine):
    """Settlements on their way to a log, in any order with takes, failed writes and crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits(lock_ms=50, deliveries_max=0, in_flight_max=15)
        self.cursor = SharedCursor(0, self.limits)
        self.logged: tuple[int, list[Change]] = (0, [])
        self.held: dict[int, str] = {}
        self.settling: dict[int, str] = {}
        self.decided: list[Change] = []
        self.on_their_way: tuple[list[Change], tuple[int, list[Change]]] | None = None
        self.confirmed: set[int] = set()
        self.unknown: set[int] = set()
        """Accepted offsets whose consumers never heard whether that was stored."""

    @rule(who=st.sampled_from("ab"), count=st.integers(1, 6))
    def take(self, who: str, count: int) -> None:
        for part in self.cursor.take(who, 0, END, count):
            for offset in range(part.first, part.last + 1):
                assert offset not in self.confirmed, "given again after it was confirmed"
                assert offset not in self.held, "given to two consumers"
                assert offset not in self.settling, "given while it is being settled"
                self.held[offset] = who
                self.unknown.discard(offset)

    @rule(data=st.data(), outcome=st.sampled_from([Outcome.ACCEPT, Outcome.RELEASE]))
    def settle(self, data: st.DataObject, outcome: Outcome) -> None:
        if self.held:
            first = data.draw(st.sampled_from(sorted(self.held)))
            who, last = self.held[first], first
            while self.held.get(last + 1) == who and data.draw(st.booleans()):
                last += 1
            self.decide(self.cursor.settle(who, first, last, [outcome]))

    @rule(who=st.sampled_from("ab"))
    def leave(self, who: str) -> None:
        self.decide(self.cursor.leave(who))

    def decide(self, settlement: Settlement) -> None:
        for change in settlement.changes:
            for offset in range(change.first, change.last + 1):
                self.settling[offset] = self.held.pop(offset)
        self.decided += settlement.changes

    @rule()
    def write(self) -> None:
        if self.on_their_way is None:
            self.on_their_way = (self.decided, self.cursor.stored())
            self.decided = []

    @rule(is_stored=st.booleans())
    def written(self, is_stored: bool) -> None:
        if self.on_their_way is None:
            return
        changes, snapshot = self.on_their_way
        self.on_their_way = None
        if is_stored:
            self.logged = snapshot
            for change in changes:
                self.cursor.replay(change)
                for offset in range(change.first, change.last + 1):
                    del self.settling[offset]
                if change.state is State.DONE:
                    self.confirmed.update(range(change.first, change.last + 1))
        else:
            for change in changes:
                self.cursor.undo(change, 0)
                for offset in range(change.first, change.last + 1):
                    self.held[offset] = self.settling.pop(offset)

    @rule(reached_the_log=st.booleans())
    def crash(self, reached_the_log: bool) -> None:
        if self.on_their_way is not None:
            changes, snapshot = self.on_their_way
            if reached_the_log:
                self.logged = snapshot
                for change in changes:
                    if change.state is State.DONE:
                        self.unknown.update(range(change.first, change.last + 1))
        self.cursor = restored(self.logged, self.limits)
        self.forget_all()

    def forget_all(self) -> None:
        self.held.clear()
        self.settling.clear()
        self.decided = []
        self.on_their_way = None

    @invariant()
    def nothing_is_missed(self) -> None:
        done = set(range(self.cursor.start))
        assert done <= self.confirmed | self.unknown

    def teardown(self) -> None:
        """Give everything that is left to one consumer: every offset comes, or was accepted."""
        self.cursor = restored(self.logged, self.limits)
        came: set[int] = set()
        while taken := self.cursor.take("z", 0, END, END):
            for first, last, _ in taken:
                came.update(range(first, last + 1))
                settle(self.cursor, "z", first, last, Outcome.ACCEPT)
        assert came | self.confirmed | self.unknown == set(range(END))
        assert not came & self.confirmed


def restored(logged: tuple[int, list[Change]], limits: Limits) -> SharedCursor:
    start, changes = logged
    cursor = SharedCursor(start, limits)
    for change in changes:
        cursor.replay(change)
    return cursor


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

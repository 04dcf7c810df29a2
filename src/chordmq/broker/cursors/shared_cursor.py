"""One partition read by several consumers together: each record goes to one of them at a time.

This is the shared index behind share groups, queues and shared subscriptions. Offsets before
`start` are done; from `end` on nobody has got any; between them lie spans of offsets in the same
state.

A record is *available*, *taken* by a consumer until its deadline, or *done*. Taking is kept in
memory only: after a crash what was taken and not settled is available again. Settling comes in two
steps: it is decided (`settle`, `expire`, `leave`), which gives the records a verdict that nobody
can change; and when the caller has written what `stored` returns to its log, it is applied
(`replay`), or else taken back (`undo`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidRecordState

NOBODY = ""
NO_LIMIT = 0
COUNT_MAX = 2**15 - 1
"""Deliveries beyond this are not counted; the stored form has two bytes for them."""


class State(IntEnum):
    """What became of a record, as stored."""

    AVAILABLE = 0
    DONE = 1


class Outcome(IntEnum):
    """What a consumer says of a record, numbered as in the Kafka protocol."""

    GAP = 0
    """There is no record at this offset; compaction removed it."""
    ACCEPT = 1
    RELEASE = 2
    """Give it to somebody else."""
    REJECT = 3
    """Nobody can process it."""
    RENEW = 4
    """More time is needed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a consumer may keep a record, how often it is tried, how many are under way."""

    lock_ms: int = 30_000
    """NO_LIMIT for consumers that keep their records until they answer or leave."""
    deliveries_max: int = 5
    """NO_LIMIT to try for ever."""
    in_flight_max: int = 2_000


class Taken(NamedTuple):
    """Offsets given to a consumer, and for the how-manieth time."""

    first: int
    last: int
    deliveries: int


class Change(NamedTuple):
    """Offsets whose state is settled."""

    first: int
    last: int
    state: State
    deliveries: int


class Dead(NamedTuple):
    """Offsets that are done without having been processed, and why: for the dead-letter topic."""

    first: int
    last: int
    deliveries: int
    is_rejected: bool
    """By a consumer; else they were tried too often."""


class Verdict(NamedTuple):
    """What taken records will be as soon as the log holds it."""

    state: State
    deliveries: int


@dataclass(slots=True)
class Settlement:
    """What follows from an answer, a time-out or a consumer's leaving."""

    changes: list[Change] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)


@dataclass(slots=True)
class Span:
    """Neighbouring offsets in the same state; `holder` is set while they are taken."""

    first: int
    last: int
    state: State
    deliveries: int
    holder: str = NOBODY
    deadline_ms: int = 0
    verdict: Verdict | None = None

    def alike(self, other: "Span") -> bool:
        """Return whether the two can be one span."""
        return (
            self.state is other.state
            and self.deliveries == other.deliveries
            and self.holder == other.holder
            and self.deadline_ms == other.deadline_ms
            and self.verdict == other.verdict
        )

    @property
    def is_available(self) -> bool:
        """Return whether a consumer may take the records."""
        return self.state is State.AVAILABLE and self.holder == NOBODY

    @property
    def is_open(self) -> bool:
        """Return whether the records are taken and nothing is decided about them."""
        return self.holder != NOBODY and self.verdict is None


class SharedCursor:
    """The machine; it reads no clock and writes no log."""

    def __init__(self, start: int, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.start = start
        self.end = start
        self._spans: list[Span] = []

    def take(self, holder: str, now_ms: int, until: int, count_max: int) -> list[Taken]:
        """Give a consumer available records before `until`, oldest first.

        Each is its own until the deadline.
        """
        deadline_ms = self._deadline(now_ms)
        taken: list[Taken] = []
        left = count_max
        number = 0
        while number < len(self._spans) and left > 0:
            span = self._spans[number]
            if span.first >= until:
                break
            if span.is_available:
                self._split(number, min(span.first + left, until))
                left -= span.last - span.first + 1
                taken.append(_hold(span, holder, deadline_ms))
            number += 1
        fresh = min(left, self.window_end - self.end, until - self.end)
        if fresh > 0:
            span = Span(self.end, self.end + fresh - 1, State.AVAILABLE, 0)
            self._spans.append(span)
            self.end += fresh
            taken.append(_hold(span, holder, deadline_ms))
        return taken

    def _deadline(self, now_ms: int) -> int:
        return now_ms + self.limits.lock_ms if self.limits.lock_ms else NO_LIMIT

    def next_available(self, log_end: int) -> int | None:
        """Return the first offset that `take` would give, or None."""
        for span in self._spans:
            if span.is_available:
                return span.first if span.first < log_end else None
        return self.end if self.end < min(log_end, self.window_end) else None

    def count_available(self, first: int, last: int) -> int:
        """Return how many records of a range `take` could give."""
        found = sum(
            min(span.last, last) - max(span.first, first) + 1
            for span in self._between(first, last)
            if span.is_available
        )
        return found + max(min(last + 1, self.window_end) - max(first, self.end), 0)

    @property
    def window_end(self) -> int:
        """Return the offset from which nothing is given before older records are done."""
        return max(self.start + self.limits.in_flight_max, self.end)

    def settle(self, holder: str, first: int, last: int, outcomes: Sequence[Outcome]) -> Settlement:
        """Decide what a consumer's answer means: one outcome for all offsets, or one for each."""
        self.check_held(holder, first, last, outcomes)
        settlement = Settlement()
        for run_first, run_last, outcome in _runs(first, last, outcomes):
            if outcome is not Outcome.RENEW:
                for span in self._cut(run_first, run_last):
                    self._decide(settlement, span, outcome)
        return settlement

    def check_held(self, holder: str, first: int, last: int, outcomes: Sequence[Outcome]) -> None:
        """Raise InvalidRecordState unless a consumer may settle all these offsets."""
        if len(outcomes) not in (1, last - first + 1) or first > last:
            raise InvalidRecordState(f"{len(outcomes)} outcomes for offsets {first} to {last}")
        if not self.start <= first <= last < self.end or not all(
            span.is_open and span.holder == holder for span in self._between(first, last)
        ):
            raise InvalidRecordState(f"offsets {first} to {last} are not held by {holder}")

    def renew(
        self, holder: str, now_ms: int, first: int, last: int, outcomes: Sequence[Outcome]
    ) -> None:
        """Give a consumer more time for the records it asks it for; nothing is stored."""
        self.check_held(holder, first, last, outcomes)
        for run_first, run_last, outcome in _runs(first, last, outcomes):
            if outcome is Outcome.RENEW:
                for span in self._cut(run_first, run_last):
                    span.deadline_ms = self._deadline(now_ms)

    def expire(self, now_ms: int) -> Settlement:
        """Decide what becomes of records whose consumers were too slow."""
        return self._release(lambda span: NO_LIMIT < span.deadline_ms <= now_ms)

    def leave(self, holder: str, *, is_counted: bool = True) -> Settlement:
        """Decide what becomes of the records of a consumer that has gone.

        They count as tried, unless it is known that it did not look at them.
        """
        return self._release(lambda span: span.holder == holder, is_counted=is_counted)

    def _release(self, wanted: Callable[[Span], bool], *, is_counted: bool = True) -> Settlement:
        settlement = Settlement()
        for span in self._spans:
            if span.is_open and wanted(span):
                self._decide(settlement, span, Outcome.RELEASE, is_counted=is_counted)
        return settlement

    def _decide(
        self, settlement: Settlement, span: Span, outcome: Outcome, *, is_counted: bool = True
    ) -> None:
        first, last, deliveries = span.first, span.last, span.deliveries
        is_spent = NO_LIMIT < self.limits.deliveries_max <= deliveries
        state = State.DONE
        if outcome is Outcome.RELEASE and not is_counted:
            state, deliveries = State.AVAILABLE, deliveries - 1
        elif outcome is Outcome.RELEASE and not is_spent:
            state = State.AVAILABLE
        elif outcome in (Outcome.RELEASE, Outcome.REJECT):
            settlement.dead.append(Dead(first, last, deliveries, outcome is Outcome.REJECT))
        span.verdict = Verdict(state, deliveries)
        settlement.changes.append(Change(first, last, state, deliveries))

    def replay(self, change: Change) -> None:
        """Apply what the log holds; offsets that it does not mention are available."""
        first = max(change.first, self.start)
        if change.last < first:
            return
        self._extend(change.last)
        for span in self._cut(first, change.last):
            span.state, span.deliveries = change.state, change.deliveries
            span.holder, span.deadline_ms, span.verdict = NOBODY, 0, None
        self._tidy(first, change.last)

    def undo(self, change: Change, retry_ms: int) -> None:
        """Take a verdict back that could not be stored; no record comes free before `retry_ms`."""
        for span in self._between(change.first, change.last):
            span.verdict = None
            if span.deadline_ms:
                span.deadline_ms = max(span.deadline_ms, retry_ms)
        self._tidy(change.first, change.last)

    def skip(self, first: int, last: int) -> None:
        """Take available offsets as done because there are no records to give at them."""
        first = max(first, self.start)
        if last < first:
            return
        self._extend(last)
        for span in self._cut(first, last):
            if span.is_available:
                span.state = State.DONE
        self._tidy(first, last)

    def skip_to(self, start: int) -> None:
        """Take offsets before `start` as done, because retention or an operator removed them."""
        if start <= self.start:
            return
        if start < self.end:
            self._split_at(start)
        self._spans = [span for span in self._spans if span.first >= start]
        self.start = start
        self.end = max(self.end, start)
        self._tidy(start, start)

    def stored(self) -> tuple[int, list[Change]]:
        """Return a start, and what to replay on it so that a new cursor becomes this one.

        Verdicts count; a delivery that was not answered did not happen, as far as the log knows.
        """
        start = self.start
        found: list[Change] = []
        for span in self._spans:
            deliveries = span.deliveries - (span.holder != NOBODY)
            state, deliveries = span.verdict or (span.state, deliveries)
            if state is State.DONE and span.first == start:
                start = span.last + 1
            elif state is State.DONE or deliveries:
                _add(found, Change(span.first, span.last, state, deliveries))
        return start, found

    def next_deadline_ms(self) -> int | None:
        """Return when the next taken record comes free by itself."""
        return min(
            (s.deadline_ms for s in self._spans if s.is_open and s.deadline_ms), default=None
        )

    @property
    def in_flight(self) -> int:
        """Return how many records are taken and not settled."""
        return sum(s.last - s.first + 1 for s in self._spans if s.holder != NOBODY)

    @property
    def done_after_start(self) -> int:
        """Return how many records are done though older ones are not."""
        return sum(s.last - s.first + 1 for s in self._spans if s.state is State.DONE)

    def _between(self, first: int, last: int) -> Iterator[Span]:
        """Yield the spans that have offsets in common with the range."""
        number = max(bisect_right(self._spans, first, key=_first) - 1, 0)
        while number < len(self._spans) and self._spans[number].first <= last:
            if self._spans[number].last >= first:
                yield self._spans[number]
            number += 1

    def _extend(self, last: int) -> None:
        if last >= self.end:
            self._spans.append(Span(self.end, last, State.AVAILABLE, 0))
            self.end = last + 1

    def _cut(self, first: int, last: int) -> list[Span]:
        """Return the spans of exactly this range, split where they reach beyond it."""
        self._split_at(first)
        self._split_at(last + 1)
        return list(self._between(first, last))

    def _split_at(self, offset: int) -> None:
        number = bisect_right(self._spans, offset, key=_first) - 1
        if number >= 0:
            self._split(number, offset)

    def _split(self, number: int, offset: int) -> None:
        """Let a new span begin at `offset` if it lies inside the given one."""
        span = self._spans[number]
        if span.first < offset <= span.last:
            self._spans.insert(number + 1, replace(span, first=offset))
            span.last = offset - 1

    def _tidy(self, first: int, last: int) -> None:
        """Join what has become alike around a range, and move `start` over what is done."""
        spans = self._spans
        number = max(bisect_right(spans, first, key=_first) - 2, 0)
        while number + 1 < len(spans) and spans[number].first <= last:
            if spans[number].alike(spans[number + 1]):
                spans[number].last = spans.pop(number + 1).last
            else:
                number += 1
        while spans and spans[0].state is State.DONE:
            self.start = spans.pop(0).last + 1


_first = attrgetter("first")


def _hold(span: Span, holder: str, deadline_ms: int) -> Taken:
    span.holder, span.deadline_ms = holder, deadline_ms
    span.deliveries = min(span.deliveries + 1, COUNT_MAX)
    return Taken(span.first, span.last, span.deliveries)


def _add(changes: list[Change], change: Change) -> None:
    """Add a change, as part of the one before it if they are alike."""
    if changes:
        before = changes[-1]
        if before.last + 1 == change.first and before[2:] == change[2:]:
            changes[-1] = before._replace(last=change.last)
            return
    changes.append(change)


def _runs(first: int, last: int, outcomes: Sequence[Outcome]) -> Iterator[tuple[int, int, Outcome]]:
    """Yield runs of offsets with the same outcome."""
    if len(outcomes) == 1:
        yield first, last, outcomes[0]
        return
    run = first
    for offset in range(first, last + 1):
        if offset == last or outcomes[offset - first] != outcomes[offset + 1 - first]:
            yield run, offset, outcomes[offset - first]
            run = offset + 1

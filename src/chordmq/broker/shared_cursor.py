"""One partition read by several consumers together: each record goes to one of them at a time.

This is the shared index behind share groups, queues and shared subscriptions. Offsets before
`start` are done; from `end` on nobody has got any; between them lie spans of offsets in the same
state.
A record is *available*, *taken* by a consumer until its deadline, or *done*. Taking is kept in
memory only: after a crash what was taken and not settled is available again. Settling is decided
first (`settle`, `expire`), written to a log by the caller, then applied (`replay`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from chordmq.errors import InvalidRecordState

NOBODY = ""


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
    deliveries_max: int = 5
    in_flight_max: int = 2_000


@dataclass(frozen=True, slots=True)
class Taken:
    """Offsets given to a consumer, and for the how-manieth time."""

    first: int
    last: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Change:
    """Offsets whose state is settled; the caller writes it to the log, then replays it."""

    first: int
    last: int
    state: State
    deliveries: int


@dataclass(slots=True)
class Settlement:
    """What follows from an answer or a time-out."""

    changes: list[Change] = field(default_factory=list)
    dead: list[Taken] = field(default_factory=list)
    """Offsets that are done without having been processed: for the dead-letter topic."""


@dataclass(slots=True)
class Span:
    """Neighbouring offsets in the same state; `holder` is set while they are taken."""

    first: int
    last: int
    state: State
    deliveries: int
    holder: str = NOBODY
    deadline_ms: int = 0

    def alike(self, other: "Span") -> bool:
        """Return whether the two can be one span."""
        return (self.state, self.deliveries, self.holder, self.deadline_ms) == (
            other.state,
            other.deliveries,
            other.holder,
            other.deadline_ms,
        )


class SharedCursor:
    """The machine; it reads no clock and writes no log."""

    def __init__(self, start: int, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.start = start
        self.end = start
        self._spans: list[Span] = []

    def take(self, holder: str, now_ms: int, log_end: int, count_max: int) -> list[Taken]:
        """Give a consumer available records, oldest first; each is its own until the deadline."""
        deadline_ms = now_ms + self.limits.lock_ms
        taken: list[Taken] = []
        left = count_max
        number = 0
        while number < len(self._spans) and left > 0:
            span = self._spans[number]
            if span.state is State.AVAILABLE and span.holder == NOBODY:
                self._split(number, span.first + left)
                left -= span.last - span.first + 1
                taken.append(self._hold(span, holder, deadline_ms))
            number += 1
        room = self.limits.in_flight_max - (self.end - self.start)
        fresh = min(left, room, log_end - self.end)
        if fresh > 0:
            span = Span(self.end, self.end + fresh - 1, State.AVAILABLE, 0)
            self._spans.append(span)
            self.end += fresh
            taken.append(self._hold(span, holder, deadline_ms))
        return taken

    def _hold(self, span: Span, holder: str, deadline_ms: int) -> Taken:
        span.holder, span.deadline_ms = holder, deadline_ms
        span.deliveries += 1
        return Taken(span.first, span.last, span.deliveries)

    def settle(self, holder: str, first: int, last: int, outcomes: Sequence[Outcome]) -> Settlement:
        """Decide what a consumer's answer means: one outcome for all offsets, or one for each."""
        if len(outcomes) not in (1, last - first + 1) or first > last:
            raise InvalidRecordState(f"{len(outcomes)} outcomes for offsets {first} to {last}")
        if not self._is_held(holder, first, last):
            raise InvalidRecordState(f"offsets {first} to {last} are not held by {holder}")
        settlement = Settlement()
        for run_first, run_last, outcome in _runs(first, last, outcomes):
            for span in self._between(run_first, run_last):
                part = Taken(max(span.first, run_first), min(span.last, run_last), span.deliveries)
                self._decide(settlement, part, outcome)
        return settlement

    def renew(
        self, holder: str, now_ms: int, first: int, last: int, outcomes: Sequence[Outcome]
    ) -> None:
        """Give a consumer more time for the records it asks it for; nothing is stored."""
        if not self._is_held(holder, first, last):
            raise InvalidRecordState(f"offsets {first} to {last} are not held by {holder}")
        for run_first, run_last, outcome in _runs(first, last, outcomes):
            if outcome is Outcome.RENEW:
                for span in self._cut(run_first, run_last):
                    span.deadline_ms = now_ms + self.limits.lock_ms

    def expire(self, now_ms: int) -> Settlement:
        """Decide what becomes of records whose consumers were too slow."""
        return self._release(lambda span: span.deadline_ms <= now_ms)

    def leave(self, holder: str) -> Settlement:
        """Decide what becomes of the records of a consumer that has gone."""
        return self._release(lambda span: span.holder == holder)

    def _release(self, wanted: Callable[[Span], bool]) -> Settlement:
        settlement = Settlement()
        for span in self._spans:
            if span.holder != NOBODY and wanted(span):
                part = Taken(span.first, span.last, span.deliveries)
                self._decide(settlement, part, Outcome.RELEASE)
        return settlement

    def _decide(self, settlement: Settlement, part: Taken, outcome: Outcome) -> None:
        state = State.DONE
        if outcome is Outcome.RENEW:
            return
        if outcome is Outcome.RELEASE and part.deliveries < self.limits.deliveries_max:
            state = State.AVAILABLE
        elif outcome in (Outcome.RELEASE, Outcome.REJECT):
            settlement.dead.append(part)
        settlement.changes.append(Change(part.first, part.last, state, part.deliveries))

    def replay(self, change: Change) -> None:
        """Apply what the log holds; offsets that it does not mention are available."""
        if change.last < self.start:
            return
        first = max(change.first, self.start)
        if change.last >= self.end:
            if first > self.end:
                self._spans.append(Span(self.end, first - 1, State.AVAILABLE, 0))
            self._spans.append(
                Span(max(first, self.end), change.last, State.AVAILABLE, change.deliveries)
            )
            self.end = change.last + 1
        for span in self._cut(first, change.last):
            span.state, span.deliveries = change.state, change.deliveries
            span.holder, span.deadline_ms = NOBODY, 0
        self._tidy()

    def skip_to(self, start: int) -> None:
        """Take offsets before `start` as done, because retention or an operator removed them."""
        if start <= self.start:
            return
        if start < self.end:
            self._split_at(start)
        self._spans = [span for span in self._spans if span.first >= start]
        self.start = start
        self.end = max(self.end, start)
        self._tidy()

    def changes(self) -> list[Change]:
        """Return what has to be stored so that a new cursor at `start` becomes this one."""
        found = []
        for span in self._spans:
            # A delivery that was not answered did not happen, as far as the log knows.
            deliveries = span.deliveries - (span.holder != NOBODY)
            if span.state is State.DONE or deliveries:
                found.append(Change(span.first, span.last, span.state, deliveries))
        return found

    def has_available(self, log_end: int) -> bool:
        """Return whether `take` would give something."""
        if self.end < log_end and self.end - self.start < self.limits.in_flight_max:
            return True
        return any(s.state is State.AVAILABLE and s.holder == NOBODY for s in self._spans)

    def next_deadline_ms(self) -> int | None:
        """Return when the next taken record comes free by itself."""
        return min((s.deadline_ms for s in self._spans if s.holder != NOBODY), default=None)

    @property
    def in_flight(self) -> int:
        """Return how many records are taken and not settled."""
        return sum(s.last - s.first + 1 for s in self._spans if s.holder != NOBODY)

    def _is_held(self, holder: str, first: int, last: int) -> bool:
        return self.start <= first <= last < self.end and all(
            span.holder == holder for span in self._between(first, last)
        )

    def _between(self, first: int, last: int) -> Iterator[Span]:
        """Yield the spans that have offsets in common with the range."""
        number = max(bisect_right(self._spans, first, key=lambda span: span.first) - 1, 0)
        while number < len(self._spans) and self._spans[number].first <= last:
            if self._spans[number].last >= first:
                yield self._spans[number]
            number += 1

    def _cut(self, first: int, last: int) -> list[Span]:
        """Return the spans of exactly this range, split where they reach beyond it."""
        self._split_at(first)
        self._split_at(last + 1)
        return list(self._between(first, last))

    def _split_at(self, offset: int) -> None:
        number = bisect_right(self._spans, offset, key=lambda span: span.first) - 1
        if number >= 0:
            self._split(number, offset)

    def _split(self, number: int, offset: int) -> None:
        """Let a new span begin at `offset` if it lies inside the given one."""
        span = self._spans[number]
        if span.first < offset <= span.last:
            rest = Span(
                offset, span.last, span.state, span.deliveries, span.holder, span.deadline_ms
            )
            span.last = offset - 1
            self._spans.insert(number + 1, rest)

    def _tidy(self) -> None:
        """Move `start` over what is done, and join neighbours in the same state."""
        joined: list[Span] = []
        for span in self._spans:
            if span.state is State.DONE and span.first == self.start:
                self.start = span.last + 1
            elif joined and joined[-1].alike(span):
                joined[-1].last = span.last
            else:
                joined.append(span)
        self._spans = joined


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

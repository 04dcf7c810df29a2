"""Stops calling what keeps failing: a circuit breaker for outgoing connections, free of I/O.

Closed, everything passes. After so many failures in a row it opens: calls are refused at once, for
a time that doubles with each turn. Then one call may try; its outcome closes or opens it again.
"""

import random
from collections.abc import Iterable, Iterator
from enum import Enum

from chordmq.client.backoff import Backoff
from chordmq.dataclass import dataclass
from chordmq.metrics import Metric


class State(Enum):
    """What becomes of a call."""

    CLOSED = 0
    """It passes."""
    HALF_OPEN = 1
    """One passes, to see whether it succeeds again."""
    OPEN = 2
    """It is refused."""


class Event(Enum):
    """What moves a breaker."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FAILED_TOO_OFTEN = "failed too often"
    RESTED = "rested"


NEXT: dict[tuple[State, Event], State] = {
    (State.CLOSED, Event.SUCCEEDED): State.CLOSED,
    (State.CLOSED, Event.FAILED): State.CLOSED,
    (State.CLOSED, Event.FAILED_TOO_OFTEN): State.OPEN,
    (State.OPEN, Event.RESTED): State.HALF_OPEN,
    # Of calls that began before it opened: they say nothing new.
    (State.OPEN, Event.SUCCEEDED): State.OPEN,
    (State.OPEN, Event.FAILED): State.OPEN,
    (State.OPEN, Event.FAILED_TOO_OFTEN): State.OPEN,
    (State.HALF_OPEN, Event.SUCCEEDED): State.CLOSED,
    (State.HALF_OPEN, Event.FAILED): State.OPEN,
    (State.HALF_OPEN, Event.FAILED_TOO_OFTEN): State.OPEN,
    # The call that tried never told how it ended: another may try.
    (State.HALF_OPEN, Event.RESTED): State.HALF_OPEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When a breaker opens, and for how long."""

    failures_max: int = 5
    rest_first_s: float = 0.5
    rest_most_s: float = 30.0


class Breaker:
    """Guards the calls to one peer; times are those of a monotonic clock."""

    def __init__(
        self, peer: str, chance: random.Random, settings: BreakerSettings | None = None
    ) -> None:
        self.peer = peer
        self.state = State.CLOSED
        self.failures = 0
        """Failures since the start."""
        self.refused = 0
        """Calls that were not made."""
        self._settings = settings or BreakerSettings()
        rests = self._settings.rest_first_s, self._settings.rest_most_s
        self._rests = Backoff(chance, *rests)
        self._in_a_row = 0
        self._ends_s = 0.0

    def allows(self, now_s: float) -> bool:
        """Say whether a call may be made now; one that may must tell how it ended."""
        if self.state is State.CLOSED:
            return True
        if now_s < self._ends_s:
            self.refused += 1
            return False
        self._move(Event.RESTED)
        self._rest(now_s)
        return True

    def wait_s(self, now_s: float) -> float:
        """Return how long calls are refused from now on."""
        return 0.0 if self.state is State.CLOSED else max(0.0, self._ends_s - now_s)

    def succeeded(self) -> None:
        """Take note that a call went well."""
        if self.state is not State.OPEN:
            self._in_a_row = 0
            self._rests.reset()
        self._move(Event.SUCCEEDED)

    def failed(self, now_s: float) -> None:
        """Take note that a call failed."""
        self.failures += 1
        self._in_a_row += 1
        was = self.state
        is_too_often = self._in_a_row >= self._settings.failures_max
        self._move(Event.FAILED_TOO_OFTEN if is_too_often else Event.FAILED)
        if self.state is State.OPEN and was is not State.OPEN:
            self._rest(now_s)

    def _rest(self, now_s: float) -> None:
        self._ends_s = now_s + self._rests.next_s()

    def _move(self, event: Event) -> None:
        self.state = NEXT[self.state, event]


def breaker_measures(breakers: Iterable[Breaker]) -> Iterator[Metric]:
    """Yield the state of each breaker and what it has counted."""
    rows = [({"peer": one.peer}, one) for one in breakers]
    yield Metric(
        "chordmq_breaker_state", "0 calls pass, 1 one is tried, 2 calls are refused.", "gauge",
        [(labels, one.state.value) for labels, one in rows],
    )  # fmt: skip
    yield Metric(
        "chordmq_breaker_failures", "Calls to a peer that failed.", "counter",
        [(labels, one.failures) for labels, one in rows],
    )  # fmt: skip
    yield Metric(
        "chordmq_breaker_refused", "Calls that were not made, because others had failed.",
        "counter", [(labels, one.refused) for labels, one in rows],
    )  # fmt: skip

"""Time as an argument: the system clock, and one that tests set."""

import time
from typing import Protocol


class Clock(Protocol):
    """Says what time it is, in two ways that must not be mixed."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970, for timestamps people see."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never go back, for time-outs and ages."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds."""
        return time.time_ns() // 1_000_000

    monotonic_s = staticmethod(time.monotonic)
    """Without a method of its own: connections ask with every read."""


class ManualClock:
    """A clock that moves only when a test says so."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._start_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """Return the seconds passed since the clock was made."""
        return (self._now_ms - self._start_ms) / 1000

    def advance(self, ms: int) -> None:
        """Move the time forward."""
        self._now_ms += ms

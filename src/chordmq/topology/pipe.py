"""How well a pipe does, and how fast it may go: health, schedule and pace (pure)."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from enum import Enum

from chordmq.dataclass import dataclass

DEGRADED_LAG = 100_000
UNHEALTHY_LAG = 10_000_000
OUTCOMES_MAX = 20
DEGRADED_RATE, UNHEALTHY_RATE = 0.1, 0.5
DAY_MINUTES = 24 * 60
CLOSED = "off"

_WINDOW = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)=(off|\d{1,15})")


class Health(Enum):
    """How well a pipe does."""

    HEALTHY = 0
    DEGRADED = 1
    UNHEALTHY = 2


@dataclass(slots=True)
class Vitals:
    """The last outcomes of a pipe and what it has still to get."""

    lag: int = 0
    """Records that the source has and this node has not."""
    outcomes: deque[bool] = field(default_factory=lambda: deque(maxlen=OUTCOMES_MAX))
    failures_in_a_row: int = 0

    def note(self, *, is_well: bool) -> None:
        """Remember how a request ended."""
        self.outcomes.append(is_well)
        self.failures_in_a_row = 0 if is_well else self.failures_in_a_row + 1

    @property
    def health(self) -> Health:
        """Return how the pipe does, by its error rate and its lag."""
        rate = self.outcomes.count(False) / len(self.outcomes) if self.outcomes else 0.0
        if rate >= UNHEALTHY_RATE or self.lag >= UNHEALTHY_LAG or self.failures_in_a_row >= 3:
            return Health.UNHEALTHY
        if rate >= DEGRADED_RATE or self.lag >= DEGRADED_LAG or self.failures_in_a_row:
            return Health.DEGRADED
        return Health.HEALTHY


@dataclass(frozen=True, slots=True)
class Window:
    """A part of each day, in minutes of UTC, and the bytes per second in it; None for nothing."""

    start: int
    stop: int
    bytes_per_s: int | None

    def minutes_left(self, minute: float) -> float:
        """Return how long the window is still open; 0 when it is not."""
        length = (self.stop - self.start) % DAY_MINUTES or DAY_MINUTES
        return max(0.0, length - (minute - self.start) % DAY_MINUTES)


def read_schedule(text: str) -> list[Window]:
    """Return the windows of `08:00-20:00=off,20:00-22:00=65536`, or raise ValueError."""
    return [_window(part.strip()) for part in text.split(",") if part.strip()]


def _window(text: str) -> Window:
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not such as 08:00-20:00=off or 08:00-20:00=65536")
    hours = int(match[1]), int(match[3])
    minutes = int(match[2]), int(match[4])
    if max(hours) > 24 or max(minutes) > 59:
        raise ValueError(f"{text!r} has no time of day")
    start, stop = (60 * hour + minute for hour, minute in zip(hours, minutes, strict=True))
    return Window(start, stop, None if match[5] == CLOSED else int(match[5]))


class Pace:
    """A limit on bytes per second by the time of day: too much is waited for afterwards."""

    def __init__(self, bytes_per_s: int = 0, schedule: Sequence[Window] = ()) -> None:
        self._usual = bytes_per_s
        self._schedule = schedule
        self._free_s = 0.0

    def wait_s(self, size: int, now_s: float, now_ms: int) -> float:
        """Count bytes that came, and return how long to wait before more are asked for.

        `now_s` is a steady time, `now_ms` the time of day; the first window that is open counts.
        """
        minute = now_ms / 60_000 % DAY_MINUTES
        rate = self._usual
        for window in self._schedule:
            if left := window.minutes_left(minute):
                if window.bytes_per_s is None:
                    return left * 60
                rate = window.bytes_per_s
                break
        if not rate:
            return 0.0
        self._free_s = max(self._free_s, now_s) + size / rate
        return max(0.0, self._free_s - now_s)


def worst(healths: Sequence[Health]) -> Health:
    """Return how a node with these pipes does."""
    return max(healths, key=lambda one: one.value, default=Health.HEALTHY)

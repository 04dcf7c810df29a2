"""Whether a partition is read so much that its copies should share the readers: pure, no clock.

It is popular when it has been above a limit for some seconds, and no more when it has been well
below it for a longer time: between the two nothing changes, so that nobody is sent to and fro.
"""

from chordmq.dataclass import dataclass

HALF_LIFE_S = 5.0
RISE_S = 3.0
"""How long it must be above a limit."""
FALL_S = 60.0
"""How long it must be below half of both limits."""
LOW = 0.5


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a partition is popular; 0 is never."""

    bytes_s: float
    readers: float


class Popularity:
    """How much one partition is read, as a moving average, and what follows from it."""

    __slots__ = ("_bytes", "_limits", "_measured_s", "_since_s", "is_popular", "rate", "readers")

    def __init__(self, limits: Limits, bytes_out: int, now_s: float) -> None:
        self.is_popular = False
        self.rate = 0.0
        """Bytes a second."""
        self.readers = 0.0
        self._limits = limits
        self._bytes = bytes_out
        self._measured_s = now_s
        self._since_s: float | None = None
        """When it began to be above the limit, or below it while it is popular."""

    @property
    def load(self) -> float:
        """Return how much it is read, where 1 is the nearer of the limits."""
        limits = self._limits
        return max(
            self.rate / limits.bytes_s if limits.bytes_s else 0.0,
            self.readers / limits.readers if limits.readers else 0.0,
        )

    def measure(self, bytes_out: int, readers: int, now_s: float) -> bool:
        """Take what was read since the last time; return whether that has changed anything."""
        passed_s = now_s - self._measured_s
        if passed_s <= 0:
            return False
        weight = 1 - 0.5 ** (passed_s / HALF_LIFE_S)
        self.rate += weight * ((bytes_out - self._bytes) / passed_s - self.rate)
        self.readers += weight * (readers - self.readers)
        self._bytes, self._measured_s = bytes_out, now_s
        is_turning = self.load < LOW if self.is_popular else self.load >= 1
        if not is_turning:
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s < (FALL_S if self.is_popular else RISE_S):
            return False
        self.is_popular, self._since_s = not self.is_popular, None
        return True

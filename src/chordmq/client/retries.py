"""How often a message is tried, and how long to wait in between (pure)."""

from collections.abc import Callable

from chordmq.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter: 0.1 s, 0.2 s, 0.4 s … each more or less a fifth."""

    attempts: int = 3
    """How often a message is tried in all; 1 never tries again."""
    first_s: float = 0.1
    """The wait after the first failure."""
    factor: float = 2.0
    """By how much each wait is longer than the one before."""
    most_s: float = 30.0
    """The longest wait."""
    jitter: float = 0.2
    """The share by which a wait may be shorter or longer, so that failures do not come in waves."""

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be."""
        if self.attempts < 1:
            raise ValueError("attempts is 1 or more")
        if self.first_s < 0 or self.most_s < self.first_s or self.factor < 1:
            raise ValueError("waits do not get shorter: 0 <= first_s <= most_s, factor >= 1")
        if not 0 <= self.jitter < 1:
            raise ValueError("jitter is a share from 0 to below 1")

    def delay_s(self, attempt: int, uniform: Callable[[float, float], float]) -> float:
        """Return the wait after an attempt that has failed, the first being 1."""
        steps = min(attempt - 1, 64)  # beyond that any factor has reached the longest wait
        wait_s = min(self.most_s, self.first_s * self.factor**steps)
        return wait_s * uniform(1 - self.jitter, 1 + self.jitter)

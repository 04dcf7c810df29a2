"""How long to wait before the next attempt: exponential, with jitter, bounded."""

import random

FIRST_S = 0.05
MOST_S = 1.0
JITTER = 0.2


class Backoff:
    """Counts failures and says how long to wait after each."""

    def __init__(
        self, chance: random.Random, first_s: float = FIRST_S, most_s: float = MOST_S
    ) -> None:
        self._chance = chance
        self._first_s = first_s
        self._most_s = most_s
        self._failures = 0

    def next_s(self) -> float:
        """Count one more failure and return the wait after it, in seconds."""
        delay = min(self._most_s, self._first_s * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return delay * self._chance.uniform(1 - JITTER, 1 + JITTER)

    def reset(self) -> None:
        """Forget the failures after a success."""
        self._failures = 0

"""Slows down whoever guesses passwords: after some failures, each next one costs twice the wait."""

from collections import OrderedDict

from chordmq.clock import Clock
from chordmq.dataclass import dataclass

FREE_PER_USER = 5
FREE_PER_ADDRESS = 500
WAIT_FIRST_S = 1.0
WAIT_MAX_S = 60.0
FORGIVEN_AFTER_S = 60.0
"""One failure is forgotten for each such time without another."""
REMEMBERED_MAX = 20_000

Key = tuple[str, str]


@dataclass(slots=True)
class _Failures:
    count: int
    last_s: float
    free_from_s: float


class FailedLogins:
    """Counts failures by user and address together, and by address alone.

    A user is never locked out for all: somebody who guesses from one address does not keep the
    user itself from logging in at another. And a program with an old password, which tries again
    and again, slows down itself and nobody else at its address.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[Key, _Failures] = OrderedDict()

    def wait_s(self, user: str, address: str) -> float:
        """Return how long the next try must wait; 0 when it may be made."""
        now = self._clock.monotonic_s()
        found = (self._failures.get(key) for key, _ in _keys(user, address))
        return max(0.0, *(one.free_from_s - now if one else 0.0 for one in found))

    def failed(self, user: str, address: str) -> None:
        """Count a failure."""
        now = self._clock.monotonic_s()
        for key, free in _keys(user, address):
            known = self._failures.pop(key, None) or _Failures(0, now, now)
            forgiven = int((now - known.last_s) / FORGIVEN_AFTER_S)
            known.count = max(0, known.count - forgiven) + 1
            known.last_s = now
            if known.count > free:
                # Beyond 2**16 the wait is at its longest anyway.
                wait_s = WAIT_FIRST_S * 2 ** min(known.count - free - 1, 16)
                known.free_from_s = now + min(wait_s, WAIT_MAX_S)
            self._failures[key] = known
        while len(self._failures) > REMEMBERED_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Forget the user's failures at this address."""
        self._failures.pop((user, address), None)


def _keys(user: str, address: str) -> list[tuple[Key, int]]:
    keys = [(("", address), FREE_PER_ADDRESS)]
    if user:
        keys.append(((user, address), FREE_PER_USER))
    return keys

"""One timer of the event loop for the deadlines of many groups or cursors."""

import asyncio
from collections.abc import Callable

from chordmq.broker.deadlines import Deadlines
from chordmq.clock import Clock


class Alarm:
    """Calls `ring` with each name whose deadline has come; names without one cost nothing."""

    def __init__(self, clock: Clock, ring: Callable[[str], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._deadlines = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def __contains__(self, name: str) -> bool:
        return name in self._deadlines

    def now_ms(self) -> int:
        """Return the time that deadlines are measured in."""
        return int(self._clock.monotonic_s() * 1000)

    def set(self, name: str, at_ms: int | None) -> None:
        """Give a name a deadline in the place of the one it has; None for none."""
        if at_ms is None:
            self._deadlines.discard(name)
        else:
            self._deadlines.set(name, at_ms)
            self._arm()

    def discard(self, name: str) -> None:
        """Forget a name's deadline."""
        self._deadlines.discard(name)

    def tick(self) -> None:
        """Ring for everything that is due."""
        self._timer = None
        for name in self._deadlines.due(self.now_ms()):
            self._ring(name)
        self._arm()

    def cancel(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        """Have `tick` called when the next deadline comes."""
        next_ms = self._deadlines.next_ms()
        if next_ms is None or (self._timer is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(next_ms - self.now_ms(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self.tick)
        self._timer_ms = next_ms

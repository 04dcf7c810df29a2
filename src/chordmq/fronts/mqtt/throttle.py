"""Makes a client wait that uses more than its quotas: neither read nor sent to until then."""

import asyncio
from collections.abc import Callable

from chordmq.broker.security.meter import Meter


class Throttle:
    """What one connection uses, charged with each read and each write."""

    __slots__ = ("_meter", "_resume", "is_waiting")

    def __init__(self, meter: Meter, resume: Callable[[], None]) -> None:
        self._meter = meter
        self._resume = resume
        self.is_waiting = False

    def count(self, *, produced: int = 0, fetched: int = 0) -> None:
        """Charge bytes, and wait if they are too many."""
        if not self._meter.is_on:
            return
        self._meter.produced += produced
        self._meter.fetched += fetched
        wait_s = self._meter.wait_s()
        if wait_s > 0 and not self.is_waiting:
            self.is_waiting = True
            asyncio.get_running_loop().call_later(wait_s, self._end)

    def _end(self) -> None:
        self.is_waiting = False
        self._resume()

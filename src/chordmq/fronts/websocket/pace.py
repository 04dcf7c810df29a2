"""Slows down a client of the gateway that is above its quota, and tells it so."""

import asyncio
import math
from collections.abc import Callable, Coroutine

from chordmq.broker.security.meter import Meter
from chordmq.codecs.websocket.messages import Publish, Request, Throttled, Told


class Pace:
    """What a client has sent and was sent, and whether it has to wait for that."""

    def __init__(
        self, meter: Meter, tell: Callable[[Told], None], go_on: Callable[[], None]
    ) -> None:
        self._meter = meter
        self._tell = tell
        self._go_on = go_on
        self._pause: asyncio.TimerHandle | None = None

    @property
    def is_pausing(self) -> bool:
        """Return whether nothing may be pushed to the client now."""
        return self._pause is not None

    async def work(self, request: Request, size: int, work: Coroutine[None, None, None]) -> None:
        """Do what the client asks, and count it."""
        if isinstance(request, Publish):
            self._meter.produced += size
        await (self._meter.working(work) if self._meter.is_on else work)

    async def wait(self) -> None:
        """Return when more may be taken from the client."""
        wait_s = self._charged()
        if wait_s > 0:
            self._tell(Throttled(wait_ms=math.ceil(wait_s * 1000), direction="in"))
            await asyncio.sleep(wait_s)

    def pushed(self, size: int, worked_s: float) -> None:
        """Count what was pushed; above the quota, push on when the time is over."""
        self._meter.fetched += size
        self._meter.worked_s += worked_s
        wait_s = self._charged()
        if wait_s > 0:
            self._tell(Throttled(wait_ms=math.ceil(wait_s * 1000), direction="out"))
            self._pause = asyncio.get_running_loop().call_later(wait_s, self._end_pause)

    def close(self) -> None:
        """Wake nobody any more."""
        if self._pause is not None:
            self._pause.cancel()

    def _end_pause(self) -> None:
        self._pause = None
        self._go_on()

    def _charged(self) -> float:
        return self._meter.wait_s() if self._meter.is_on else 0.0

"""Measures how late the event loop comes to what is due, and warns when it is too late."""

import asyncio
from collections.abc import Iterator

from chordmq.clock import Clock
from chordmq.logs import get_logger
from chordmq.metrics import Histogram, Metric, gauge, histogram

INTERVAL_S = 0.1
ALARM_S = 0.25
ALARM_PAUSE_S = 10.0

log = get_logger(__name__)


class LoopLag:
    """Sleeps a little again and again; what it oversleeps, every client of the node waits too."""

    def __init__(self, clock: Clock, alarm_s: float = ALARM_S) -> None:
        self._clock = clock
        self._alarm_s = alarm_s
        self._quiet_until_s = clock.monotonic_s()
        self.lags = Histogram()
        self.last_s = 0.0
        self.alarms = 0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due_s = self._clock.monotonic_s() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self.observe(max(0.0, self._clock.monotonic_s() - due_s))

    def observe(self, lag_s: float) -> None:
        """Count one measurement; a large one is logged, but not all of a series."""
        self.lags.observe(lag_s)
        self.last_s = lag_s
        if lag_s < self._alarm_s:
            return
        self.alarms += 1
        now_s = self._clock.monotonic_s()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + ALARM_PAUSE_S
            log.warning("the event loop is late", lag_ms=round(lag_s * 1000), alarms=self.alarms)

    def measures(self) -> Iterator[Metric]:
        """Yield what was measured."""
        yield histogram("chordmq_loop_lag_seconds", "How late the event loop was.", self.lags)
        yield gauge("chordmq_loop_lag_last_seconds", "How late it was last.", self.last_s)

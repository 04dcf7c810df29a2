"""The event loop's lag: measured, and said aloud when it is large."""

import asyncio
import time

from structlog.testing import capture_logs

from chordmq.clock import ManualClock, SystemClock
from chordmq.lag import ALARM_PAUSE_S, INTERVAL_S, LoopLag


async def test_a_blocked_event_loop_is_measured() -> None:
    """C15: the loop's lag is a metric."""
    lag = LoopLag(SystemClock(), alarm_s=0.05)
    with capture_logs() as lines:
        task = asyncio.ensure_future(lag.run())
        await asyncio.sleep(0)
        time.sleep(INTERVAL_S + 0.1)  # noqa: ASYNC251
        while not lag.alarms:  # noqa: ASYNC110
            await asyncio.sleep(0)
        task.cancel()
    assert lag.last_s >= 0.1
    assert lines[0]["event"] == "the event loop is late"
    assert {metric.name for metric in lag.measures()} >= {"chordmq_loop_lag_seconds"}


def test_a_series_of_alarms_is_logged_once_in_a_while() -> None:
    clock = ManualClock()
    lag = LoopLag(clock, alarm_s=0.05)
    with capture_logs() as lines:
        lag.observe(0.01)
        lag.observe(0.2)
        lag.observe(0.3)
        clock.advance(int(ALARM_PAUSE_S * 1000))
        lag.observe(0.4)
    assert [line["lag_ms"] for line in lines] == [200, 400]
    assert lag.alarms == 3

"""The event loop's lag: measured, and said aloud when it is large."""

import asyncio
import time

import pytest

from chordmq.clock import ManualClock, SystemClock
from chordmq.lag import ALARM_PAUSE_S, INTERVAL_S, LoopLag


async def test_a_blocked_event_loop_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    """C15: the loop's lag is a metric."""
    lag = LoopLag(SystemClock(), alarm_s=0.05)
    task = asyncio.ensure_future(lag.run())
    await asyncio.sleep(0)
    time.sleep(INTERVAL_S + 0.1)  # noqa: ASYNC251
    while not lag.alarms:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    assert lag.last_s >= 0.1
    assert "the event loop is late" in caplog.messages
    assert {metric.name for metric in lag.measures()} >= {"chordmq_loop_lag_seconds"}


def test_a_series_of_alarms_is_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    lag = LoopLag(clock, alarm_s=0.05)
    lag.observe(0.01)
    lag.observe(0.2)
    lag.observe(0.3)
    clock.advance(int(ALARM_PAUSE_S * 1000))
    lag.observe(0.4)
    assert [vars(record)["facts"]["lag_ms"] for record in caplog.records] == [200, 400]
    assert lag.alarms == 3

"""One timer for the deadlines of many."""

import asyncio

from chordmq.broker.alarm import Alarm
from chordmq.clock import ManualClock, SystemClock


async def test_names_ring_when_their_time_has_come() -> None:
    rung: list[str] = []
    clock = ManualClock()
    alarm = Alarm(clock, rung.append)
    now_ms = alarm.now_ms()
    alarm.set("a", now_ms + 10)
    alarm.set("b", now_ms + 20)
    alarm.set("c", now_ms + 10)
    alarm.set("c", None)
    clock.advance(10)
    alarm.tick()
    assert rung == ["a"]
    alarm.discard("b")
    clock.advance(10)
    alarm.tick()
    assert rung == ["a"]
    alarm.cancel()


async def test_the_event_loop_rings_by_itself_and_the_earliest_wins() -> None:
    rung: asyncio.Queue[str] = asyncio.Queue()
    alarm = Alarm(SystemClock(), rung.put_nowait)
    alarm.set("late", alarm.now_ms() + 60_000)
    alarm.set("soon", alarm.now_ms() + 5)
    assert await asyncio.wait_for(rung.get(), 60) == "soon"
    alarm.cancel()

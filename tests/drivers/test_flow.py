"""Flow control of the use cases: room, credit, pause, and what gives way."""

import asyncio

from chordmq.drivers.adapter import Message
from chordmq.drivers.flow import FlowControl, SlowReader


def messages(count: int) -> list[Message]:
    return [Message(name="a/b", value=b"%d" % number) for number in range(count)]


def values(found: list[Message]) -> list[bytes | None]:
    return [one.value for one in found]


async def test_a_reader_gets_as_much_as_it_has_credit_for() -> None:
    """E6: messages come in order, as many as were asked for."""
    flow = FlowControl()
    await flow.offer(messages(5))
    assert values(await flow.take(2)) == [b"0", b"1"]
    assert values(await flow.take(10)) == [b"2", b"3", b"4"]


async def test_who_publishes_waits_for_a_slow_reader() -> None:
    """E6: without room nothing more is taken from the broker."""
    flow = FlowControl(waiting_max=2)
    async with asyncio.TaskGroup() as tasks:
        offering = tasks.create_task(flow.offer(messages(3)))
        assert values(await flow.take(2)) == [b"0", b"1"]
        await offering
    assert values(await flow.take(1)) == [b"2"]
    assert flow.dropped == 0


async def test_the_oldest_give_way_if_that_was_chosen() -> None:
    """E6: a reader that wants the newest gets it; what was left out is counted."""
    flow = FlowControl(waiting_max=2, policy=SlowReader.DROP_OLDEST)
    await flow.offer(messages(5))
    assert values(await flow.take(10)) == [b"3", b"4"]
    assert flow.dropped == 3


async def test_nothing_is_handed_out_during_a_pause() -> None:
    """E6: pause and resume."""
    flow = FlowControl()
    await flow.pause()
    await flow.offer(messages(1))
    async with asyncio.TaskGroup() as tasks:
        taking = tasks.create_task(flow.take(1))
        await asyncio.sleep(0)
        assert not taking.done()
        await flow.resume()
        assert values(await taking) == [b"0"]
    assert len(flow) == 0

"""What waits to be written is bounded, and joined."""

import asyncio

from chordmq.cdc.backlog import Backlog, Step
from chordmq.cdc.change import Position
from chordmq.cdc.rendering import Rendered
from chordmq.cdc.settings import Pace


def step(count: int, at: str = "", size: int = 0) -> Step:
    records = Rendered(0)
    for _ in range(count):
        records.add("t", None, b"")
    records.size = size
    return Step(records, Position(at), count, 0.0)


async def test_steps_are_joined_up_to_what_one_transaction_takes() -> None:
    backlog = Backlog(Pace(step_events_max=10))
    for number in (4, 6, 1):
        await backlog.put(step(number))
    assert [len(one.records) for one in await backlog.take()] == [4, 6]
    assert [len(one.records) for one in await backlog.take()] == [1]
    assert backlog.records == 0


async def test_a_step_that_is_too_large_is_taken_alone() -> None:
    backlog = Backlog(Pace(step_events_max=10))
    await backlog.put(step(50))
    assert len(await backlog.take()) == 1


async def test_who_reads_waits_until_there_is_room() -> None:
    """E8: a slow broker slows the reading of the database; nothing is dropped or piled up."""
    for pace in (Pace(queue_events_max=5), Pace(queue_bytes_max=5)):
        backlog = Backlog(pace)
        await backlog.put(step(5, size=5))
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(backlog.put(step(1, "second")))
            for _ in range(3):
                await asyncio.sleep(0)
            assert not waiting.done()
            await backlog.take()
        assert (await backlog.take())[0].position.at == "second"


async def test_who_writes_waits_until_there_is_something() -> None:
    backlog = Backlog(Pace())
    async with asyncio.TaskGroup() as tasks:
        taking = tasks.create_task(backlog.take())
        await asyncio.sleep(0)
        assert not taking.done()
        await backlog.put(step(1))
    assert len(taking.result()) == 1

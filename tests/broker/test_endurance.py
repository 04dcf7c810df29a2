"""Work that outlives its caller: it ends, and a refusal that nobody hears is no fault."""

import asyncio
import gc
from typing import Any

import pytest

from chordmq.broker.endurance import to_the_end
from chordmq.errors import PolicyViolation


async def test_the_caller_gets_the_result_or_the_refusal() -> None:
    async def work(error: Exception | None) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 7

    assert await to_the_end(work(None)) == 7
    with pytest.raises(PolicyViolation):
        await to_the_end(work(PolicyViolation("no")))


async def test_work_goes_on_without_its_caller_and_its_refusal_is_not_reported() -> None:
    """C12: a client that asks for nonsense and hangs up leaves no trace of a fault."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
    go_on, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        done.set()
        raise PolicyViolation("no")

    async with asyncio.TaskGroup() as tasks:
        caller = tasks.create_task(to_the_end(work()))
        await asyncio.sleep(0)
        caller.cancel()
    go_on.set()
    await done.wait()
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []

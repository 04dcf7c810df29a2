"""Work that goes on to its end, even if whoever asked for it goes away."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what the work returns; if the caller is cancelled, the work is not."""
    task = asyncio.ensure_future(work)
    # Without a caller nobody hears of a refusal, and that is nobody's fault.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return await asyncio.shield(task)

"""A program that runs beside the node: started again if it fails, and ended with it."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

REST_FIRST_S, REST_MOST_S = 2.0, 120.0
STOP_S = 20.0
NICENESS = 5
"""The node comes first when there is more work than cores."""
_DIE_WITH_PARENT = 1


@dataclass(frozen=True, slots=True)
class Companion:
    """What to run, and where its output goes."""

    name: str
    command: Sequence[str]
    log: Path
    niceness: int = NICENESS


async def keep_running(companion: Companion, tell: Callable[[str], None]) -> None:
    """Run a companion until cancelled; tell when it has failed, and rest longer each time."""
    rest_s = REST_FIRST_S
    companion.log.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with companion.log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *companion.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=partial(_follow_parent, companion.niceness),
            )
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        tell(f"the {companion.name} ended with status {status}; see {companion.log}")
        await asyncio.sleep(rest_s)
        rest_s = min(REST_MOST_S, rest_s * 2)


def _follow_parent(niceness: int) -> None:
    """Have the kernel end this process when the node dies, even by kill -9."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)
    os.nice(niceness)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()

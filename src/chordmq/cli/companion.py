"""A program that runs beside the node: started again if it fails, and ended with it."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from chordmq.dataclass import dataclass
from chordmq.offspring import follow_parent

REST_FIRST_S, REST_MOST_S = 2.0, 120.0
STOP_S = 20.0
NICENESS = 5
"""The node comes first when there is more work than cores."""


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
                preexec_fn=partial(follow_parent, companion.niceness),
            )
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        tell(f"the {companion.name} ended with status {status}; see {companion.log}")
        await asyncio.sleep(rest_s)
        rest_s = min(REST_MOST_S, rest_s * 2)


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

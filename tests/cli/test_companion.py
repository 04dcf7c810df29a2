"""Programs beside the node: told of when they fail, and never left behind."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chordmq.cli import companion
from chordmq.cli.companion import Companion, keep_running

SLEEPER = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]


async def test_a_companion_that_fails_is_told_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2: the node runs on if its pipeline does not."""
    monkeypatch.setattr(companion, "REST_FIRST_S", 0.01)
    told: asyncio.Queue[str] = asyncio.Queue()
    sleeper = Companion(
        "sleeper",
        [sys.executable, "-c", "import sys; sys.exit('no luck')"],
        tmp_path / "log" / "sleeper.log",
    )
    task = asyncio.ensure_future(keep_running(sleeper, told.put_nowait))
    first, second = await told.get(), await told.get()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert first == second == f"the sleeper ended with status 1; see {sleeper.log}"
    assert "no luck" in sleeper.log.read_text()


def test_a_companion_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """X2: kill -9 of the node leaves no Spark behind."""
    log = tmp_path / "node.log"
    program = f"""
import asyncio
from pathlib import Path
from chordmq.cli.companion import Companion, keep_running
node = Companion("node", {SLEEPER!r}, Path({str(log)!r}))
asyncio.run(keep_running(node, print))
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    try:
        while not (log.exists() and "ready" in log.read_text()):
            assert parent.poll() is None
            os.sched_yield()
        (child,) = map(int, children.read_text().split())
        ended = os.pidfd_open(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait(60)
        assert select.select([ended], [], [], 60.0)[0], "the child outlived its parent"
        os.close(ended)
    finally:
        parent.kill()
        parent.wait(60)

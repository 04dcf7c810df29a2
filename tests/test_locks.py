"""Locks between processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from chordmq.locks import FileLock, locked
from tests.waiting import wait_until

HOLD = """
import sys
from pathlib import Path
from chordmq.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder_of(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that holds a lock until it is killed, or nobody wants it any more."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield holder


def test_a_lock_is_taken_once_and_names_its_holder(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert second.holder == "unknown"
    assert [first.take(), second.take()] == [True, False]
    assert second.holder == str(os.getpid())
    first.release()
    assert second.take()
    second.release()


def test_who_waits_hears_for_whom_and_goes_on_when_that_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    heard: list[str] = []

    def wait() -> str:
        with locked(path, heard.append):
            return path.read_text()

    with holder_of(path) as holder, ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(wait)
        wait_until(lambda: bool(heard))
        assert f"process {holder.pid}" in heard[0]
        assert not waiting.done()
        holder.send_signal(signal.SIGKILL)
        assert waiting.result(60) == f"{os.getpid()}\n"

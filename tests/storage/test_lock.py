"""The lock on a data directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chordmq.errors import CannotStart
from chordmq.storage.lock import DirectoryLock

HOLD = """
import sys, time
from pathlib import Path
from chordmq.storage.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    lock = DirectoryLock(directory)
    with pytest.raises(CannotStart, match=rf"process {os.getpid()}\) uses .* data_dir"):
        DirectoryLock(directory)
    lock.release()
    DirectoryLock(directory).release()


def test_a_holder_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CannotStart, match=f"process {holder.pid}"):
            DirectoryLock(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    DirectoryLock(tmp_path).release()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="file/data cannot be used: Not a directory"):
        DirectoryLock(tmp_path / "file" / "data")

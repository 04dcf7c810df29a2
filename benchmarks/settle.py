"""Waits for a disk that still works on what was removed.

Where a file system is mounted with `discard`, `sync` returns before the blocks of removed files are
given back, and the next flush has to wait for that: a broker that starts then pays for the one
before it.
"""

import os
import time
from pathlib import Path

QUICK_S = 0.02
QUICK_IN_A_ROW = 5
WAIT_MAX_S = 30.0


def settle(directory: Path) -> None:
    """Return when small writes are flushed quickly again, or after half a minute."""
    os.sync()
    given_up = time.monotonic() + WAIT_MAX_S
    probe = directory / "probe"
    quick = 0
    with probe.open("wb") as file:
        while quick < QUICK_IN_A_ROW and time.monotonic() < given_up:
            started = time.monotonic()
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
            quick = quick + 1 if time.monotonic() - started < QUICK_S else 0
    probe.unlink()

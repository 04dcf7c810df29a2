"""Waiting for something to become true, for as long as a loaded machine may need."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0
LOOK_S = 0.02


def wait_until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Return as soon as it holds; fail if it never does."""
    deadline_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {patience_s:g} s"
        time.sleep(LOOK_S)

"""Processes that a node starts beside itself, and that must not outlive it."""

import ctypes
import os
import signal

_DIE_WITH_PARENT = 1


def follow_parent(niceness: int = 0) -> None:
    """Have the kernel end this process when the node dies, even by kill -9; run in the child."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)
    os.nice(niceness)

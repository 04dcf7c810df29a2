"""Loads modules late, and libraries without others that they would load for nothing."""

import sys
import threading
from importlib import import_module
from typing import Any

_one_at_a_time = threading.Lock()


async def load_late(module: str) -> Any:
    """Return a module, loaded in a thread, so that clients need not wait for it.

    One thread loads at a time: libraries whose modules import each other must not meet half-way.
    """
    import asyncio

    return await asyncio.to_thread(_load, module)


def _load(module: str) -> Any:
    with _one_at_a_time:
        return import_module(module)


def load_without(unwanted: str, library: str) -> Any:
    """Return a module, for which another one looked as if it were not installed."""
    if unwanted in sys.modules:
        return import_module(library)
    sys.modules[unwanted] = None  # type: ignore[assignment]
    try:
        return import_module(library)
    finally:
        del sys.modules[unwanted]

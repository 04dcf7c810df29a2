"""Loads a library without another that it would load for nothing."""

import sys
from importlib import import_module
from typing import Any


def load_without(unwanted: str, library: str) -> Any:
    """Return a module, for which another one looked as if it were not installed."""
    if unwanted in sys.modules:
        return import_module(library)
    sys.modules[unwanted] = None  # type: ignore[assignment]
    try:
        return import_module(library)
    finally:
        del sys.modules[unwanted]

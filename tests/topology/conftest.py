"""Registries and mirrors for tests, one process each."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.topology.running_mirror import RunningMirror
from tests.topology.running_registry import RunningRegistry

StartRegistry = Callable[..., RunningRegistry]
StartMirror = Callable[..., RunningMirror]


@pytest.fixture
def start_registry(tmp_path: Path) -> Iterator[StartRegistry]:
    """Start registries that end with the test."""
    started: list[RunningRegistry] = []

    def start(*options: str, context: ssl.SSLContext | None = None) -> RunningRegistry:
        directory = tmp_path / f"registry{len(started)}"
        registry = RunningRegistry(directory, *options, context=context)
        started.append(registry)
        registry.start()
        return registry

    yield start
    for registry in started:
        registry.kill9()


@pytest.fixture
def start_mirror(tmp_path: Path) -> Iterator[StartMirror]:
    """Start mirrors that end with the test."""
    started: list[RunningMirror] = []

    def start(*options: str) -> RunningMirror:
        mirror = RunningMirror(tmp_path / f"mirror{len(started)}.log", *options)
        started.append(mirror)
        mirror.start()
        return mirror

    yield start
    for mirror in started:
        mirror.kill9()

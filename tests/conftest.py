"""Running nodes for the tests that need one, and their logs when such a test fails."""

import os
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from chordmq.storage import segment
from chordmq.storage.cold import ColdRange
from tests.cold_disk import Disk
from tests.running_node import RunningNode

# How long an example takes says more about the machine's load than about the code. The same
# examples each time, so that a change is blamed for what it broke; `make explore` looks for new.
hypothesis_settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis_settings.register_profile("explore", deadline=None, max_examples=1_000)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Nodes are forked from this process, where gRPC's threads may be running.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

StartNode = Callable[..., RunningNode]

LOG_TAIL_LINES = 60
SPARK_TIMEOUT_S = 300
SHARED = pytest.StashKey[RunningNode]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests on Spark take longer: the first of a worker starts a Java machine."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))


@pytest.fixture(scope="session")
def node(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningNode]:
    """Give a node that all tests of this worker share; use names of your own on it."""
    running = RunningNode(tmp_path_factory.mktemp("node"))
    pytestconfig.stash[SHARED] = running
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[StartNode]:
    """Give a function that starts a node of the test's own, with settings of its own."""
    started: list[RunningNode] = []

    def start(settings: Mapping[str, str] | None = None) -> RunningNode:
        running = RunningNode(tmp_path / f"node-{len(started)}", settings)
        started.append(running)
        running.start()
        return running

    yield start
    for running in started:
        running.close()


@pytest.fixture
def own_node(start_node: StartNode) -> RunningNode:
    """Give a node that only this test uses and may kill."""
    return start_node()


@pytest.fixture
def name() -> str:
    """Give a name that no other test uses, for topics and groups."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the log of every node that a failed test used to its report."""
    report = yield
    if report.failed:
        for log in _logs(item):
            report.sections.append((f"node log {log.parent}", _tail(log)))
    return report


def _logs(item: pytest.Item) -> list[Path]:
    """Return the logs of the nodes that a test used, by itself or through another fixture."""
    used = getattr(item, "funcargs", {})
    logs = {value.log for value in used.values() if isinstance(value, RunningNode)}
    if "bootstrap" in used and SHARED in item.config.stash:
        logs.add(item.config.stash[SHARED].log)
    if "tmp_path" in used:
        logs.update(used["tmp_path"].glob("node-*/node.log"))
    return sorted(log for log in logs if log.exists())


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Put such a disk under all logs; it needs a node with `log_memory_max_bytes=0`."""
    disk = Disk()
    monkeypatch.setattr(segment, "is_cached", disk.is_cached)
    monkeypatch.setattr(ColdRange, "fetch", lambda wanted: disk.fetch(wanted))
    yield disk
    disk.may_go_on.set()

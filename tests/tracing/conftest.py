"""A node that tells its spans to a collector."""

from collections.abc import Iterator

import pytest

from tests.running_node import RunningNode
from tests.tracing.collector import Collector, collecting


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="module")
def traced_node(
    collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningNode]:
    settings = {"tracing.endpoint": collector.endpoint, "tracing.service": "test"}
    running = RunningNode(tmp_path_factory.mktemp("traced"), settings)
    try:
        running.start()
        yield running
    finally:
        running.close()

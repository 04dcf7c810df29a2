"""A real store on disk, shared by the images of several brokers in one process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordmq.clock import SystemClock
from chordmq.cluster.metastore.local import LocalStore
from chordmq.storage.metadata.database import Database
from tests.cluster.running_cluster import CALM, RunningCluster
from tests.cluster.unreliable_store import UnreliableStore


@pytest.fixture(scope="session")
def calm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Three nodes for tests that stop none of them, and use names of their own."""
    with RunningCluster(tmp_path_factory.mktemp("calm"), settings=CALM) as running:
        yield running


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "meta.db")
    yield database
    database.close()


@pytest.fixture
def shared_store(database: Database) -> UnreliableStore:
    return UnreliableStore(LocalStore(database, SystemClock()))

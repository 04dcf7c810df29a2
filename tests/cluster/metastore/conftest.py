"""Both back ends of the store, for the contract that they share."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chordmq.clock import SystemClock
from chordmq.cluster.metastore.etcd import EtcdStore
from chordmq.cluster.metastore.gateway import GatewaySettings
from chordmq.cluster.metastore.local import LocalStore
from chordmq.cluster.metastore.store import MetaStore
from chordmq.storage.metadata.database import Database
from tests.cluster.etcd_members import EtcdMembers


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMembers]:
    with EtcdMembers(tmp_path_factory.mktemp("etcd")) as members:
        yield members


@pytest.fixture(params=["local", "etcd"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetaStore]:
    if request.param == "local":
        database = Database(tmp_path / "meta.db")
        yield LocalStore(database, SystemClock())
        database.close()
        return
    members: EtcdMembers = request.getfixturevalue("etcd")
    remote = EtcdStore(
        GatewaySettings(endpoints=members.endpoints, timeout_s=60), f"/t/{uuid.uuid4()}/"
    )
    yield remote
    await remote.close()

"""Adapter, broker and database crash at random, and every change is told once."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import PyMongoError

from tests.cdc.following import FollowingProcess, Reader, Written
from tests.conftest import StartNode
from tests.postgres import RunningPostgres, running_postgres
from tests.replica_set import RunningReplicaSet, running_replica_set

KEYS = 20
PATIENCE_S = 240.0
PAUSE_S = 0.1


class Database(Protocol):
    """A database whose rows count their own changes, so that it knows what was committed."""

    kind: str
    settings: dict[str, Any]
    topic: str

    def prepare(self) -> None: ...
    def change(self, key: int) -> None: ...
    def counts(self) -> dict[int, int]: ...
    def crash(self) -> None: ...
    def close(self) -> None: ...
    def value_of(self, written: Written) -> tuple[int, int]: ...


class Postgres:
    kind = "postgresql"
    topic = "items.public.items"

    def __init__(self, server: RunningPostgres) -> None:
        self._server = server
        self.settings = {"address": server.address}
        self._connection: psycopg.Connection[Any] | None = None

    def prepare(self) -> None:
        self._server.execute("CREATE TABLE items (id int PRIMARY KEY, v int)")
        self._server.execute(f"INSERT INTO items SELECT g, 0 FROM generate_series(1, {KEYS}) g")

    def change(self, key: int) -> None:
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._server.address, autocommit=True, connect_timeout=5
                )
            self._connection.execute("UPDATE items SET v = v + 1 WHERE id = %s", [key])
        except psycopg.OperationalError:
            self.close()
            time.sleep(PAUSE_S)

    def counts(self) -> dict[int, int]:
        return {int(key): int(value) for key, value in self._server.execute("SELECT * FROM items")}

    def crash(self) -> None:
        self._server.kill9()
        self._server.start()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def value_of(self, written: Written) -> tuple[int, int]:
        return written.key["id"], written.value["after"]["v"]


class Mongo:
    kind = "mongodb"
    topic = "items.shop.items"

    def __init__(self, server: RunningReplicaSet) -> None:
        self._server = server
        self.settings = {
            "address": server.address,
            "tables": {"include": [r"shop\..*"]},
            "images": "post_image",
        }
        self._client: MongoClient[Any] = server.client()

    def prepare(self) -> None:
        shop = self._client.shop
        shop.create_collection("items", changeStreamPreAndPostImages={"enabled": True})
        shop.items.insert_many([{"_id": key, "v": 0} for key in range(1, KEYS + 1)])

    def change(self, key: int) -> None:
        safe = self._client.shop.items.with_options(write_concern=WriteConcern("majority"))
        try:
            safe.update_one({"_id": key}, {"$inc": {"v": 1}})
        except PyMongoError:
            time.sleep(PAUSE_S)

    def counts(self) -> dict[int, int]:
        return {one["_id"]: one["v"] for one in self._client.shop.items.find()}

    def crash(self) -> None:
        self._server.kill9()
        self._server.start()

    def close(self) -> None:
        self._client.close()

    def value_of(self, written: Written) -> tuple[int, int]:
        after = written.value["after"]
        return int(written.key["id"]), int(after.rpartition(":")[2].rstrip("}"))


@pytest.fixture(params=["postgresql", "mongodb"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    if request.param == "postgresql":
        with running_postgres() as postgres, closing(Postgres(postgres)) as found:
            yield found
    else:
        directory = tmp_path_factory.mktemp("mongodb")
        with running_replica_set(directory) as mongodb, closing(Mongo(mongodb)) as documents:
            yield documents


@pytest.mark.timeout(300)
def test_every_change_is_told_once_and_in_order_although_everything_crashes(
    database: Database, start_node: StartNode, tmp_path: Path
) -> None:
    """E8: the adapter, the broker and the database are killed once each."""
    told_once_and_in_order(database, start_node, tmp_path, changes=200, crashes=3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_changes_survive_many_crashes(
    database: Database, start_node: StartNode, tmp_path: Path
) -> None:
    """E8: 10,000 changes with adapter, broker and database killed at random: none lost or twice."""
    told_once_and_in_order(database, start_node, tmp_path, changes=10_000, crashes=15)


def told_once_and_in_order(
    database: Database, start_node: StartNode, directory: Path, *, changes: int, crashes: int
) -> None:
    chance = random.Random(7)
    node = start_node()
    database.prepare()
    settings = {"name": "items", "kind": database.kind, **database.settings}
    adapter = FollowingProcess(directory, settings, node.bootstrap)
    adapter.start()

    def restart() -> None:
        adapter.kill9()
        adapter.start()

    faults: list[Callable[[], None]] = [restart, node.restart, database.crash]
    finished = threading.Event()
    writer = threading.Thread(target=write, args=(database, changes, finished))
    writer.start()
    try:
        for number in range(crashes):
            time.sleep(chance.uniform(0.3, 2.0))
            faults[number % len(faults) if crashes <= len(faults) else chance.randrange(3)]()
        assert finished.wait(PATIENCE_S), "the changes are not written"
        counts = database.counts()
        with closing(Reader(node.bootstrap, [database.topic])) as reader:
            written = reader.read_until(lambda found: is_complete(database, found, counts))
            told = [one for one in written if one.value["op"] != "r"]
            check(database, written, told, counts)
    finally:
        finished.set()
        writer.join()
        adapter.close()


def write(database: Database, changes: int, finished: threading.Event) -> None:
    """Change rows until there are enough changes; some may fail, and some of those have worked."""
    chance = random.Random(3)
    while not finished.is_set():
        for _ in range(100):
            database.change(chance.randint(1, KEYS))
        with suppress(psycopg.OperationalError, PyMongoError):
            if sum(database.counts().values()) >= changes:
                finished.set()


def is_complete(database: Database, found: list[Written], counts: dict[int, int]) -> bool:
    return dict(map(database.value_of, found)) == counts


def check(
    database: Database, written: list[Written], told: list[Written], counts: dict[int, int]
) -> None:
    """Each key's changes are those from its snapshot to its end, one after the other."""
    start = {}
    for one in written:
        if one.value["op"] == "r":
            key, value = database.value_of(one)
            assert key not in start, f"key {key} is in the snapshot twice"
            start[key] = value
    assert len(start) == KEYS
    found: dict[int, list[int]] = {key: [] for key in start}
    for one in told:
        key, value = database.value_of(one)
        found[key].append(value)
    for key, first in start.items():
        assert found[key] == list(range(first + 1, counts[key] + 1))

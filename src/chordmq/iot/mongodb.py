"""Keeps devices in MongoDB: for people and programs to query, and so that no step is half done.

The collections `devices`, `shadows` and `commands` hold one document each, by id; `document` is for
readers, `data` is what the service reads again. The one document of `service` holds the last step
whole. It is replaced first, and only if nobody else has replaced it; the others follow, and are
written again after a crash. No transactions are needed, so that a single server will do.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from bson.errors import BSONError
from pymongo import AsyncMongoClient, DeleteOne, ReplaceOne
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConfigurationError, DuplicateKeyError, PyMongoError

from chordmq.broker.internal_log import Host
from chordmq.errors import CannotStart, NotCoordinator, StoreUnavailable
from chordmq.iot.entries import COMMAND, DEVICE, SHADOW, Entry, Progress, read, write
from chordmq.iot.store import LogStore
from chordmq.logs import get_logger

log = get_logger(__name__)

COLLECTIONS = {DEVICE: "devices", SHADOW: "shadows", COMMAND: "commands"}
SERVICE = "service"
LAST = "last step"
DATABASE = "chordmq"
TIMEOUT_MS = 5_000
INTEGER_MAX = 2**63 - 1

Written = tuple[bytes, bytes | None]
Document = dict[str, Any]


class MongoStore:
    """Keeps entries in a database; the topic `__devices` says which node looks after devices."""

    def __init__(self, host: Host, address: str) -> None:
        self._leadership = LogStore(host)
        self._address = address
        self._revision = 0
        self._database: AsyncDatabase[Document]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Stay connected for the length of a block."""
        try:
            client: AsyncMongoClient[Document] = AsyncMongoClient(
                self._address, serverSelectionTimeoutMS=TIMEOUT_MS, journal=True
            )
        except (ConfigurationError, ValueError) as error:
            raise CannotStart(f"iot.mongodb: {error}.") from None
        async with client, self._leadership.opened():
            self._database = client.get_default_database(DATABASE)
            yield

    async def is_mine(self) -> bool:
        """Return whether this node leads the topic."""
        return await self._leadership.is_mine()

    @property
    def leader(self) -> int:
        """Return the number of the node that leads the topic, or -1."""
        return self._leadership.leader

    async def load(self) -> Sequence[Entry]:
        """Return all entries, with those of the last step on top, which may not be there yet."""
        try:
            last = await self._database[SERVICE].find_one({"_id": LAST})
            if last is None:
                self._revision = 0
                return []
            self._revision = last["revision"]
            changes: list[Written] = [(key, value) for key, value in last["changes"]]
            await self._write(changes)
            found: list[Entry] = []
            for kind, name in COLLECTIONS.items():
                rows = self._database[name].find({}, {"data": 1})
                found += [read(f"{kind}/{row['_id']}".encode(), row["data"]) async for row in rows]
        except PyMongoError as error:
            raise StoreUnavailable(f"MongoDB: {error}") from None
        return [*found, read(b"p", last["progress"])]

    async def save(self, entries: Sequence[Entry]) -> None:
        """Store a step: its record first, then what it changes."""
        *changed, progress = entries
        assert isinstance(progress, Progress), "a step ends with how far it is"
        changes = [write(entry) for entry in changed]
        step = {
            "_id": LAST,
            "revision": self._revision + 1,
            "changes": changes,
            "progress": write(progress)[1],
        }
        try:
            replaced = await self._database[SERVICE].replace_one(
                {"_id": LAST, "revision": self._revision}, step, upsert=self._revision == 0
            )
            if not (replaced.matched_count or replaced.upserted_id):
                raise NotCoordinator("another node has written to MongoDB meanwhile")
            self._revision += 1
            await self._write(changes)
        except DuplicateKeyError:
            raise NotCoordinator("another node has written to MongoDB meanwhile") from None
        except (PyMongoError, BSONError) as error:
            raise StoreUnavailable(f"MongoDB: {error}") from None

    async def _write(self, changes: Sequence[Written]) -> None:
        """Bring the documents up to date; doing so twice changes nothing."""
        by_collection: dict[str, list[DeleteOne | ReplaceOne[Document]]] = {}
        for key, value in changes:
            kind, _, name = key.decode().partition("/")
            place = {"_id": name}
            work = by_collection.setdefault(COLLECTIONS[kind], [])
            if value is None:
                work.append(DeleteOne(place))
            else:
                document = readable(msgspec.msgpack.decode(value))
                row = {"_id": name, "document": document, "data": value}
                work.append(ReplaceOne(place, row, upsert=True))
        for collection, work in by_collection.items():
            await self._database[collection].bulk_write(work, ordered=False)


def readable(value: Any) -> Any:
    """Return a value as BSON can hold it: no integer beyond its 64 bits, no zero in a name."""
    if isinstance(value, dict):
        return {name.replace("\0", ""): readable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [readable(inner) for inner in value]
    if isinstance(value, int) and not -INTEGER_MAX <= value <= INTEGER_MAX:
        return float(value)
    return value

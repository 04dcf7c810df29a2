"""The store of a node alone: rows of its SQLite file, with watches and leases in its process."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future

from chordmq.clock import Clock
from chordmq.cluster.metastore.store import (
    Compare,
    Delete,
    DeleteUnder,
    Entry,
    Event,
    HistoryLost,
    LeaseLost,
    Operation,
    Outline,
    Put,
    Snapshot,
    StoreConflict,
)
from chordmq.dataclass import dataclass
from chordmq.storage.metadata import entries
from chordmq.storage.metadata.database import Database

EVENTS_KEPT = 10_000
OPERATIONS_MAX = 1_000_000

Change = tuple[int, list[Event]]
"""The revision of a commit, and what it changed."""


@dataclass(slots=True)
class _Lease:
    ttl_s: float
    ends_s: float


class LocalStore:
    """One process writes it, so that its revisions count what this node has changed."""

    operations_max = OPERATIONS_MAX

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        entries.prepare(database)
        self._known = database.run_now(entries.revision)
        """Before this revision, no watch can begin."""
        self._history: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._leases: dict[int, _Lease] = {}
        self._leases_given = 0

    def range_now(self, prefix: str) -> Snapshot:
        """Return the entries under a prefix, blocking; for the start."""
        return self._database.run_now(lambda connection: _range(connection, prefix))

    def put_now(self, puts: Sequence[Put]) -> None:
        """Write entries, blocking, before anybody can watch; for the start."""
        changed = self._database.run_now(lambda connection: _commit(connection, [], puts))
        assert changed is not None
        self._known = changed[0]

    async def get(self, key: str) -> Entry | None:
        """Return the newest entry of a key, or None."""
        self._end_leases()
        row = await self._database.run(lambda connection: entries.find(connection, key))
        return Entry(*row) if row else None

    async def range(self, prefix: str) -> Snapshot:
        """Return the newest entries of all keys that begin so."""
        self._end_leases()
        return await self._database.run(lambda connection: _range(connection, prefix))

    async def outline(self, prefix: str) -> Outline:
        """Return how many keys begin so, and when the newest of them was written."""
        found = (await self.range(prefix)).entries
        return Outline(len(found), max((entry.revision for entry in found), default=0))

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """Do all operations at one revision and return it, or raise StoreConflict and do none."""
        self._end_leases()
        for operation in operations:
            if isinstance(operation, Put) and operation.lease:
                self._lease(operation.lease)
        changed = await asyncio.wrap_future(
            self._submit(lambda connection: _commit(connection, compares, operations))
        )
        if changed is None:
            raise StoreConflict
        return changed[0]

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[Event], None]:
        """Yield what changes under a prefix after a revision, in order."""
        while True:
            if revision < self._known:
                raise HistoryLost
            news = [event for event in self._history if event.revision > revision]
            if news:
                revision = news[-1].revision
                if fitting := [event for event in news if event.key.startswith(prefix)]:
                    yield fitting
            else:
                await self._changed.wait()

    async def grant(self, ttl_s: float) -> int:
        """Begin a lease that ends unless it is kept, and return its number."""
        self._leases_given += 1
        self._begin(self._leases_given, ttl_s)
        return self._leases_given

    async def keep(self, lease: int) -> float:
        """Prolong a lease; return the seconds it lasts, or raise LeaseLost."""
        self._end_leases()
        ttl_s = self._lease(lease).ttl_s
        self._begin(lease, ttl_s)
        return ttl_s

    async def revoke(self, lease: int) -> None:
        """End a lease now, and remove what was put under it."""
        if lease in self._leases:
            await asyncio.wrap_future(self._end(lease))

    async def close(self) -> None:
        """Do nothing: the file belongs to whoever opened it."""

    def _lease(self, number: int) -> _Lease:
        lease = self._leases.get(number)
        if lease is None:
            raise LeaseLost
        return lease

    def _begin(self, lease: int, ttl_s: float) -> None:
        self._leases[lease] = _Lease(ttl_s, self._clock.monotonic_s() + ttl_s)
        asyncio.get_running_loop().call_later(ttl_s, self._end_leases)

    def _end_leases(self) -> None:
        now_s = self._clock.monotonic_s()
        for number in [number for number, one in self._leases.items() if one.ends_s <= now_s]:
            self._end(number)

    def _end(self, lease: int) -> "Future[Change | None]":
        del self._leases[lease]
        return self._submit(lambda connection: _end_lease(connection, lease))

    def _submit(
        self, work: Callable[[sqlite3.Connection], "Change | None"]
    ) -> "Future[Change | None]":
        loop = asyncio.get_running_loop()
        writing = self._database.submit(work)

        def tell(done: "Future[Change | None]") -> None:
            # Not by whoever waits for the commit, who may have been cancelled meanwhile.
            if not done.cancelled() and done.exception() is None and (changed := done.result()):
                loop.call_soon_threadsafe(self._tell, changed[1])

        writing.add_done_callback(tell)
        return writing

    def _tell(self, events: list[Event]) -> None:
        self._history.extend(events)
        while len(self._history) > EVENTS_KEPT:
            self._known = self._history.popleft().revision
        self._changed.set()
        self._changed = asyncio.Event()


def _range(connection: sqlite3.Connection, prefix: str) -> Snapshot:
    found = [Entry(*row) for row in entries.under(connection, prefix)]
    return Snapshot(found, entries.revision(connection))


def _end_lease(connection: sqlite3.Connection, lease: int) -> Change | None:
    keys = entries.of_lease(connection, lease)
    return _commit(connection, [], [Delete(key) for key in keys])


def _commit(
    connection: sqlite3.Connection, compares: Sequence[Compare], operations: Sequence[Operation]
) -> Change | None:
    for compare in compares:
        row = entries.find(connection, compare.key)
        if not compare.holds(Entry(*row) if row else None):
            return None
    revision = entries.revision(connection) + 1
    events = [event for operation in operations for event in _do(connection, operation, revision)]
    if not events:
        return revision - 1, []
    assert len({event.key for event in events}) == len(events), "a key is written twice"
    entries.set_revision(connection, revision)
    return revision, events


def _do(connection: sqlite3.Connection, operation: Operation, revision: int) -> list[Event]:
    if isinstance(operation, Put):
        old = entries.find(connection, operation.key)
        row = entries.EntryRow(
            operation.key,
            operation.value,
            revision,
            old.created if old else revision,
            operation.lease,
        )
        entries.write(connection, row)
        return [Event(row.key, revision, Entry(*row))]
    if isinstance(operation, DeleteUnder):
        gone = [row.key for row in entries.under(connection, operation.prefix)]
    else:
        gone = [operation.key] if entries.find(connection, operation.key) else []
    for key in gone:
        entries.remove(connection, key)
    return [Event(key, revision, None) for key in gone]

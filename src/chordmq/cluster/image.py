"""What this node knows of the store: the newest entries, followed by a watch, changed here too."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Self

from chordmq.clock import Clock
from chordmq.cluster.founding import missing
from chordmq.cluster.metastore.local import LocalStore
from chordmq.cluster.metastore.migration import migrate
from chordmq.cluster.metastore.store import (
    Compare,
    Delete,
    Entry,
    Event,
    HistoryLost,
    MetaStore,
    Operation,
    Outline,
    Put,
    Snapshot,
    StoreConflict,
    absent,
)
from chordmq.cluster.state import CLUSTER
from chordmq.errors import StoreUnavailable, UnknownOutcome
from chordmq.logs import get_logger
from chordmq.storage.metadata.database import Database

CHECK_INTERVAL_S = 1.0
"""How often the store is asked whether the watch has told everything."""
WATCH_DELAY_MAX_S = 0.3
RETRY_DELAY_S = 0.2
SETTLE_ATTEMPTS = 8

Listener = Callable[[list[Event]], None]

log = get_logger(__name__)


class Image:
    """Entries by key; whoever listens to a family of keys is told each change once, in order.

    A change of this node's own is seen here as soon as it is made. Everything else comes with the
    watch, so that it may be late: to rely on it, compare revisions in a commit.
    """

    def __init__(self, store: MetaStore, snapshot: Snapshot) -> None:
        self.store = store
        self.revision = snapshot.revision
        """All changes up to here are known; some after it may be, too."""
        self._patience: asyncio.Timeout
        self._families: dict[str, dict[str, Entry]] = {}
        self._removed: dict[str, int] = {}
        """Keys that this node has removed, until the watch has come as far."""
        self._listeners: dict[str, list[Listener]] = {}
        for entry in snapshot.entries:
            self._family(entry.key)[entry.key] = entry

    @classmethod
    def local(cls, database: Database, clock: Clock) -> Self:
        """Return the image of a node alone, whose store is its own database; blocks."""
        store = LocalStore(database, clock)
        migrate(database)
        store.put_now(missing(store.range_now("").entries))
        return cls(store, store.range_now(""))

    @classmethod
    async def load(cls, store: MetaStore) -> Self:
        """Return the image of what is in a cluster's store now."""
        image = cls(store, await store.range(""))
        for put in missing(image.under("")):
            with suppress(StoreConflict):  # another broker was quicker
                await image.commit([absent(put.key)], [put])
        await image.refresh()
        return image

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key, or None."""
        return self._family(key).get(key)

    def under(self, prefix: str) -> list[Entry]:
        """Return the entries whose keys begin so, in the order of their keys."""
        if not prefix:
            return [entry for name in sorted(self._families) for entry in self.under(name)]
        family = self._family(prefix)
        return [family[key] for key in sorted(family) if key.startswith(prefix)]

    def told(self, prefix: str) -> list[Event]:
        """Return the entries under a prefix as a listener would have been told of them."""
        return [Event(entry.key, entry.revision, entry) for entry in self.under(prefix)]

    def listen(self, family: str, listener: Listener) -> None:
        """Have a listener told each change of the keys that begin with `family` and a slash."""
        self._listeners.setdefault(family.rstrip("/"), []).append(listener)

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """Commit to the store and show it here; return the revision, or raise StoreConflict.

        An outcome that the store leaves open is found out, or raised as UnknownOutcome.
        """
        try:
            revision = await self.store.commit(compares, operations)
        except UnknownOutcome as unknown:
            revision = await self._settle(compares, operations, unknown)
        self._apply([event for one in operations for event in self._events(one, revision)])
        return revision

    async def refresh(self) -> None:
        """Read everything again."""
        snapshot = await self.store.range("")
        there = {entry.key for entry in snapshot.entries}
        gone = [
            key
            for family in self._families.values()
            for key, entry in family.items()
            if key not in there and entry.revision <= snapshot.revision
        ]
        self._apply(Event(key, snapshot.revision, None) for key in gone)
        self._apply(Event(entry.key, entry.revision, entry) for entry in snapshot.entries)
        self._reach(snapshot.revision)

    async def run(self) -> None:
        """Follow the store until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._check())

    async def _follow(self) -> None:
        while True:
            try:
                async with (
                    asyncio.timeout(None) as self._patience,
                    aclosing(self.store.watch("", self.revision)) as watch,
                ):
                    async for events in watch:
                        # What is not news came with a refresh, and may be older than that.
                        self._apply(e for e in events if e.revision > self.revision)
                        self._reach(events[-1].revision)
            except TimeoutError:
                log.warning("watch of the store tells nothing, and is begun anew")
            except HistoryLost:
                await self._try_to_refresh()
            except (StoreUnavailable, UnknownOutcome) as error:
                log.warning("watch of the store was cut", reason=str(error))
            await asyncio.sleep(RETRY_DELAY_S)

    async def _check(self) -> None:
        """Ask now and then how far the store is: a watch that hangs says nothing of it."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                newest = (await self.store.range(CLUSTER)).revision
            except (StoreUnavailable, UnknownOutcome):
                continue
            await asyncio.sleep(WATCH_DELAY_MAX_S)
            if self.revision < newest and await self._is_behind(newest):
                with suppress(RuntimeError):  # it is being begun anew already
                    self._patience.reschedule(asyncio.get_running_loop().time())

    async def _is_behind(self, revision: int) -> bool:
        """Return whether the watch should have told something by now; if so, it is read.

        Others who use the same etcd move its revision, too.
        """
        try:
            outline = await self.store.outline("")
            if outline == self._outline():
                self._reach(revision)
                return False
        except (StoreUnavailable, UnknownOutcome):
            return False
        await self._try_to_refresh()
        return True

    def _outline(self) -> Outline:
        revisions = [one.revision for family in self._families.values() for one in family.values()]
        return Outline(len(revisions), max(revisions, default=0))

    async def _try_to_refresh(self) -> None:
        try:
            await self.refresh()
        except (StoreUnavailable, UnknownOutcome) as error:
            log.warning("the store cannot be read", reason=str(error))

    async def _settle(
        self, compares: Sequence[Compare], operations: Sequence[Operation], unknown: UnknownOutcome
    ) -> int:
        """Find out whether a commit was made, and make it if not; compares keep it from twice."""
        for _ in range(SETTLE_ATTEMPTS):
            await asyncio.sleep(RETRY_DELAY_S)
            try:
                if made := await self._made(operations):
                    return made
                return await self.store.commit(compares, operations)
            except StoreConflict:
                if made := await self._made(operations):
                    return made
                raise
            except (StoreUnavailable, UnknownOutcome) as error:
                unknown = UnknownOutcome(str(error))
        raise unknown

    async def _made(self, operations: Sequence[Operation]) -> int:
        """Return the revision at which all is as the operations leave it, or 0."""
        revision = 0
        for operation in operations:
            if isinstance(operation, Put):
                entry = await self.store.get(operation.key)
                if entry is None or entry.value != operation.value:
                    return 0
                revision = max(revision, entry.revision)
            else:
                key = operation.key if isinstance(operation, Delete) else operation.prefix
                snapshot = await self.store.range(key)
                if any(entry.key == key or key.endswith("/") for entry in snapshot.entries):
                    return 0
                revision = max(revision, snapshot.revision)
        return revision

    def _events(self, operation: Operation, revision: int) -> list[Event]:
        if isinstance(operation, Put):
            key, old = operation.key, self.get(operation.key)
            created = old.created if old else revision
            entry = Entry(key, operation.value, revision, created, operation.lease)
            return [Event(key, revision, entry)]
        if isinstance(operation, Delete):
            return [Event(operation.key, revision, None)]
        return [Event(entry.key, revision, None) for entry in self.under(operation.prefix)]

    def _apply(self, events: Iterable[Event]) -> None:
        news: dict[str, list[Event]] = {}
        for event in events:
            name, key = event.key.partition("/")[0], event.key
            family = self._family(key)
            old = family.get(key)
            if event.revision <= max(old.revision if old else 0, self._removed.get(key, 0)):
                continue
            if event.entry is not None:
                family[key] = event.entry
            else:
                family.pop(key, None)
                self._removed[key] = event.revision
            if old is not None or event.entry is not None:
                news.setdefault(name, []).append(event)
        for name, changed in news.items():
            for listener in self._listeners.get(name, ()):
                listener(changed)

    def _reach(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        if self._removed:
            self._removed = {k: at for k, at in self._removed.items() if at > self.revision}

    def _family(self, key: str) -> dict[str, Entry]:
        return self._families.setdefault(key.partition("/")[0], {})

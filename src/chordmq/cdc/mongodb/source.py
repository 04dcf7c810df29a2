"""Follows a MongoDB deployment: a snapshot of its collections, then its change stream."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

from bson import Timestamp
from pymongo.errors import PyMongoError

from chordmq.cdc.change import Burst, Change, Part, Place, Position, Snapshot, Spoiled
from chordmq.cdc.errors import Malformed
from chordmq.cdc.mongodb.events import OPERATIONS, Events, place_of
from chordmq.cdc.mongodb.order import order
from chordmq.cdc.mongodb.server import (
    Client,
    OversizedEvent,
    Session,
    SnapshotGone,
    collections,
    connected,
    explained,
    matching,
    now,
    page,
)
from chordmq.cdc.mongodb.snapshot import read_id, snapshot_bursts, stored_id
from chordmq.cdc.mongodb.stream import (
    Batch,
    ChangeStream,
    position_of,
    time_of,
    token_time,
)
from chordmq.cdc.selection import Selection, chosen
from chordmq.cdc.settings import Source
from chordmq.cdc.signals import Signal, asked, is_read, read_on, read_signal
from chordmq.clock import Clock
from chordmq.logs import get_logger

log = get_logger(__name__)

RETRIES_MAX = 3
"""Attempts to get past an event that is too large, before the source gives up."""


@asynccontextmanager
async def opened(
    source: Source, position: Position | None, clock: Clock
) -> AsyncIterator["MongoStream"]:
    """Open a deployment at a position, or from the beginning."""
    async with connected(source) as client:
        database = client.get_default_database("admin").name
        only = None if database == "admin" else database
        async with client.start_session(causal_consistency=False) as session:
            stream = MongoStream(source, client, session, clock, only)
            await stream.open(position)
            yield stream


class Chunk(NamedTuple):
    """Documents that an incremental snapshot has read, until the stream is as far as they are."""

    scope: str
    documents: dict[tuple[Any, ...], dict[str, Any]]
    """By the order of their ids, which is a value that can be looked up."""
    time: Timestamp
    last: list[str] | None
    is_final: bool


class MongoStream:
    """An open deployment."""

    def __init__(
        self, source: Source, client: Client, session: Session, clock: Clock, only: str | None
    ) -> None:
        self.source = source
        self.client = client
        self.session = session
        self.clock = clock
        self.selection = Selection(source.tables, source.columns)
        self.events = Events(source.prefix, self.selection)
        self.is_new = False
        self.position: Position
        self._only = only
        match = matching(source.tables.include, source.tables.exclude, source.signals)
        self._stream = ChangeStream(client, session, source, match, only)
        self._at = ""
        self._time_us = 0
        self._parts: list[Part] = []
        self._incremental: Snapshot | None = None
        self._chunk: Chunk | None = None
        self._scopes: list[str] = []
        self._told_s = clock.monotonic_s()

    async def open(self, position: Position | None) -> None:
        """Take note of the time before anything is read, or go on where a position says."""
        time = await now(self.client)
        places = chosen(await collections(self.client, self._only), self.selection)
        self._scopes = [str(place) for place in places if str(place) != self.source.signals]
        if position is None:
            self.is_new = True
            wanted = self.source.snapshot != "never" and self._scopes
            position = Position(
                position_of(time), snapshot=Snapshot(self._scopes) if wanted else None
            )
        self.position = position
        self._at = position.at
        self._time_us = position.time_us
        self._parts = list(position.parts)
        self._incremental = position.incremental
        if position.snapshot is None or not self.is_new:
            # Now, so that a position that is gone is found before anything is read.
            await self._stream.open(self._at)

    async def bursts(self) -> AsyncGenerator[Burst, None]:
        """Tell the snapshot, if there is to be one, and then the stream."""
        try:
            yield Burst([], self.position)
            if self.position.snapshot is not None:
                async with aclosing(snapshot_bursts(self)) as found:
                    async for burst in found:
                        self._parts = list(burst.position.parts)
                        yield burst
            await self._stream.close()
            await self._stream.open(self._at)
            while True:
                changes = await self._next()
                changes += await self._advance_incremental()
                if changes or self._heartbeat_due():
                    self._told_s = self.clock.monotonic_s()
                    yield Burst(changes, self._now())
        except PyMongoError as error:
            raise explained(error) from error

    async def confirm(self, position: Position) -> None:
        """Do nothing: the server keeps no place for us."""

    async def lag(self) -> Mapping[str, float]:
        """Return how far the stream is behind the server, and how long the server remembers."""
        try:
            newest = await now(self.client)
            found = {"lag_source_seconds": float(max(0, newest.time - time_of(self._at).time))}
            oplog = self.client.local["oplog.rs"]
            oldest = await oplog.find_one(sort=[("$natural", 1)], projection={"ts": 1})
            if oldest is not None:
                left_s = max(0, time_of(self._at).time - oldest["ts"].time)
                found["history_left_seconds"] = float(left_s)
        except PyMongoError:
            return {}
        return found

    async def _next(self) -> list[Change | Spoiled]:
        """Return the changes of the next events."""
        try:
            batch = await self._stream.more()
        except OversizedEvent:
            return await self._past_oversized()
        found = self._told(batch)
        if not batch.is_open:
            await self._stream.open(self._at)
        return found

    async def _past_oversized(self) -> list[Change | Spoiled]:
        """Read one by one up to an event that is too large, and that one without its documents."""
        found: list[Change | Spoiled] = []
        await self._stream.open(self._at, one=True)
        try:
            while True:
                batch = await self._stream.more()
                found += self._told(batch)
                if not batch.events:
                    break  # it has gone meanwhile, or can be sent now
        except OversizedEvent:
            found += await self._without_documents()
        await self._stream.close()
        await self._stream.open(self._at)
        return found

    async def _without_documents(self) -> list[Change | Spoiled]:
        await self._stream.open(self._at, one=True, documents=False)
        for _ in range(RETRIES_MAX):
            try:
                batch = await self._stream.more()
            except OversizedEvent:
                raise Malformed("MongoDB cannot send an event even without its documents") from None
            if batch.events:
                event = batch.events[0]
                self._at = event["_id"]["_data"]
                if event["operationType"] not in OPERATIONS or not self._is_told(event):
                    return []
                return [self.events.too_large(event)]
        return []

    def _told(self, batch: Batch) -> list[Change | Spoiled]:
        found: list[Change | Spoiled] = []
        for event in batch.events:
            kind = event["operationType"]
            if kind not in OPERATIONS:
                log.info("is told of", source=self.source.name, kind=kind, ns=event.get("ns"))
                continue
            if self._is_told(event):
                if not self._is_covered(event):
                    found.append(self.events.told(event))
                self._touch(event)
            elif str(place_of(event)) == self.source.signals and kind == "insert":
                self._signalled(event.get("fullDocument") or {})
        if batch.events:
            self._time_us = _time_us(batch.events[-1])
        if batch.token:
            self._at = batch.token
            reached = token_time(batch.token)
            self._parts = [part for part in self._parts if time_of(part.until) >= reached]
        return found

    def _is_told(self, event: Mapping[str, Any]) -> bool:
        place = place_of(event)
        return str(place) != self.source.signals and self.selection.has(place)

    def _is_covered(self, event: Mapping[str, Any]) -> bool:
        """Return whether a snapshot that was read later has told this event already."""
        scope, key = str(place_of(event)), event["documentKey"]["_id"]
        for part in reversed(self._parts):
            if part.scope != scope:
                continue
            after = read_id(part.after)
            if after is None or order(key) > order(after[0]):
                return bool(event["clusterTime"] <= time_of(part.mark))
        return False

    def _touch(self, event: Mapping[str, Any]) -> None:
        """Drop what an incremental snapshot has read if it was changed later."""
        chunk = self._chunk
        if chunk is None or chunk.scope != str(place_of(event)):
            return
        if event["clusterTime"] > chunk.time:
            chunk.documents.pop(_lookup(event["documentKey"]["_id"]), None)

    def _signalled(self, document: Mapping[str, Any]) -> None:
        signal = read_signal(document.get("type"), document.get("data"))
        if signal is not None:
            self._ask(signal)

    def _ask(self, signal: Signal) -> None:
        log.info("is asked", source=self.source.name, kind=signal.kind, names=signal.scopes)
        known = {*self._scopes, *(one for one in signal.scopes if self._may_read(one))}
        self._incremental = asked(self._incremental, signal, sorted(known))
        if self._chunk is not None and not is_read(self._incremental, self._chunk.scope):
            self._chunk = None

    def _may_read(self, scope: str) -> bool:
        return "." in scope and self.selection.has(Place(*scope.split(".", 1)))

    async def _advance_incremental(self) -> list[Change | Spoiled]:
        """Read the next documents that were asked for, or tell those that the stream reached."""
        if self._incremental is None:
            return []
        if self._chunk is None:
            self._chunk = await self._next_chunk(self._incremental)
        if self._chunk is None or time_of(self._at) < self._chunk.time:
            return []
        return self._tell_chunk(self._chunk, self._incremental)

    async def _next_chunk(self, snapshot: Snapshot) -> Chunk | None:
        time = await now(self.client)
        scope, count = snapshot.todo[0], self.source.pace.snapshot_rows
        place = Place(*scope.split(".", 1))
        bounds = (read_id(snapshot.last), count)
        try:
            found = await page(self.client, self.session, place, bounds, time)
        except SnapshotGone:
            return None
        last = stored_id(found[-1]["_id"]) if found else None
        rows = {_lookup(one["_id"]): one for one in found}
        return Chunk(scope, rows, time, last, len(found) < count)

    def _tell_chunk(self, chunk: Chunk, snapshot: Snapshot) -> list[Change | Spoiled]:
        self._chunk = None
        place = Place(*chunk.scope.split(".", 1))
        found = [
            self.events.read(place, document, chunk.time, "incremental")
            for document in chunk.documents.values()
        ]
        self._incremental = read_on(snapshot, chunk.last, len(found), is_final=chunk.is_final)
        if chunk.is_final:
            log.info("has read", collection=chunk.scope, documents=snapshot.rows + len(found))
        return found

    def _heartbeat_due(self) -> bool:
        """Return whether an idle source should store its token, before the server forgets it."""
        idle_s = self.clock.monotonic_s() - self._told_s
        return idle_s >= self.source.pace.heartbeat_s

    def _now(self) -> Position:
        return Position(
            at=self._at,
            parts=self._parts,
            incremental=self._incremental,
            time_us=self._time_us,
        )


def _lookup(value: Any) -> tuple[Any, ...]:
    return (repr(order(value)),)


def _time_us(event: Mapping[str, Any]) -> int:
    if "wallTime" in event:
        return int(event["wallTime"]) * 1000
    return int(event["clusterTime"].time) * 1_000_000

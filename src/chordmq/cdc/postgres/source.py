"""Follows a PostgreSQL database: a snapshot of its tables, then what its log says of them."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import msgspec

from chordmq.cdc.change import Burst, Change, Part, Place, Position, Snapshot, Spoiled
from chordmq.cdc.errors import InvalidSource, PositionLost
from chordmq.cdc.postgres import catalogue, reading
from chordmq.cdc.postgres.catalogue import Connection, connected
from chordmq.cdc.postgres.check import refuse_unfit
from chordmq.cdc.postgres.chunk import Chunk
from chordmq.cdc.postgres.events import Events
from chordmq.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Decoded,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Tuple,
    Update,
    decode,
    lsn_text,
    read_lsn,
    read_visibility,
)
from chordmq.cdc.postgres.replication import Alive, Arrived, Replication
from chordmq.cdc.postgres.snapshot import snapshot_bursts
from chordmq.cdc.postgres.table import Table
from chordmq.cdc.selection import Selection, chosen
from chordmq.cdc.settings import Source
from chordmq.cdc.signals import (
    EXECUTE,
    MESSAGES,
    Signal,
    asked,
    is_read,
    read_message,
    read_on,
    read_signal,
)
from chordmq.clock import Clock
from chordmq.logs import get_logger

log = get_logger(__name__)

STATUS_EVERY_S = 5.0
"""The server gives up on a client that is silent for wal_sender_timeout, a minute by default."""
CHUNK_WAIT_S = 0.05
REMEMBERED_XIDS = 10_000

Row = Insert | Update | Delete
ROWS = (Insert, Update, Delete)


@asynccontextmanager
async def opened(
    source: Source, position: Position | None, clock: Clock
) -> AsyncIterator["PostgresStream"]:
    """Open a database at a position, or from the beginning."""
    async with (
        connected(source.address) as connection,
        connected(source.address, replication=True) as link,
    ):
        await refuse_unfit(connection, source)
        stream = PostgresStream(source, connection, Replication(link), clock)
        await stream.open(position)
        async with asyncio.TaskGroup() as tasks:
            alive = tasks.create_task(stream.stay_alive())
            try:
                yield stream
            finally:
                alive.cancel()


class PostgresStream:
    """An open database."""

    def __init__(
        self, source: Source, connection: Connection, replication: Replication, clock: Clock
    ) -> None:
        self.source = source
        self.connection = connection
        self.clock = clock
        self.selection = Selection(source.tables, source.columns)
        self.events: Events
        self.exported: str | None = None
        """The snapshot of a slot that was made just now."""
        self.position: Position
        self._replication = replication
        self._asking = asyncio.Lock()
        self._types: Mapping[int, Any] = {}
        self._tables: dict[int, Table] = {}
        self._scopes: list[str] = []
        self._streams = False
        self._at = 0
        self._stored = 0
        self._idle = 0
        self._begin: Begin | None = None
        self._number = 0
        self._skips = 0
        self._time_us = 0
        self._told_s = clock.monotonic_s()
        self._parts: list[Part] = []
        self._incremental: Snapshot | None = None
        self._chunk: Chunk | None = None
        self._xids: deque[int] = deque(maxlen=REMEMBERED_XIDS)

    async def open(self, position: Position | None) -> None:
        """Find or make the publication and the slot, or raise PositionLost."""
        database = await catalogue.value(self.connection, "SELECT current_database()")
        self.events = Events(self.source.prefix, database)
        self._types = await catalogue.types(self.connection)
        new = await self._publish()
        slot = await catalogue.slot_state(self.connection, self.source.slot_name)
        if position is None:
            self.position = await self._begin_anew(slot)
        else:
            self._refuse_gap(slot, read_lsn(position.at))
            self.position = position
        self._at = self._stored = read_lsn(self.position.at)
        self._parts = list(self.position.parts)
        self._incremental = self.position.incremental
        self._time_us = self.position.time_us
        if position is not None and new and self.source.snapshot != "never":
            self._ask(Signal(EXECUTE, tuple(map(str, new))))
            self.position = msgspec.structs.replace(self.position, incremental=self._incremental)

    async def _publish(self) -> list[Place]:
        """Have the database publish what is told; return tables that were not before."""
        told = chosen(await catalogue.tables(self.connection), self.selection)
        if not told:
            raise InvalidSource("no table is chosen; look at tables.include and tables.exclude")
        wanted = set(told)
        if self.source.signals:
            wanted.add(Place(*self.source.signals.split(".", 1)))
        held = await catalogue.published(self.connection, self.source.publication_name)
        if held is None or wanted - held:
            await catalogue.publish(self.connection, self.source.publication_name, sorted(wanted))
        self._scopes = [str(place) for place in told]
        return [] if held is None else sorted(set(told) - held)

    async def _begin_anew(self, slot: catalogue.SlotState | None) -> Position:
        """Make a slot, and plan a snapshot unless none is wanted."""
        name = self.source.slot_name
        if slot is not None and self.source.snapshot == "never" and slot.status != "lost":
            return Position(lsn_text(slot.confirmed_lsn))
        if slot is not None:
            # It is of an attempt whose position was never stored, or its log is lost.
            await catalogue.execute(self.connection, "SELECT pg_drop_replication_slot(%s)", [name])
        made = await self._replication.create_slot(name)
        self.exported = made.snapshot
        wanted = None if self.source.snapshot == "never" else Snapshot(self._scopes)
        return Position(lsn_text(made.lsn), snapshot=wanted)

    def _refuse_gap(self, slot: catalogue.SlotState | None, at: int) -> None:
        name = self.source.slot_name
        if slot is None:
            raise PositionLost(f"the replication slot {name} is gone")
        if slot.status == "lost":
            raise PositionLost(f"PostgreSQL has deleted the log that slot {name} needs")
        if slot.confirmed_lsn > at:
            raise PositionLost(
                f"somebody has moved slot {name} to {lsn_text(slot.confirmed_lsn)}, "
                f"beyond {lsn_text(at)}, where this source is"
            )

    async def bursts(self) -> AsyncGenerator[Burst, None]:
        """Tell the snapshot, if there is to be one, and then the stream."""
        yield Burst([], self.position)
        if self.position.snapshot is not None:
            async with aclosing(snapshot_bursts(self)) as found:
                async for burst in found:
                    self._parts = list(burst.position.parts)
                    yield burst
        await self._replication.start(self.source.slot_name, self._at, self.source.publication_name)
        self._streams = True
        while True:
            changes = await self._receive()
            changes += await self._advance_incremental()
            if changes or self._heartbeat_due():
                self._told_s = self.clock.monotonic_s()
                yield Burst(changes, self._now())

    async def confirm(self, position: Position) -> None:
        """Let the server forget what is stored."""
        self._stored = read_lsn(position.at)
        if self._streams:
            self._replication.tell(self._stored, self._now_us())

    async def lag(self) -> Mapping[str, float]:
        """Return how much log the slot keeps, and how much of it is still to be read."""
        async with self._asking:
            slot = await catalogue.slot_state(self.connection, self.source.slot_name)
            end = await catalogue.value(self.connection, "SELECT pg_current_wal_lsn()::text")
        behind = max(0, read_lsn(str(end)) - self._stored)
        return {
            "slot_retained_bytes": slot.retained_bytes if slot else 0.0,
            "lag_bytes": float(behind),
        }

    async def stay_alive(self) -> None:
        """Tell the server that we are there, also while the broker is not; find new tables."""
        while True:
            await asyncio.sleep(STATUS_EVERY_S)
            if not self._streams:
                continue
            self._replication.tell(self._stored, self._now_us())
            async with self._asking:
                new = await self._publish()
            if new:
                log.info("follows new tables", source=self.source.name, tables=list(map(str, new)))
                self._ask(Signal(EXECUTE, tuple(map(str, new))))

    async def table(self, relation: Relation) -> Table:
        """Return how a table is told; its key and its types are looked up."""
        async with self._asking:
            if any(column.type_oid not in self._types for column in relation.columns):
                self._types = await catalogue.types(self.connection)
            key = await catalogue.key_of(self.connection, Place(relation.schema, relation.table))
        decimals = self.source.decimals
        return Table(relation, key, self._types, self.selection, decimals)

    async def _receive(self) -> list[Change | Spoiled]:
        """Return the changes of what has arrived; nothing after a while of silence."""
        changes: list[Change | Spoiled] = []
        messages: list[Arrived | Alive] = []
        wait_s = CHUNK_WAIT_S if self._incremental else self.source.pace.heartbeat_s
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                messages = await self._replication.receive()
        for message in messages:
            if isinstance(message, Alive):
                self._alive(message)
                continue
            lsn, data = message
            decoded = decode(data)
            if isinstance(decoded, ROWS):
                self._row(decoded, lsn, changes)
            elif isinstance(decoded, Relation):
                self._tables[decoded.oid] = await self.table(decoded)
            else:
                self._rarely(decoded, lsn, changes)
        return changes

    def _alive(self, message: Alive) -> None:
        if self._begin is None:
            self._idle = max(self._idle, message.lsn)
        if message.wants_reply:
            self._replication.tell(self._stored, self._now_us())

    def _rarely(self, decoded: Decoded, lsn: int, changes: list[Change | Spoiled]) -> None:
        if isinstance(decoded, Begin):
            self._begin, self._number = decoded, 0
            xid, told = self.position.partial or (None, 0)
            self._skips = told if xid == decoded.xid else 0
        elif isinstance(decoded, Commit):
            assert self._begin is not None, "a commit ends what has begun"
            self._xids.append(self._begin.xid)
            self._begin = None
            self._at = decoded.end_lsn
            self.events.committed(decoded.end_lsn)
            self._time_us = decoded.time_us
            self._parts = [part for part in self._parts if read_lsn(part.until) > self._at]
        elif isinstance(decoded, Truncate):
            self._truncate(decoded, lsn, changes)
        elif isinstance(decoded, Message) and decoded.prefix == MESSAGES:
            signal = read_message(decoded.content)
            if signal is not None:
                self._ask(signal)

    def _row(self, row: Row, lsn: int, changes: list[Change | Spoiled]) -> None:
        self._number += 1
        if self._number <= self._skips:
            return
        table, begin = self._tables[row.relation], self._begin
        assert begin is not None, "rows come in transactions"
        if not table.told:
            if str(table.place) == self.source.signals and isinstance(row, Insert):
                self._signalled(table, row)
            return
        found = self.events.told(table, row, begin, (lsn, self._number))
        if self._chunk is not None and self._chunk.scope == str(table.place):
            self._chunk.touched(begin.xid, _keys(table, row))
        if self._parts:
            found = [one for one in found if not self._is_covered(table, row, one, begin.xid)]
        changes += found

    def _truncate(self, truncate: Truncate, lsn: int, changes: list[Change | Spoiled]) -> None:
        self._number += 1
        begin = self._begin
        if self._number <= self._skips or begin is None:
            return
        for oid in truncate.relations:
            table = self._tables.get(oid)
            if table is None or not table.told:
                continue
            if self._chunk is not None and self._chunk.scope == str(table.place):
                self._chunk.touched(begin.xid, list(self._chunk.rows))
            changes.append(self.events.truncated(table, begin, (lsn, self._number)))

    def _is_covered(self, table: Table, row: Row, change: Change | Spoiled, xid: int) -> bool:
        """Return whether a snapshot that was read later has told this change already."""
        key = table.raw_key(_identity(row, change))
        for part in reversed(self._parts):
            if part.scope != str(table.place):
                continue
            if part.after is None or table.order(key) > table.order(part.after):
                return read_visibility(part.mark).sees(xid)
        return False

    def _signalled(self, table: Table, row: Insert) -> None:
        names = [column.name for column in table.relation.columns]
        values = dict(zip(names, row.new, strict=True))
        kind, data = values.get("type"), values.get("data")
        if isinstance(kind, bytes) and isinstance(data, bytes | None):
            signal = read_signal(kind.decode(), data)
            if signal is not None:
                self._ask(signal)

    def _ask(self, signal: Signal) -> None:
        log.info("is asked", source=self.source.name, kind=signal.kind, tables=signal.scopes)
        self._incremental = asked(self._incremental, signal, self._scopes)
        if self._chunk is not None and not is_read(self._incremental, self._chunk.scope):
            self._chunk = None

    async def _advance_incremental(self) -> list[Change | Spoiled]:
        """Read the next rows that were asked for, or tell those that the stream has reached."""
        if self._incremental is None or self._begin is not None:
            return []
        if self._chunk is None:
            self._chunk = await self._next_chunk(self._incremental)
            return []
        if max(self._at, self._idle) < self._chunk.lsn:
            self._replication.tell(self._stored, self._now_us(), wants_reply=True)
            return []
        return await self._tell_chunk(self._chunk, self._incremental)

    async def _next_chunk(self, snapshot: Snapshot) -> Chunk | None:
        scope, count = snapshot.todo[0], self.source.pace.snapshot_rows
        async with reading.consistent(self.source.address) as connection:
            mark, lsn = await reading.mark_of(connection)
            relation = await catalogue.relation_of(connection, Place(*scope.split(".", 1)))
            table = await self.table(relation) if relation else None
            if table is None or not table.key_names:
                log.warning("cannot be read in parts: it has no key", table=scope)
                return Chunk(scope, {}, read_visibility(mark), 0, None, True)
            last = [str(part) for part in snapshot.last] if snapshot.last else None
            rows = await reading.page(connection, table, last, count)
        async with self._asking:
            # A commit of our own: the stream comes to it soon, also where nobody else writes.
            await catalogue.execute(self.connection, reading.MARK)
        keys = [table.raw_key(row) for row in rows]
        seen = read_visibility(mark)
        final = keys[-1] if keys else None
        found = Chunk(
            scope, dict(zip(keys, rows, strict=True)), seen, read_lsn(lsn), final, len(rows) < count
        )
        return None if found.is_stale(self._xids) else found

    async def _tell_chunk(self, chunk: Chunk, snapshot: Snapshot) -> list[Change | Spoiled]:
        self._chunk = None
        relation = await self._relation(chunk.scope)
        found: list[Change | Spoiled] = []
        if relation is not None:
            table = await self.table(relation)
            at = (chunk.lsn, self._now_us())
            found = [self.events.read(table, row, at, "incremental") for row in chunk.rows.values()]
        self._incremental = read_on(snapshot, chunk.last, len(found), is_final=chunk.is_final)
        if chunk.is_final:
            log.info("has read", table=chunk.scope, rows=snapshot.rows + len(found))
        return found

    async def _relation(self, scope: str) -> Relation | None:
        async with self._asking:
            return await catalogue.relation_of(self.connection, Place(*scope.split(".", 1)))

    def _heartbeat_due(self) -> bool:
        """Return whether an idle source should store that it is further than its last change."""
        idle_s = self.clock.monotonic_s() - self._told_s
        if (
            self._begin is not None
            or self._idle <= self._at
            or idle_s < self.source.pace.heartbeat_s
        ):
            return False
        self._at = self._idle
        return True

    def _now(self) -> Position:
        begin = self._begin
        return Position(
            at=lsn_text(self._at),
            partial=(begin.xid, self._number) if begin and self._number else None,
            parts=self._parts,
            incremental=self._incremental,
            time_us=self._time_us,
        )

    def _now_us(self) -> int:
        return self.clock.now_ms() * 1000


def _keys(table: Table, row: Row) -> list[tuple[str, ...]]:
    """Return the keys that a row has and had."""
    found = []
    if not isinstance(row, Delete):
        found.append(table.raw_key(row.new))
    if not isinstance(row, Insert) and row.old is not None:
        found.append(table.raw_key(row.old))
    return found


def _identity(row: Row, change: Change | Spoiled) -> Tuple:
    """Return the row whose key a change has: an update can be a delete and a create."""
    if isinstance(row, Insert):
        return row.new
    if isinstance(row, Delete):
        return row.old
    is_delete = isinstance(change, Change) and change.after is None
    return row.old if is_delete and row.old is not None else row.new

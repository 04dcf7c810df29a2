"""The first snapshot of a PostgreSQL: every row once, also if it is interrupted and goes on."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from chordmq.cdc.change import Burst, Change, Part, Place, Position, Snapshot, Spoiled
from chordmq.cdc.postgres import catalogue, reading
from chordmq.cdc.postgres.catalogue import Connection
from chordmq.cdc.postgres.pgoutput import Tuple, read_lsn
from chordmq.cdc.postgres.table import Table

if TYPE_CHECKING:
    from chordmq.cdc.postgres.source import PostgresStream

FIRST, FIRST_OF_TABLE = "first", "first_in_data_collection"
LAST, LAST_OF_TABLE = "last", "last_in_data_collection"


async def snapshot_bursts(stream: "PostgresStream") -> AsyncGenerator[Burst, None]:
    """Tell what is still to be read of a snapshot.

    A new one sees what the database held when its slot was made, where the stream will begin. One
    that goes on after a crash sees more; the stream must not tell that again, so the position says
    which rows were read when.
    """
    position = stream.position
    snapshot = position.snapshot
    assert snapshot is not None, "there is something to read"
    async with reading.consistent(stream.source.address, stream.exported) as connection:
        if stream.exported is None:
            position = await _going_on(stream, connection, position, snapshot)
        telling = _Telling(stream, position)
        async for table, scope, page in _pages(stream, connection, position.snapshot or snapshot):
            burst = telling.page(table, scope, page)
            if burst is not None:
                yield burst
        yield telling.end()


async def _going_on(
    stream: "PostgresStream", connection: Connection, position: Position, snapshot: Snapshot
) -> Position:
    mark, until = await reading.mark_of(connection)
    last = snapshot.last
    if last is not None:
        relation = await catalogue.relation_of(connection, Place(*snapshot.todo[0].split(".", 1)))
        table = await stream.table(relation) if relation else None
        if table is None or not table.can_resume:
            last = None
    parts = [
        Part(scope, last if number == 0 else None, mark, until)
        for number, scope in enumerate(snapshot.todo)
    ]
    going_on = msgspec.structs.replace(snapshot, last=last)
    return msgspec.structs.replace(position, parts=[*position.parts, *parts], snapshot=going_on)


async def _pages(
    stream: "PostgresStream", connection: Connection, snapshot: Snapshot
) -> AsyncIterator[tuple[Table, str, list[Tuple]]]:
    last: Sequence[str] | None = snapshot.last
    for scope in snapshot.todo:
        relation = await catalogue.relation_of(connection, Place(*scope.split(".", 1)))
        if relation is not None:
            table = await stream.table(relation)
            count = stream.source.pace.snapshot_rows
            async for page in reading.pages(connection, table, last, count):
                yield table, scope, page
        last = None


class _Telling:
    """Marks the first and the last rows, for which it holds one row back."""

    def __init__(self, stream: "PostgresStream", position: Position) -> None:
        assert position.snapshot is not None
        self._stream = stream
        self._position = position
        self._todo = list(position.snapshot.todo)
        self._rows = position.snapshot.rows
        self._at = (read_lsn(position.at), stream.clock.now_ms() * 1000)
        self._held: tuple[Table, str, Tuple] | None = None
        self._is_first_of_table = True

    def page(self, table: Table, scope: str, page: list[Tuple]) -> Burst | None:
        """Return a burst with all rows but the last one, after the one held back."""
        found = []
        if self._held is not None:
            held, told_scope, last_row = self._held
            found.append(self._told(held, last_row, LAST_OF_TABLE if told_scope != scope else ""))
        if self._todo[0] != scope:
            self._todo = self._todo[self._todo.index(scope) :]
        last = None
        for row in page[:-1]:
            found.append(self._told(table, row))
            last = row
        if last is None and self._held is not None and self._held[1] == scope:
            last = self._held[2]
        self._held = (table, scope, page[-1])
        if not found:
            return None
        key = table.raw_key(last) if last is not None else None
        snapshot = Snapshot(self._todo, key, self._rows)
        return Burst(found, msgspec.structs.replace(self._position, snapshot=snapshot))

    def end(self) -> Burst:
        """Return the burst that ends the snapshot."""
        found = []
        if self._held is not None:
            table, _, row = self._held
            found.append(self._told(table, row, LAST))
        return Burst(found, msgspec.structs.replace(self._position, snapshot=None))

    def _told(self, table: Table, row: Tuple, ends: str = "") -> Change | Spoiled:
        """Return a row as a change, with Debezium's word for its place in the snapshot."""
        mark = ends or (FIRST_OF_TABLE if self._is_first_of_table else "true")
        if self._rows == 0 and ends != LAST:
            mark = FIRST
        self._is_first_of_table = ends == LAST_OF_TABLE
        self._rows += 1
        return self._stream.events.read(table, row, self._at, mark)

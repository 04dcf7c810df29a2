"""Reads tables of PostgreSQL in the order of their keys, as a snapshot sees them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from chordmq.cdc.postgres.catalogue import Connection, connected, value
from chordmq.cdc.postgres.pgoutput import Tuple
from chordmq.cdc.postgres.table import Table

CURSOR = "chordmq_rows"
MARK = "SELECT pg_logical_emit_message(true, 'chordmq.mark', '')"


@asynccontextmanager
async def consistent(address: str, snapshot: str | None = None) -> AsyncIterator[Connection]:
    """Open a transaction in which the database stands still; at a snapshot, if one is named."""
    async with connected(address) as connection:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if snapshot is not None:
            await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        yield connection


async def mark_of(connection: Connection) -> tuple[str, str]:
    """Return what a transaction sees, and a place in the log that is behind all of it."""
    mark = await value(connection, "SELECT pg_current_snapshot()::text")
    lsn = await value(connection, "SELECT pg_current_wal_insert_lsn()::text")
    return str(mark), str(lsn)


async def pages(
    connection: Connection, table: Table, after: Sequence[str] | None, count: int
) -> AsyncIterator[list[Tuple]]:
    """Yield the rows of a table beyond a key, so many at a time."""
    where, values = _beyond(table, after)
    order = f" ORDER BY {', '.join(table.query_order)}" if table.query_order else ""
    query = f"SELECT {table.query_columns} FROM {table.query_name}{where}{order}"  # noqa: S608
    await connection.execute(
        f"DECLARE {CURSOR} NO SCROLL CURSOR FOR {query}",
        values or None,
    )
    while True:
        page = await _fetched(connection, f"FETCH {count} FROM {CURSOR}")
        if page:
            yield page
        if len(page) < count:
            break
    await connection.execute(f"CLOSE {CURSOR}")


async def page(
    connection: Connection, table: Table, after: Sequence[str] | None, count: int
) -> list[Tuple]:
    """Return the first rows of a table beyond a key."""
    where, values = _beyond(table, after)
    order = ", ".join(table.query_order)
    query = (
        f"SELECT {table.query_columns} FROM {table.query_name}{where} "  # noqa: S608
        f"ORDER BY {order} LIMIT {count}"
    )
    return await _fetched(connection, query, values)


def _beyond(table: Table, after: Sequence[str] | None) -> tuple[str, list[str]]:
    if after is None:
        return "", []
    columns, marks = ", ".join(table.query_order), ", ".join("%s" for _ in after)
    return f" WHERE ({columns}) > ({marks})", list(after)


async def _fetched(
    connection: Connection, query: str, values: Sequence[str] | None = None
) -> list[Tuple]:
    """Return rows as text, as the stream tells them, without psycopg's own reading."""
    found = await connection.execute(query, list(values) if values else None)
    result = found.pgresult
    assert result is not None, "a query has a result"
    get, columns = result.get_value, range(result.nfields)
    return [[get(row, column) for column in columns] for row in range(result.ntuples)]

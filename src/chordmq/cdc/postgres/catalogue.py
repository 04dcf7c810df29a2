"""Asks PostgreSQL what it is and has: settings, slots, publications, tables, types and keys."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, sql

from chordmq.cdc.change import Place
from chordmq.cdc.errors import InvalidSource, SourceRefused, SourceUnavailable
from chordmq.cdc.postgres.pgoutput import Column, Relation, read_lsn
from chordmq.cdc.postgres.values import Type

CONNECT_TIMEOUT_S = 10
# Values come as text: in one form, whatever the server or the user are set to.
SESSION = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex "
    "-c extra_float_digits=3 -c client_encoding=UTF8"
)
REFUSED = ("28", "42501", "3D")
"""Wrong password or user, no permission, no such database: waiting does not help."""

Connection = AsyncConnection[tuple[Any, ...]]


class SlotState(NamedTuple):
    """A replication slot as the server sees it."""

    plugin: str
    active: bool
    confirmed_lsn: int
    status: str
    """`lost` where the server has deleted what the slot needs."""
    retained_bytes: float


@asynccontextmanager
async def connected(address: str, *, replication: bool = False) -> AsyncIterator[Connection]:
    """Stay connected for the length of a block; turn psycopg's errors into ours."""
    options: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "options": SESSION}
    if replication:
        options["replication"] = "database"
    try:
        connection = await AsyncConnection.connect(
            address, autocommit=True, prepare_threshold=None, application_name="chordmq-cdc",
            **options,
        )  # fmt: skip
    except psycopg.ProgrammingError as error:
        raise InvalidSource(f"the address is not one of PostgreSQL: {error}") from None
    except psycopg.OperationalError as error:
        raise explained(error) from None
    try:
        yield connection
    except psycopg.Error as error:
        raise explained(error) from error
    finally:
        await connection.close()


def explained(error: psycopg.Error) -> SourceRefused | SourceUnavailable:
    """Return what an error of the database means for us."""
    said = " ".join(str(error).split())
    message = f"PostgreSQL: {said}"
    state = error.sqlstate or ""
    refusals = ("password authentication failed", "no pg_hba.conf entry", "does not exist")
    if state.startswith(REFUSED) or (not state and any(text in said for text in refusals)):
        return SourceRefused(message)
    return SourceUnavailable(message)


async def execute(
    connection: Connection, query: str | sql.Composed, values: Iterable[Any] = ()
) -> list[tuple[Any, ...]]:
    """Run a statement and return what it finds; raise our errors, also from within a task."""
    try:
        found = await connection.execute(query, list(values) or None)
        return await found.fetchall() if found.description else []
    except psycopg.Error as error:
        raise explained(error) from error


async def value(connection: Connection, query: str, values: Iterable[Any] = ()) -> Any:
    """Run a query that finds one value."""
    found = await execute(connection, query, values)
    return found[0][0] if found else None


async def slot_state(connection: Connection, slot: str) -> SlotState | None:
    """Return what the server knows of a slot, or None if there is none."""
    found = await execute(
        connection,
        "SELECT plugin, active, confirmed_flush_lsn::text, coalesce(wal_status, ''), "
        "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::float8 "
        "FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()",
        [slot],
    )
    if not found:
        return None
    plugin, active, confirmed, status, retained = found[0]
    return SlotState(plugin, active, read_lsn(confirmed or "0/0"), status, retained)


async def tables(connection: Connection) -> list[Place]:
    """Return all tables of the database that can be published."""
    found = await execute(
        connection,
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' "
        "AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2",
    )
    return [Place(*row) for row in found]


async def published(connection: Connection, publication: str) -> set[Place] | None:
    """Return the tables of a publication, or None if there is none of this name."""
    if not await execute(
        connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", [publication]
    ):
        return None
    found = await execute(
        connection,
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s",
        [publication],
    )
    return {Place(*row) for row in found}


async def publish(connection: Connection, publication: str, places: Iterable[Place]) -> None:
    """Have a publication hold these tables; make it if it is missing."""
    name = sql.Identifier(publication)
    listed = sql.SQL(", ").join(sql.Identifier(*place) for place in places)
    there = await published(connection, publication)
    if there is None:
        create = "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
        await execute(connection, sql.SQL(create).format(name, listed))
    elif missing := sorted(set(places) - there):
        more = sql.SQL(", ").join(sql.Identifier(*place) for place in missing)
        await execute(connection, sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, more))


async def types(connection: Connection) -> Mapping[int, Type]:
    """Return all types of the database."""
    found = await execute(
        connection,
        "SELECT oid::int8, typname, typtype::text, typelem::int8, typbasetype::int8, typtypmod, "
        "typcategory::text FROM pg_type",
    )
    return {oid: Type(*fields) for oid, *fields in found}


async def key_of(connection: Connection, place: Place) -> list[str]:
    """Return the names of the columns of a table's primary key, in its order."""
    found = await execute(
        connection,
        "SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, place) ON true "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum "
        "WHERE i.indisprimary AND n.nspname = %s AND c.relname = %s ORDER BY k.place",
        list(place),
    )
    return [str(row[0]) for row in found]


async def relation_of(connection: Connection, place: Place) -> Relation | None:
    """Return a table as the stream would tell it, or None if there is none."""
    found = await execute(
        connection,
        "SELECT c.oid::int8, c.relreplident::text, a.attname, a.atttypid::int8, a.atttypmod "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped "
        "AND a.attgenerated = '' ORDER BY a.attnum",
        list(place),
    )
    if not found:
        return None
    oid, identity = found[0][:2]
    columns = tuple(Column(name, type_, modifier, False) for _, _, name, type_, modifier in found)
    return Relation(oid, place.namespace, place.name, identity, columns)

"""Looks whether a PostgreSQL can be followed, and says what it lacks."""

from collections.abc import AsyncIterator

from chordmq.cdc.change import Place
from chordmq.cdc.errors import SourceRefused
from chordmq.cdc.findings import Finding, Level
from chordmq.cdc.postgres import catalogue
from chordmq.cdc.postgres.catalogue import Connection, connected, execute, value
from chordmq.cdc.selection import Selection, chosen
from chordmq.cdc.settings import Source

OLDEST = 100000
NEWER = 140000


async def findings(source: Source) -> list[Finding]:
    """Return what was found, the database as it is."""
    async with connected(source.address) as connection:
        found = [one async for one in _needed(connection, source)]
        found += [one async for one in _wanted(connection, source)]
    return found


async def refuse_unfit(connection: Connection, source: Source) -> None:
    """Raise SourceRefused if the database lacks something without which nothing works."""
    async for finding in _needed(connection, source):
        if finding.level is Level.ERROR:
            raise SourceRefused(f"{finding.text}. {finding.advice}")


async def _needed(connection: Connection, source: Source) -> AsyncIterator[Finding]:
    version = connection.info.server_version
    if version < OLDEST:
        yield Finding(Level.ERROR, f"server version {version} is too old", "Use 10 or newer.")
    level = await value(connection, "SHOW wal_level")
    if level != "logical":
        yield Finding(
            Level.ERROR,
            f"wal_level is {level}",
            "Run ALTER SYSTEM SET wal_level = logical, and restart the server.",
        )
    else:
        yield Finding(Level.OK, "wal_level is logical")
    may = await value(
        connection,
        "SELECT rolreplication OR rolsuper OR pg_has_role(rolname, r.name, 'member') "
        "FROM pg_roles, (SELECT coalesce((SELECT rolname FROM pg_roles "
        "WHERE rolname = 'rds_replication'), rolname) AS name FROM pg_roles "
        "WHERE rolname = current_user) r WHERE rolname = current_user AND "
        "(rolreplication OR rolsuper OR r.name <> current_user)",
    )
    if not may:
        yield Finding(
            Level.ERROR,
            f"user {connection.info.user} may not replicate",
            f"Run ALTER ROLE {connection.info.user} WITH REPLICATION.",
        )
    async for finding in _room(connection, source):
        yield finding


async def _room(connection: Connection, source: Source) -> AsyncIterator[Finding]:
    slot = await catalogue.slot_state(connection, source.slot_name)
    most = int(await value(connection, "SHOW max_replication_slots"))
    used = int(await value(connection, "SELECT count(*) FROM pg_replication_slots"))
    if slot is None and used >= most:
        yield Finding(
            Level.ERROR,
            f"all {most} replication slots are in use",
            "Raise max_replication_slots, or drop one: SELECT pg_drop_replication_slot('…').",
        )
    if slot is not None and slot.plugin != "pgoutput":
        yield Finding(
            Level.ERROR,
            f"slot {source.slot_name} belongs to {slot.plugin}",
            "Name another one with `slot`.",
        )


async def _wanted(connection: Connection, source: Source) -> AsyncIterator[Finding]:
    there = await catalogue.tables(connection)
    told = chosen(there, Selection(source.tables, source.columns))
    if not told:
        names = ", ".join(map(str, there[:10])) or "none"
        advice = f"Look at tables.include and tables.exclude; there are: {names}."
        yield Finding(Level.ERROR, "no table is chosen", advice)
        return
    yield Finding(Level.OK, f"{len(told)} tables are chosen: {', '.join(map(str, told[:10]))}")
    async for finding in _publication(connection, source, told):
        yield finding
    for place in told:
        async for finding in _table(connection, place):
            yield finding
    slot = await catalogue.slot_state(connection, source.slot_name)
    if slot is None:
        yield Finding(Level.OK, f"slot {source.slot_name} will be made")
    elif slot.status == "lost":
        advice = "With `snapshot: when_needed` it is made anew, with a new snapshot."
        yield Finding(Level.WARNING, f"slot {source.slot_name} is lost", advice)
    else:
        yield Finding(
            Level.OK, f"slot {source.slot_name} keeps {slot.retained_bytes / 1e6:.1f} MB of log"
        )
    limit = await value(connection, "SELECT current_setting('max_slot_wal_keep_size', true)")
    if limit == "-1":
        yield Finding(
            Level.WARNING,
            "nothing bounds the log that a slot keeps",
            "A source that is away fills the disk: set max_slot_wal_keep_size.",
        )


async def _publication(
    connection: Connection, source: Source, told: list[Place]
) -> AsyncIterator[Finding]:
    name = source.publication_name
    held = await catalogue.published(connection, name)
    if held is not None and not set(told) - held:
        yield Finding(Level.OK, f"publication {name} holds all of them")
        return
    missing = told if held is None else sorted(set(told) - held)
    listed = ", ".join(map(str, missing))
    verb = (
        "CREATE PUBLICATION {} FOR TABLE {}"
        if held is None
        else "ALTER PUBLICATION {} ADD TABLE {}"
    )
    command = verb.format(name, listed)
    owned = await value(
        connection,
        "SELECT bool_and(pg_has_role(c.relowner, 'usage')) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname || '.' || c.relname = ANY(%s)",
        [[str(place) for place in missing]],
    )
    level = Level.OK if owned else Level.ERROR
    text = f"publication {name} lacks {len(missing)} tables"
    advice = "It is completed on start." if owned else f"Their owner must run: {command}"
    yield Finding(level, text, advice)


async def _table(connection: Connection, place: Place) -> AsyncIterator[Finding]:
    found = await execute(
        connection,
        "SELECT c.relreplident::text, has_table_privilege(c.oid, 'SELECT') FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        list(place),
    )
    identity, readable = found[0]
    if not readable:
        advice = f"Run GRANT SELECT ON {place} TO {connection.info.user}."
        yield Finding(Level.ERROR, f"{place} cannot be read for a snapshot", advice)
    has_key = bool(await catalogue.key_of(connection, place))
    if identity == "n" or (identity == "d" and not has_key):
        yield Finding(
            Level.WARNING,
            f"{place} has no replica identity",
            "The database refuses its updates and deletes: "
            f"ALTER TABLE {place} REPLICA IDENTITY FULL.",
        )
    elif not has_key:
        yield Finding(
            Level.WARNING,
            f"{place} has no primary key",
            "Its events have no key, and no order by key.",
        )
    elif identity != "f":
        yield Finding(
            Level.OK,
            f"{place} tells no old values",
            f"For `before` in updates: ALTER TABLE {place} REPLICA IDENTITY FULL.",
        )

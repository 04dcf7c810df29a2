"""Asks a running source for a snapshot, through its own database."""

from collections.abc import Sequence
from uuid import uuid4

import msgspec

from chordmq.cdc.errors import SourceRefused
from chordmq.cdc.settings import Source
from chordmq.cdc.signals import MESSAGES, message


async def ask(source: Source, kind: str, scopes: Sequence[str]) -> None:
    """Put a signal where the source finds it; raise SourceRefused if that cannot be."""
    if source.kind == "postgresql":
        await _ask_postgres(source, kind, scopes)
    else:
        await _ask_mongodb(source, kind, scopes)


async def _ask_postgres(source: Source, kind: str, scopes: Sequence[str]) -> None:
    from chordmq.cdc.postgres.catalogue import connected, execute
    from chordmq.cdc.postgres.replication import MESSAGES_SINCE
    from chordmq.cdc.postgres.table import quoted

    said = message(kind, scopes)
    async with connected(source.address) as connection:
        if source.signals:
            table = ".".join(quoted(part) for part in source.signals.split(".", 1))
            await execute(
                connection,
                f"INSERT INTO {table} (id, type, data) VALUES (%s, %s, %s)",  # noqa: S608
                [uuid4().hex, kind, msgspec.json.encode(said["data"]).decode()],
            )
        elif connection.info.server_version >= MESSAGES_SINCE:
            # A message in the log needs no table.
            content = msgspec.json.encode(said).decode()
            query = "SELECT pg_logical_emit_message(true, %s, %s)"
            await execute(connection, query, [MESSAGES, content])
        else:
            raise SourceRefused("before PostgreSQL 14 this needs a table: set `signals`")


async def _ask_mongodb(source: Source, kind: str, scopes: Sequence[str]) -> None:
    from chordmq.cdc.mongodb.server import connected

    if not source.signals:
        raise SourceRefused("MongoDB needs a collection for this: set `signals`")
    database, _, collection = source.signals.partition(".")
    async with connected(source) as client:
        await client[database][collection].insert_one(message(kind, scopes))

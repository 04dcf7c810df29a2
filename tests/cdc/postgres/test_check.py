"""What a PostgreSQL lacks is said before its changes are followed."""

import pytest

from chordmq.cdc.errors import SourceRefused
from chordmq.cdc.findings import Finding, Level
from chordmq.cdc.postgres.check import findings
from chordmq.cdc.postgres.source import opened
from chordmq.clock import SystemClock
from tests.cdc.conftest import PostgresDatabase
from tests.cdc.following import source_of
from tests.postgres import running_postgres


def settings(address: str, name: str) -> dict[str, str]:
    return {"name": name, "kind": "postgresql", "address": address}


def faults(found: list[Finding], level: Level) -> list[str]:
    return [f"{one.text}. {one.advice}" for one in found if one.level is level]


async def test_a_fit_database_is_found_fit(postgres: PostgresDatabase) -> None:
    postgres.run("CREATE TABLE items (id int PRIMARY KEY)")
    found = await findings(source_of(settings(postgres.address, postgres.name)))
    assert not faults(found, Level.ERROR)


async def test_tables_without_key_or_identity_are_pointed_out(postgres: PostgresDatabase) -> None:
    postgres.run("CREATE TABLE bare (v int)", "CREATE TABLE whole (v int)")
    postgres.run("ALTER TABLE whole REPLICA IDENTITY FULL")
    found = await findings(source_of(settings(postgres.address, postgres.name)))
    warnings = faults(found, Level.WARNING)
    assert any("public.bare has no replica identity" in one for one in warnings)
    assert any("public.whole has no primary key" in one for one in warnings)


async def test_a_user_who_may_not_replicate_is_told_what_to_run(
    postgres: PostgresDatabase,
) -> None:
    postgres.run("CREATE TABLE items (id int PRIMARY KEY)")
    user = f"u_{postgres.name}"
    postgres.run(f"CREATE ROLE {user} LOGIN PASSWORD 'x'")
    address = postgres.address.replace("chordmq:secret@", f"{user}:x@")
    errors = faults(await findings(source_of(settings(address, postgres.name))), Level.ERROR)
    assert any(f"ALTER ROLE {user} WITH REPLICATION" in one for one in errors)
    assert any("Their owner must run: CREATE PUBLICATION" in one for one in errors)
    assert any(f"GRANT SELECT ON public.items TO {user}" in one for one in errors)


async def test_a_server_without_logical_decoding_is_refused() -> None:
    with running_postgres({"wal_level": "replica"}) as server:
        server.execute("CREATE TABLE items (id int PRIMARY KEY)")
        source = source_of(settings(server.address, "shop"))
        errors = faults(await findings(source), Level.ERROR)
        assert errors == [
            "wal_level is replica. "
            "Run ALTER SYSTEM SET wal_level = logical, and restart the server."
        ]
        with pytest.raises(SourceRefused, match="wal_level"):
            async with opened(source, None, SystemClock()):
                pass

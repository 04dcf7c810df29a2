"""PostgreSQL's changes, from a real server, beside what Debezium tells of them."""

import asyncio
import json
import random
from typing import Any

import pytest

from chordmq.cdc.change import Position
from chordmq.cdc.errors import InvalidSource, PositionLost, SourceRefused, SourceUnavailable
from chordmq.cdc.measures import State
from chordmq.cdc.postgres.source import opened
from chordmq.clock import SystemClock
from tests.cdc import changes
from tests.cdc.conftest import PostgresDatabase
from tests.cdc.following import PATIENCE_S, Written, following, id_of, read_until, source_of, until
from tests.cdc.golden import differences, golden
from tests.running_node import RunningNode, free_port


def config(database: PostgresDatabase, **more: Any) -> dict[str, Any]:
    return {
        "name": database.name,
        "kind": "postgresql",
        "address": database.address,
        "pace": {"heartbeat_s": 0.5, "snapshot_rows": 50},
    } | more


def topic(database: PostgresDatabase, table: str) -> str:
    return f"{database.name}.public.{table}"


def has_key(key: dict[str, Any], op: str = "") -> Any:
    return lambda written: any(one.key == key and (not op or one.op == op) for one in written)


async def test_every_type_and_kind_of_change_is_told_as_debezium_tells_it(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    """E8: the events are those that Debezium 3.6 told of the same changes, tombstones included."""
    postgres.server.script(changes.POSTGRES_TABLES, postgres.name)
    tables = ["types", "nopk", "toasted", "pairs"]
    theirs = {table: golden("postgres", f"shop.public.{table}") for table in tables}
    count = sum(map(len, theirs.values()))
    topics = [topic(postgres, table) for table in tables]
    async with following(config(postgres, skip=[]), node.bootstrap):
        first = [topic(postgres, "types"), topic(postgres, "pairs")]
        await read_until(node.bootstrap, first, lambda found: len(found) >= changes.POSTGRES_ROWS)
        await asyncio.to_thread(postgres.server.script, changes.POSTGRES, postgres.name)
        written = await read_until(node.bootstrap, topics, lambda found: len(found) >= count)
    for table in tables:
        ours = [one for one in written if one.topic == topic(postgres, table)]
        told = [(one.key, one.op, *states(one)) for one in ours]
        assert not differences(told, theirs[table])


def states(one: Written) -> tuple[Any, Any]:
    return (None, None) if one.value is None else (one.value["before"], one.value["after"])


async def test_a_snapshot_and_the_stream_after_it_leave_no_gap_and_repeat_nothing(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    """E8: rows written before, during and after the snapshot are each told once."""
    postgres.run("CREATE TABLE items (id int PRIMARY KEY, v int)")
    postgres.run("INSERT INTO items SELECT g, 0 FROM generate_series(1, 400) g")

    inserts = [f"INSERT INTO items VALUES ({number}, 0)" for number in range(401, 601)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(postgres.run, *inserts))
        async with following(config(postgres), node.bootstrap) as runner:
            topics = [topic(postgres, "items")]
            await read_until(node.bootstrap, topics, has_key({"id": 600}))
            await until(lambda: runner.measures.state is State.STREAMING)
            postgres.run("INSERT INTO items VALUES (601, 0)")
            written = await read_until(node.bootstrap, topics, has_key({"id": 601}))
    assert sorted(one.key["id"] for one in written) == list(range(1, 602))
    assert {one.op for one in written} == {"r", "c"}
    marks = [one.value["source"]["snapshot"] for one in written if one.op == "r"]
    assert marks[0] == "first"
    assert marks[-1] == "last"


async def test_a_snapshot_that_was_interrupted_goes_on_and_repeats_nothing(
    postgres: PostgresDatabase,
) -> None:
    """E8: rows of the second part are as of later; the stream does not tell that again."""
    postgres.run("CREATE TABLE items (id int PRIMARY KEY, v int)")
    postgres.run("INSERT INTO items SELECT g, 0 FROM generate_series(1, 200) g")
    source = source_of(config(postgres))
    told: list[tuple[str, int, int | None]] = []
    position: Position | None = None
    async with opened(source, None, SystemClock()) as stream:
        async for burst in stream.bursts():
            position = burst.position
            told += [flat(change) for change in burst.changes]
            if len(told) >= 60:
                break
    await free_slot(postgres)
    postgres.run("UPDATE items SET v = 1 WHERE id = 1", "UPDATE items SET v = 1 WHERE id = 199")
    postgres.run("INSERT INTO items VALUES (201, 0)", "DELETE FROM items WHERE id = 2")
    async with opened(source, position, SystemClock()) as stream:
        async for burst in stream.bursts():
            told += [flat(change) for change in burst.changes]
            if ("c", 202, 0) in told:
                break
            if burst.position.snapshot is None:
                postgres.run("INSERT INTO items VALUES (202, 0) ON CONFLICT DO NOTHING")
    rows = [one for one in told if one[0] == "r"]
    assert len(rows) == len({key for _, key, _ in rows}) == 201
    assert ("r", 199, 1) in rows
    assert [one for one in told if one[0] != "r"] == [("u", 1, 1), ("d", 2, None), ("c", 202, 0)]


def flat(change: Any) -> tuple[str, int, int | None]:
    return change.op, id_of(change), change.after and json.loads(change.after)["v"]


async def test_a_transaction_too_large_for_one_step_is_told_once_across_a_restart(
    postgres: PostgresDatabase,
) -> None:
    postgres.run("CREATE TABLE items (id int PRIMARY KEY, v int)")
    source = source_of(config(postgres, snapshot="never"))
    async with opened(source, None, SystemClock()) as stream:
        start = stream.position
    postgres.run("INSERT INTO items SELECT g, 0 FROM generate_series(1, 20000) g")
    told: list[int] = []
    position: Position | None = start
    restarts = 0
    async with asyncio.timeout(PATIENCE_S):
        while len(told) < 20_000:
            async with opened(source, position, SystemClock()) as stream:
                async for burst in stream.bursts():
                    position = burst.position
                    told += map(id_of, burst.changes)
                    if burst.changes:
                        break
            await free_slot(postgres)
            restarts += 1
    assert told == list(range(1, 20_001))
    assert restarts > 2


async def test_a_lost_slot_leads_to_a_new_snapshot(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    """E8: what was changed while nobody could tell is in the new snapshot."""
    postgres.run(
        "CREATE TABLE items (id int PRIMARY KEY, v int)", "INSERT INTO items VALUES (1, 0)"
    )
    topics = [topic(postgres, "items")]
    async with following(config(postgres), node.bootstrap):
        await read_until(node.bootstrap, topics, has_key({"id": 1}))
    await dropped_slot(postgres)
    postgres.run("INSERT INTO items VALUES (2, 0)")
    async with following(config(postgres), node.bootstrap):
        written = await read_until(node.bootstrap, topics, has_key({"id": 2}))
    assert [(one.op, one.key["id"]) for one in written] == [("r", 1), ("r", 1), ("r", 2)]


async def free_slot(database: PostgresDatabase) -> str:
    """Return the name of the slot when the server has noticed that nobody reads it."""
    slot = f"chordmq_{database.name}"
    query = "SELECT count(*) FROM pg_replication_slots WHERE NOT active AND slot_name = "
    await until(lambda: database.rows(f"{query}'{slot}'") == [(1,)])
    return slot


async def dropped_slot(database: PostgresDatabase) -> None:
    database.rows(f"SELECT pg_drop_replication_slot('{await free_slot(database)}')")


async def test_a_lost_slot_stops_a_source_that_may_not_take_another_snapshot(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    postgres.run(
        "CREATE TABLE items (id int PRIMARY KEY, v int)", "INSERT INTO items VALUES (1, 0)"
    )
    settings = config(postgres, snapshot="initial")
    async with following(settings, node.bootstrap):
        await read_until(node.bootstrap, [topic(postgres, "items")], has_key({"id": 1}))
    await dropped_slot(postgres)
    with pytest.raises(ExceptionGroup) as failure:
        async with following(settings, node.bootstrap):
            await asyncio.sleep(PATIENCE_S)
    assert isinstance(failure.value.exceptions[0], PositionLost)
    assert "snapshot: when_needed" in str(failure.value.exceptions[0])


async def test_a_slot_that_somebody_else_has_moved_is_a_gap(postgres: PostgresDatabase) -> None:
    postgres.run("CREATE TABLE items (id int PRIMARY KEY, v int)")
    source = source_of(config(postgres, snapshot="never"))
    async with opened(source, None, SystemClock()) as stream:
        position = stream.position
    postgres.run("INSERT INTO items VALUES (1, 0)")
    slot = await free_slot(postgres)
    postgres.rows(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    with pytest.raises(PositionLost, match="somebody has moved"):
        async with opened(source, position, SystemClock()):
            pass


async def test_an_idle_source_lets_the_server_forget_its_log(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    """E8: what other databases write moves the position on, so that no log piles up."""
    postgres.run("CREATE TABLE items (id int PRIMARY KEY, v int)")
    slot = f"chordmq_{postgres.name}"
    query = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'"
    async with following(config(postgres), node.bootstrap) as runner:
        await until(lambda: runner.measures.state is State.STREAMING)
        before = postgres.rows(query)
        postgres.server.execute("SELECT pg_logical_emit_message(false, 'noise', repeat('x', 9999))")
        await until(lambda: postgres.rows(query) != before)


async def test_an_incremental_snapshot_reads_a_table_again_while_changes_go_on(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    """E8: asked by a row in the signal table; every row is told, and none in an older state."""
    postgres.run("CREATE TABLE items (id int PRIMARY KEY, v int)")
    postgres.run("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
    postgres.run("INSERT INTO items SELECT g, 0 FROM generate_series(1, 220) g")
    settings = config(
        postgres, signals="public.signals", snapshot="never", tables={"include": [r"public\.items"]}
    )
    topics = [topic(postgres, "items")]

    updates = [f"UPDATE items SET v = v + 1 WHERE id = {number}" for number in range(1, 51)]

    async with following(settings, node.bootstrap) as runner, asyncio.TaskGroup() as tasks:
        await until(lambda: runner.measures.position is not None)
        tasks.create_task(asyncio.to_thread(postgres.run, *updates))
        data = '{"type": "incremental", "data-collections": ["public.items"]}'
        postgres.run(f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{data}')")
        written = await read_until(
            node.bootstrap,
            topics,
            lambda found: (
                {one.key["id"] for one in found} == set(range(1, 221))
                and sum(one.op == "u" for one in found) == 50
            ),
        )
    last: dict[int, int] = {}
    for one in written:
        value = one.value["after"]["v"]
        assert value >= last.get(one.key["id"], 0), "no row goes back"
        last[one.key["id"]] = value
    assert last == {number: int(number <= 50) for number in range(1, 221)}
    reads = [one.key["id"] for one in written if one.op == "r"]
    assert len(reads) == len(set(reads))


async def test_a_table_that_is_made_later_is_told_with_what_it_held(
    postgres: PostgresDatabase, node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chordmq.cdc.postgres.source.STATUS_EVERY_S", 0.3)
    postgres.run(
        "CREATE TABLE items (id int PRIMARY KEY, v int)", "INSERT INTO items VALUES (1, 0)"
    )
    async with following(config(postgres), node.bootstrap):
        await read_until(node.bootstrap, [topic(postgres, "items")], has_key({"id": 1}))
        postgres.run("CREATE TABLE later (id int PRIMARY KEY)", "INSERT INTO later VALUES (7)")
        written = await read_until(node.bootstrap, [topic(postgres, "later")], has_key({"id": 7}))
    assert {one.op for one in written} <= {"r", "c"}


async def test_columns_are_left_out_masked_and_renamed(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    postgres.run("CREATE TABLE people (id int PRIMARY KEY, name text, secret text, card text)")
    postgres.run("INSERT INTO people VALUES (1, 'Ada', 'x', '1234')")
    columns = {
        "exclude": [r"public\.people\.secret"],
        "mask": {r".*\.card": "****"},
        "rename": {r".*\.name": "fullName"},
    }
    async with following(config(postgres, columns=columns), node.bootstrap):
        written = await read_until(node.bootstrap, [topic(postgres, "people")], has_key({"id": 1}))
    assert written[0].value["after"] == {"id": 1, "fullName": "Ada", "card": "****"}


async def test_an_update_keeps_a_key_that_is_too_long_to_be_sent_again(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    """E8: the server stores such a value apart, and sends it in the old row only."""
    postgres.run("CREATE TABLE items (id text PRIMARY KEY, v int)")
    key = random.Random(1).randbytes(1250).hex()
    async with following(config(postgres, snapshot="never"), node.bootstrap) as runner:
        await until(lambda: runner.measures.state is State.STREAMING)
        postgres.run(f"INSERT INTO items VALUES ('{key}', 1)", "UPDATE items SET v = 2")
        written = await read_until(
            node.bootstrap, [topic(postgres, "items")], lambda found: len(found) >= 2
        )
    assert [(one.op, one.key["id"], one.value["after"]) for one in written] == [
        ("c", key, {"id": key, "v": 1}),
        ("u", key, {"id": key, "v": 2}),
    ]


async def test_a_value_that_cannot_be_told_goes_to_the_dead_letters(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    postgres.run("CREATE TABLE days (id int PRIMARY KEY, day date)")
    postgres.run("INSERT INTO days VALUES (1, '0044-03-15 BC'), (2, '2024-01-01')")
    async with following(config(postgres), node.bootstrap):
        await read_until(node.bootstrap, [topic(postgres, "days")], has_key({"id": 2}))
        letters = await read_until(node.bootstrap, [f"{postgres.name}.dlq"], bool)
    assert b"cannot be read" in letters[0].headers["chordmq.error"]
    assert letters[0].headers["chordmq.table"] == b"public.days"


async def test_an_envelope_is_written_if_that_is_chosen(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    """E1, E8: the transformer puts events into the envelope of the IoT layer."""
    postgres.run(
        "CREATE TABLE items (id int PRIMARY KEY, v int)", "INSERT INTO items VALUES (1, 5)"
    )
    async with following(config(postgres, format="envelope"), node.bootstrap):
        written = await read_until(node.bootstrap, [topic(postgres, "items")], has_key_only(1))
    metadata, payload = written[0].value["metadata"], written[0].value["payload"]
    assert metadata["topic"] == f"{postgres.name}/public/items"
    assert metadata["messageType"] == "event"
    assert payload["after"] == {"id": 1, "v": 5}


def has_key_only(number: int) -> Any:
    return lambda written: any(one.key == {"id": number} for one in written)


async def test_a_wrong_password_is_said_clearly(postgres: PostgresDatabase) -> None:
    address = postgres.address.replace(":secret@", ":wrong@")
    with pytest.raises(SourceRefused, match="password authentication failed for user"):
        async with opened(source_of(config(postgres) | {"address": address}), None, SystemClock()):
            pass


async def test_a_database_that_is_not_there_is_said_clearly(postgres: PostgresDatabase) -> None:
    address = f"postgresql://u:p@127.0.0.1:{free_port()}/x"
    with pytest.raises(SourceUnavailable, match="refused"):
        async with opened(source_of(config(postgres) | {"address": address}), None, SystemClock()):
            pass


async def test_a_source_without_tables_is_refused(postgres: PostgresDatabase) -> None:
    with pytest.raises(InvalidSource, match="no table is chosen"):
        async with opened(source_of(config(postgres)), None, SystemClock()):
            pass


async def test_a_table_that_is_chosen_later_is_read_when_the_source_goes_on(
    postgres: PostgresDatabase, node: RunningNode
) -> None:
    postgres.run("CREATE TABLE items (id int PRIMARY KEY)", "INSERT INTO items VALUES (1)")
    postgres.run("CREATE TABLE others (id int PRIMARY KEY)", "INSERT INTO others VALUES (7)")
    narrow = {"tables": {"include": [r"public\.items"]}}
    async with following(config(postgres, **narrow), node.bootstrap):
        await read_until(node.bootstrap, [topic(postgres, "items")], has_key({"id": 1}))
    await free_slot(postgres)
    async with following(config(postgres), node.bootstrap):
        written = await read_until(node.bootstrap, [topic(postgres, "others")], has_key({"id": 7}))
    assert [one.op for one in written] == ["r"]

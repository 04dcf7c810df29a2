"""Debezium itself beside our sources, on the same database and at the same time."""

import asyncio
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from chordmq.cdc.compare import Told, compare, read_told
from tests.cdc import changes, oracle
from tests.cdc.following import following, read_until
from tests.postgres import running_postgres
from tests.replica_set import running_replica_set
from tests.running_node import RunningNode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def agree(events: list[oracle.Event], written: list[Any], count: int) -> None:
    """Compare event by event: the same places in the log, the same keys, the same rows."""
    mine, other = defaultdict(list), defaultdict(list)
    for one in written:
        mine[table_of(one.topic)].append(told(one.key, one.value))
    for event in events:
        other[table_of(event["topic"])].append(told(event["key"], event["value"]))
    assert mine.keys() == other.keys()
    equal = 0
    for table in mine:  # topics are read side by side, so that there is an order in each only
        report = compare(table, list(filter(None, mine[table])), list(filter(None, other[table])))
        assert not report.differences, "\n".join(map(str, report.differences))
        equal += report.equal
    assert equal >= count


def table_of(topic: str) -> str:
    return topic.rsplit(".", 1)[1]


def told(key: Any, value: Any) -> Told | None:
    return read_told(json.dumps(key).encode(), json.dumps(value).encode())


async def test_postgresql_is_told_as_debezium_tells_it_at_the_same_time(
    node: RunningNode, name: str, tmp_path: Path
) -> None:
    """E8, E16: both agree on each change, down to its place in the write-ahead log."""
    source = name.replace("-", "_")
    with running_postgres() as server:
        server.script(changes.POSTGRES_TABLES)
        settings = {"name": source, "kind": "postgresql", "address": server.address, "skip": []}
        topics = [f"{source}.public.{one}" for one in ("types", "nopk", "toasted", "pairs")]
        async with following(settings, node.bootstrap):
            await read_until(node.bootstrap, [topics[0]], lambda found: len(found) >= 2)
            events = await asyncio.to_thread(oracle.record_postgres, server, tmp_path)
            written = await read_until(
                node.bootstrap, topics, lambda found: len(found) >= len(events)
            )
    agree(events, written, 24)


async def test_mongodb_is_told_as_debezium_tells_it_at_the_same_time(
    node: RunningNode, name: str, tmp_path: Path
) -> None:
    """E8, E16: both agree on each change, its time and its number."""
    source = name.replace("-", "_")
    with running_replica_set(tmp_path / "server") as server:
        changes.prepare_mongodb(server)
        settings = {
            "name": source,
            "kind": "mongodb",
            "address": server.address,
            "tables": {"include": [r"shop\..*"]},
            "images": "post_image",
            "before_images": True,
        }
        topics = [f"{source}.shop.items", f"{source}.shop.plain"]
        async with following(settings, node.bootstrap):
            await read_until(node.bootstrap, [topics[0]], lambda found: len(found) >= 2)
            events = await asyncio.to_thread(oracle.record_mongodb, server, tmp_path)
            written = await read_until(
                node.bootstrap, topics, lambda found: len(found) >= len(events)
            )
    agree(events, written, 18)

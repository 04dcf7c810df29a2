"""Debezium itself beside our sources, on the same database and at the same time."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from chordmq.cdc.compare import compare, read_told
from tests.cdc import changes, oracle
from tests.cdc.following import following, read_until
from tests.postgres import running_postgres
from tests.replica_set import running_replica_set
from tests.running_node import RunningNode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def agree(events: list[oracle.Event], written: list[Any], count: int) -> None:
    """Compare event by event: the same places in the log, the same keys, the same rows."""
    mine = [
        read_told(json.dumps(one.key).encode(), json.dumps(one.value).encode()) for one in written
    ]
    other = [
        read_told(json.dumps(one["key"]).encode(), json.dumps(one["value"]).encode())
        for one in events
    ]
    report = compare("all", [one for one in mine if one], [one for one in other if one])
    assert not report.differences, "\n".join(map(str, report.differences))
    assert report.equal >= count


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

"""Shared cursors over HTTP whose records only the disk has."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.cursors import cursor
from tests.cold_disk import Disk
from tests.fronts.cold import (
    PATIENCE_S,
    Looks,
    cold_broker,
    fetched_for_somebody_else,
    turns,
    waiting,
    written,
)

OLD = [str(number) for number in range(10)]

waits = pytest.mark.parametrize("wait_ms", [0, 50_000])


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with cold_broker(tmp_path, map(str.encode, OLD)) as broker:
        yield broker


async def take(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    async with asyncio.timeout(PATIENCE_S):
        return await http.post("/v1/topics/t/cursors/c/take", json={"consumer": "one"} | body)


def values(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [one["record"]["value"] for one in answer.json()["records"]]


@waits
async def test_others_are_served_while_a_consumer_waits_for_the_disk(
    http: httpx.AsyncClient, broker: Broker, disk: Disk, looks: Looks, wait_ms: int
) -> None:
    """A3: who does not want to wait is given what there is all the same, not nothing."""
    answer = asyncio.ensure_future(take(http, wait_ms=wait_ms))
    await waiting(broker)
    assert (await http.get("/healthz")).status_code == 200
    await written(broker, b"new")
    await written(broker, b"other", topic="u")
    assert await looks.in_many_turns() == 0
    assert not answer.done()
    disk.may_go_on.set()
    assert values(await answer) == [*OLD, "new"]
    assert values(await take(http)) == []
    assert not broker.partition("t", 0).readers


async def test_records_that_do_not_stay_in_memory_are_given_all_the_same(
    http: httpx.AsyncClient, disk: Disk
) -> None:
    """A3: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    found = [value for _ in range(5) for value in values(await take(http, max_records=2))]
    assert found == OLD


async def test_a_consumer_is_given_what_was_brought_for_somebody_else(
    http: httpx.AsyncClient, broker: Broker, disk: Disk
) -> None:
    """D8: the disk is asked once."""
    fetched_for_somebody_else(broker)
    answer = asyncio.ensure_future(take(http))
    await turns()
    disk.may_go_on.set()
    assert values(await answer) == OLD
    assert broker.shared.read_ahead.fetched == 1


async def test_a_disk_that_takes_too_long_is_not_waited_for_in_the_end(
    http: httpx.AsyncClient, broker: Broker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3: the next attempt finds what has come meanwhile."""
    monkeypatch.setattr(cursor, "DISK_WAIT_S", 0.05)
    assert values(await take(http)) == []
    assert not broker.partition("t", 0).readers
    disk.may_go_on.set()
    assert values(await take(http, wait_ms=50_000)) == OLD


@waits
async def test_a_topic_that_is_deleted_meanwhile_is_unknown(
    http: httpx.AsyncClient, broker: Broker, disk: Disk, no_complaints: None, wait_ms: int
) -> None:
    answer = asyncio.ensure_future(take(http, wait_ms=wait_ms))
    await waiting(broker)
    await broker.topics.delete("t")
    assert (await answer).status_code == 404
    disk.may_go_on.set()
    await turns()

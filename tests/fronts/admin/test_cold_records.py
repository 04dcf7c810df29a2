"""Records over HTTP that only the disk has."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.clock import SystemClock
from chordmq.fronts.admin import batches, records
from chordmq.fronts.admin.app import Admin, application
from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.connection import HttpFront
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.metrics import Metrics
from tests.cold_disk import Disk
from tests.fronts.admin.test_batches import values as values_of_batches
from tests.fronts.cold import (
    PATIENCE_S,
    Looks,
    cold_broker,
    fetched_for_somebody_else,
    listening,
    over,
    turns,
    waiting,
)

OLD = [str(number) for number in range(10)]
RECORDS = "/v1/topics/t/records?partition=0"
BATCHES = "/v1/topics/t/partitions/0/batches"
STREAM = "/v1/topics/t/stream"

both = pytest.mark.parametrize("path", [RECORDS, BATCHES], ids=["records", "batches"])
waits = pytest.mark.parametrize("wait_ms", [0, 50_000])


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with cold_broker(tmp_path, map(str.encode, OLD)) as broker:
        yield broker


@pytest.fixture
async def listener(shared: Shared) -> AsyncIterator[Listener]:
    """Serve the routes on a free port: without one, no answer can be read while it comes."""
    listener = Listener(ListenerSettings(port=0), SystemClock(), "http")
    app = application(Admin(metrics=Metrics(), waiting=list, info=dict, shared=shared))
    async with listening(listener, HttpFront(listener, app).connect):
        yield listener


@pytest.fixture
async def http(listener: Listener) -> AsyncIterator[httpx.AsyncClient]:
    url = f"http://127.0.0.1:{listener.port}"
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        yield client


async def published(http: httpx.AsyncClient, topic: str, value: str) -> int:
    answer = await http.post(f"/v1/topics/{topic}/records", json={"value": value})
    offset: int = answer.json()["records"][0]["offset"]
    return offset


def asked(http: httpx.AsyncClient, path: str, **query: Any) -> asyncio.Task[httpx.Response]:
    """Ask for something, and wait for the answer beside the test."""
    url = httpx.URL(path).copy_merge_params({key: str(value) for key, value in query.items()})
    return asyncio.ensure_future(http.get(url))


def values(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    if "json" in answer.headers["content-type"]:
        return [one["value"] for one in answer.json()["records"]]
    return [(value or b"").decode() for value in values_of_batches(answer.content)]


class Follower:
    """Reads an event stream beside the test."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for line in self.answer.aiter_lines():
            if line.startswith("data: "):
                self.events.put_nowait(json.loads(line.removeprefix("data: ")))

    async def take(self, count: int) -> list[Any]:
        async with asyncio.timeout(PATIENCE_S):
            return [(await self.events.get())["value"] for _ in range(count)]


@asynccontextmanager
async def following(http: httpx.AsyncClient) -> AsyncIterator[Follower]:
    async with http.stream("GET", STREAM) as answer:
        follower = Follower(answer)
        try:
            yield follower
        finally:
            follower.task.cancel()
            await asyncio.wait([follower.task])


@both
@waits
async def test_others_are_served_while_a_reader_waits_for_the_disk(
    http: httpx.AsyncClient, broker: Broker, disk: Disk, looks: Looks, path: str, wait_ms: int
) -> None:
    """C1, D12: who does not want to wait is told what there is all the same, not nothing."""
    answer = asked(http, path, wait_ms=wait_ms)
    await waiting(broker)
    assert (await http.get("/healthz")).status_code == 200
    assert await published(http, "t", "new") == 10
    assert await published(http, "u", "other") == 0
    assert await looks.in_many_turns() == 0
    assert not answer.done()
    disk.may_go_on.set()
    found = values(await answer)
    assert found == [*OLD, "new"]
    assert broker.shared.read_ahead.fetched == 1


async def test_a_reader_goes_on_where_an_answer_from_the_disk_has_ended(
    http: httpx.AsyncClient, disk: Disk
) -> None:
    """B5: page by page, where memory forgets each at once."""
    disk.forgets = True
    disk.may_go_on.set()
    found: list[str] = []
    position = "earliest"
    while len(found) < len(OLD):
        answer = await asked(http, RECORDS, max_records=3, position=position)
        found += values(answer)
        position = answer.json()["position"]
    assert found == OLD
    assert values(await asked(http, RECORDS, position=position)) == []


@both
@waits
async def test_records_that_do_not_stay_in_memory_are_given_all_the_same(
    http: httpx.AsyncClient, disk: Disk, path: str, wait_ms: int
) -> None:
    """D12: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    assert values(await asked(http, path, wait_ms=wait_ms)) == OLD


@both
async def test_a_disk_that_takes_too_long_is_read_in_the_end(
    http: httpx.AsyncClient, disk: Disk, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """D12: an answer without records would say that there are none."""
    monkeypatch.setattr(records, "FETCH_WAIT_S", 0.05)
    monkeypatch.setattr(batches, "DISK_WAIT_S", 0.05)
    assert values(await asked(http, path)) == OLD


@both
async def test_a_reader_is_answered_with_what_was_brought_for_somebody_else(
    http: httpx.AsyncClient, broker: Broker, disk: Disk, path: str
) -> None:
    """D12: the disk is asked once."""
    fetched_for_somebody_else(broker)
    answer = asked(http, path)
    await turns()
    assert await published(http, "u", "other") == 0
    assert not answer.done()
    disk.may_go_on.set()
    assert values(await answer) == OLD
    assert broker.shared.read_ahead.fetched == 1


@both
@waits
async def test_a_topic_that_is_deleted_meanwhile_is_unknown(
    http: httpx.AsyncClient,
    broker: Broker,
    disk: Disk,
    no_complaints: None,
    path: str,
    wait_ms: int,
) -> None:
    answer = asked(http, path, wait_ms=wait_ms)
    await waiting(broker)
    await broker.topics.delete("t")
    async with asyncio.timeout(PATIENCE_S):
        assert (await answer).status_code == 404
    disk.may_go_on.set()
    await turns()


@both
async def test_a_reader_may_leave_while_it_waits_for_the_disk(
    http: httpx.AsyncClient,
    listener: Listener,
    broker: Broker,
    disk: Disk,
    no_complaints: None,
    path: str,
) -> None:
    tasks = asyncio.all_tasks()
    answer = asked(http, path, wait_ms=50_000)
    await waiting(broker)
    answer.cancel()
    await asyncio.wait([answer])
    disk.may_go_on.set()
    await over(tasks)
    assert not listener.connections
    assert not broker.partition("t", 0).readers


async def test_others_are_served_while_a_stream_waits_for_the_disk(
    http: httpx.AsyncClient, broker: Broker, disk: Disk, looks: Looks
) -> None:
    """D8, C11: nobody else waits for it, and who does is not asked again and again."""
    async with following(http) as follower:
        await waiting(broker)
        assert (await http.get("/healthz")).status_code == 200
        assert await published(http, "t", "new") == 10
        assert await published(http, "u", "other") == 0
        assert await looks.in_many_turns() == 0
        assert follower.events.empty()
        disk.may_go_on.set()
        assert await follower.take(11) == [*OLD, "new"]
        await published(http, "t", "last")
        assert await follower.take(1) == ["last"]


async def test_a_stream_is_not_held_up_by_what_does_not_stay_in_memory(
    http: httpx.AsyncClient, disk: Disk
) -> None:
    """C11: where memory is short, waiting again and again would take for ever."""
    disk.forgets = True
    disk.may_go_on.set()
    async with following(http) as follower:
        assert await follower.take(10) == OLD


async def test_a_stream_ends_when_its_topic_is_deleted_meanwhile(
    http: httpx.AsyncClient, broker: Broker, disk: Disk, no_complaints: None
) -> None:
    """D8: with the reason."""
    async with following(http) as follower:
        await waiting(broker)
        await broker.topics.delete("t")
        async with asyncio.timeout(PATIENCE_S):
            assert (await follower.events.get())["error"] == "UnknownTopic"
            await follower.task
        disk.may_go_on.set()
        await turns()


async def test_a_follower_may_leave_while_it_waits_for_the_disk(
    http: httpx.AsyncClient,
    shared: Shared,
    broker: Broker,
    disk: Disk,
    no_complaints: None,
) -> None:
    """C11: its place is free again."""
    tasks = asyncio.all_tasks()
    async with following(http):
        await waiting(broker)
    await over(tasks)
    assert not shared.streams
    assert not broker.partition("t", 0).readers
    disk.may_go_on.set()
    await turns()

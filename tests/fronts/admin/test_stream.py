"""Server-sent events of a real node: resumed over a crash, bounded for slow readers."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.clock import SystemClock
from chordmq.fronts.admin.app import Admin, application
from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.connection import HttpFront
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.metrics import Metrics
from chordmq.records.record import NewRecord
from tests.conftest import StartNode
from tests.running_node import RunningNode

Event = dict[str, Any]


@asynccontextmanager
async def following(
    node: RunningNode, topic: str, *, last: str | None = None, **query: Any
) -> AsyncIterator[AsyncIterator[Event]]:
    """Follow a topic, after the event with the id `last`."""
    headers = {} if last is None else {"last-event-id": last}
    url = f"{node.http}/v1/topics/{topic}/stream"
    timeout = httpx.Timeout(60)
    async with (
        httpx.AsyncClient(timeout=timeout, verify=False) as client,
        client.stream("GET", url, params=query, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


async def events(answer: httpx.Response) -> AsyncIterator[Event]:
    event: Event = {}
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            event["data"] = json.loads(line.removeprefix("data: "))
        elif line and not line.startswith(("retry", ":")):
            field, _, value = line.partition(": ")
            event[field] = value
        elif event:
            yield event
            event = {}


async def create(node: RunningNode, topic: str, partitions: int = 1) -> None:
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        body = {"name": topic, "partitions": partitions}
        answer = await client.post(f"{node.http}/v1/topics", json=body)
        assert answer.status_code == 201


async def publish(node: RunningNode, topic: str, records: list[dict[str, Any]]) -> None:
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        answer = await client.post(f"{node.http}/v1/topics/{topic}/records", json=records)
        assert answer.status_code == 200, answer.text


async def test_each_event_is_a_record_and_new_ones_come_at_once(
    node: RunningNode, name: str
) -> None:
    """E2: pushed when it is committed."""
    await create(node, name)
    await publish(node, name, [{"key": "k", "value": "old"}])
    async with following(node, name) as stream:
        first = await anext(stream)
        assert (first["event"], first["id"]) == ("record", "0:1")
        assert (first["data"]["key"], first["data"]["value"]) == ("k", "old")
        for number in range(20):
            await publish(node, name, [{"value": str(number)}])
            assert (await anext(stream))["data"]["value"] == str(number)


async def test_an_event_is_one_line_whatever_the_json_looks_like(
    node: RunningNode, name: str
) -> None:
    await create(node, name)
    text = '{\r\n  "a": "line\\nbreak"\n}'
    await publish(node, name, [{"value": text}])
    async with following(node, name, encoding="json") as stream:
        assert (await anext(stream))["data"]["value"] == {"a": "line\nbreak"}


async def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(
    own_node: RunningNode, name: str
) -> None:
    """C17: also when the node was killed in between, and from any event on."""
    await create(own_node, name, partitions=3)
    for start in range(0, 300, 50):
        await publish(
            own_node,
            name,
            [{"value": str(n), "partition": n % 3} for n in range(start, start + 50)],
        )
    seen: list[tuple[int, int]] = []
    values: list[int] = []
    last = None

    async def follow(count: int) -> None:
        nonlocal last
        async with following(own_node, name, last=last) as stream:
            for _ in range(count):
                event = await anext(stream)
                last = event["id"]
                seen.append((event["data"]["partition"], event["data"]["offset"]))
                values.append(int(event["data"]["value"]))

    await follow(77)
    own_node.kill9()
    own_node.start()
    await follow(101)
    await follow(122)
    assert len(set(seen)) == len(seen) == 300
    assert sorted(values) == list(range(300))
    assert last == "0:100,1:100,2:100"


async def test_a_stream_ends_when_the_node_stops(own_node: RunningNode, name: str) -> None:
    """C13: a stream does not hold up a node that stops."""
    await create(own_node, name)
    async with following(own_node, name) as stream:
        stopping = asyncio.get_running_loop().run_in_executor(None, own_node.stop)
        with contextlib.suppress(httpx.RemoteProtocolError):
            assert [event["event"] async for event in stream] == ["error"]
        assert await stopping == 0
    assert "Traceback" not in own_node.log.read_text()


async def test_offsets_that_were_deleted_are_told_as_a_gap(node: RunningNode, name: str) -> None:
    await create(node, name)
    await publish(node, name, [{"value": str(n)} for n in range(5)])
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        url = f"{node.http}/v1/topics/{name}/records"
        await client.delete(url, params={"partition": 0, "before": 3})
    async with following(node, name, last="0:1") as stream:
        gap, first = await anext(stream), await anext(stream)
    assert (gap["event"], gap["data"]) == ("gap", {"partition": 0, "wanted": 1, "next": 3})
    assert (gap["id"], first["data"]["offset"]) == ("0:3", 3)


async def test_a_slow_reader_costs_little_memory_and_nobody_waits_for_it(
    own_node: RunningNode, name: str
) -> None:
    """C11: 64 MiB lie in the log for readers who do not read; the node holds almost none of it."""
    await create(own_node, name)
    value = "x" * 500_000
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        url = f"{own_node.http}/v1/topics/{name}/records"
        for _ in range(128):
            answer = await client.post(url, json={"value": value})
            assert answer.status_code == 200
    before = own_node.resident_bytes()
    lazy = [socket.create_connection(own_node.http_address) for _ in range(10)]
    for one in lazy:
        one.sendall(f"GET /v1/topics/{name}/stream HTTP/1.1\r\nHost: n\r\n\r\n".encode())
        assert one.recv(1) == b"H"
    async with following(own_node, name, position="latest") as stream:
        await publish(own_node, name, [{"value": "quick"}])
        assert (await anext(stream))["data"]["value"] == "quick"
    async with following(own_node, name) as stream:
        for number in range(129):
            assert (await anext(stream))["data"]["offset"] == number
    assert own_node.resident_bytes() - before < 40 * 1024 * 1024
    for one in lazy:
        one.close()


async def test_a_client_has_only_so_many_streams(start_node: StartNode, name: str) -> None:
    """C11: and a stream that ends makes room."""
    node = start_node({"http.streams_per_client_max": "2"})
    await create(node, name)
    url = f"{node.http}/v1/topics/{name}/stream"
    async with following(node, name), httpx.AsyncClient(verify=False, timeout=60) as client:
        async with following(node, name):
            answer = await client.get(url)
            assert (answer.status_code, answer.json()["error"]) == (429, "TooManyRequests")
        while True:
            async with client.stream("GET", url) as answer:
                if answer.status_code == 200:
                    break
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        assert (await client.get(url, headers={"last-event-id": "?"})).status_code == 400


@pytest.mark.parametrize("path", ["stream", "records?max_bytes=16000000"])
async def test_a_client_that_reads_nothing_at_all_is_let_go(
    broker: Broker, shared: Shared, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """C11: it does not hold its place, nor its answer, for ever."""
    monkeypatch.setattr("chordmq.fronts.admin.sending.STALL_S", 0.2)
    await broker.topics.create("orders", 1)
    for _ in range(40):
        await broker.append_records("orders", 0, [NewRecord(1, None, b"x" * 500_000)])
    listener = Listener(ListenerSettings(port=0), SystemClock(), "http")
    app = application(Admin(metrics=Metrics(), waiting=list, info=dict, shared=shared))
    await listener.open(HttpFront(listener, app).connect)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(listener.run())
        with socket.create_connection(("127.0.0.1", listener.port)) as lazy:
            lazy.sendall(f"GET /v1/topics/orders/{path} HTTP/1.1\r\nHost: n\r\n\r\n".encode())
            while not (shared.streams or shared.held):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while shared.streams or shared.held or listener.connections:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await listener.close(timeout_s=0)

"""A whole node in the test's own event loop: its start and stop, and what HTTP shows of it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from chordmq.clock import SystemClock
from chordmq.config import Config
from chordmq.errors import CannotStart
from chordmq.fronts.admin.settings import HttpSettings
from chordmq.fronts.amqp.settings import AmqpSettings
from chordmq.fronts.framed.settings import FramedSettings
from chordmq.fronts.listener import ListenerSettings
from chordmq.fronts.mqtt.settings import MqttSettings
from chordmq.fronts.provider.settings import ProviderSettings
from chordmq.fronts.rpc.settings import CapnpSettings, GrpcSettings
from chordmq.node import Node, running
from chordmq.records.record import NewRecord
from tests.running_node import free_port


def config(directory: Path, *, http_port: int = 0, kafka_port: int = 0) -> Config:
    return Config(
        data_dir=directory,
        kafka=ListenerSettings(port=kafka_port),
        http=HttpSettings(port=http_port),
        framed=FramedSettings(port=0),
        provider=ProviderSettings(port=0),
        mqtt=MqttSettings(port=0),
        amqp=AmqpSettings(port=0),
        capnp=CapnpSettings(port=0),
        grpc=GrpcSettings(port=0),
    )


@asynccontextmanager
async def http(port: int) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60
    ) as client:
        yield client


async def is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_a_node_is_ready_only_after_its_logs_are_recovered(tmp_path: Path) -> None:
    """B6: until then HTTP says what it waits for, and the Kafka port is closed."""
    async with running(config(tmp_path), SystemClock()):
        pass
    settings = config(tmp_path, http_port=free_port(), kafka_port=free_port())
    with closing(sqlite3.connect(tmp_path / "meta.db", isolation_level=None)) as blocker:
        blocker.execute("PRAGMA locking_mode=EXCLUSIVE")
        blocker.execute("BEGIN EXCLUSIVE")
        stop = asyncio.Event()

        async def serve() -> None:
            async with running(settings, SystemClock()):
                await stop.wait()

        async with asyncio.TaskGroup() as tasks, http(settings.http.port) as client:
            tasks.create_task(serve())
            answer = await first_answer(client)
            assert answer.status_code == 503
            assert answer.json()["reasons"] == ["the logs are being recovered"]
            assert not await is_open(settings.kafka.port)
            assert (await client.get("/healthz")).status_code == 200
            assert "cluster_id" not in (await client.get("/v1/info")).json()
            blocker.execute("ROLLBACK")
            blocker.close()
            while (await client.get("/ready")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            assert await is_open(settings.kafka.port)
            stop.set()


async def first_answer(client: httpx.AsyncClient) -> httpx.Response:
    """Ask until the HTTP port is open and the broker is being opened."""
    while True:
        try:
            answer = await client.get("/ready")
        except httpx.ConnectError:
            await asyncio.sleep(0.005)
            continue
        if answer.json().get("reasons") != ["the node is starting"]:
            return answer


async def test_http_shows_a_running_node(tmp_path: Path) -> None:
    """B6, C15: who it is, and numbers that move with the work."""
    async with running(config(tmp_path), SystemClock()) as node, http(node.http.port) as client:
        await node.broker.topics.create("orders", 3, 1, {})
        records = [NewRecord(1, b"k", b"v"), NewRecord(2, b"k", b"w")]
        await node.broker.append_records("orders", 1, records)
        assert (await client.get("/ready")).status_code == 200
        about = (await client.get("/v1/info")).json()
        assert about["cluster_id"] == node.broker.cluster_id
        assert about["kafka"] == f"127.0.0.1:{node.kafka.port}"
        text = (await client.get("/metrics")).text
        assert 'chordmq_records_in_total{topic="orders"} 2.0\n' in text
        assert 'chordmq_partitions{topic="orders"} 3.0\n' in text
        assert 'chordmq_connections{listener="http"} 1.0\n' in text
        assert "chordmq_disk_free_bytes" in text
        assert "chordmq_writes_refused 0.0\n" in text
        assert "chordmq_loop_lag_seconds_count" in text


async def test_a_node_that_stops_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    """C13: a clean stop closes everything; the next start finds it all."""
    async with running(config(tmp_path), SystemClock()) as node:
        await node.broker.topics.create("orders", 1, 1, {})
        await node.broker.append_records("orders", 0, [NewRecord(1, b"k", b"v")])
        cluster = node.broker.cluster_id
    assert node.waiting() == ["the node is shutting down"]
    assert not await is_open(node.kafka.port)
    assert not await is_open(node.http.port)
    async with running(config(tmp_path), SystemClock()) as again:
        assert again.broker.cluster_id == cluster
        assert again.broker.partition("orders", 0).high_watermark == 1


async def test_two_nodes_never_share_a_data_directory(tmp_path: Path) -> None:
    async with running(config(tmp_path), SystemClock()):
        with pytest.raises(CannotStart, match=r"Another node .* uses the data directory"):
            async with running(config(tmp_path), SystemClock()):
                pass
    async with running(config(tmp_path), SystemClock()):
        pass


@pytest.mark.parametrize("taken", ["kafka", "http"])
async def test_a_port_in_use_is_named_with_its_setting(tmp_path: Path, taken: str) -> None:
    other = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    settings = config(tmp_path, **{f"{taken}_port": port})
    with pytest.raises(CannotStart, match=rf"Port {port} on 127.0.0.1 is in use.*{taken}\.port"):
        async with running(settings, SystemClock()):
            pass
    other.close()
    async with running(settings, SystemClock()):
        pass


async def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    settings = Config(data_dir=tmp_path, http=HttpSettings(host="192.0.2.1", port=0))
    with pytest.raises(CannotStart, match=r"'192\.0\.2\.1' is not an address .* http\.host"):
        async with running(settings, SystemClock()):
            pass


async def test_a_fault_in_the_background_ends_the_node(tmp_path: Path) -> None:
    """A node that has lost a part of itself does not go on as if nothing were."""
    reached: list[Node] = []

    async def serve() -> None:
        async with running(config(tmp_path), SystemClock()) as node:
            reached.append(node)
            node.kafka.tasks.create_task(fail())
            await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="lost"):
        await serve()
    assert not await is_open(reached[0].http.port)
    async with running(config(tmp_path), SystemClock()):
        pass


async def fail() -> None:
    raise RuntimeError("lost")

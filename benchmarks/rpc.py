"""Loads the Cap'n Proto and gRPC fronts: batches streamed in, pushed out, and latency."""

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

import capnp
import grpc
import grpc.aio

from benchmarks.peers import FRONTS, ROOT
from benchmarks.session import Sample, Session
from chordmq.codecs.grpc.messages import message

MESSAGES = 300_000
BATCH = 500
VALUE = b"x" * 100
ROUND_TRIPS = 500
TIMEOUT_S = 120.0


class Capnp:
    """Cap'n Proto's own client library, with batches built once."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        imports = [str(Path(capnp.__file__).parent.parent)]
        self._schema = capnp.load(str(ROOT / "schema" / "chordmq.capnp"), imports=imports)

    async def __aenter__(self) -> "Capnp":
        self._stream = await capnp.AsyncIoStream.create_connection(*self._address)
        self._client = capnp.TwoPartyClient(self._stream)
        door = self._client.bootstrap().cast_as(self._schema.Door)
        self._node = (await door.login({"none": None}, "benchmark")).node
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stream.close()

    async def stream(self, topic: str) -> None:
        producer = (await self._node.produce(topic)).producer
        batch = producer.push_request()
        rows = batch.init("messages", BATCH)
        for row in rows:
            row.value = VALUE
        for _ in range(MESSAGES // BATCH):
            request = producer.push_request()
            request.messages = batch.messages
            await request.send()
        assert (await producer.flush()).stored == MESSAGES

    async def take(self, topic: str) -> None:
        full = asyncio.Event()

        class Sink(self._schema.Sink.Server):  # type: ignore[misc, name-defined]
            count = 0

            async def deliver(self, batch: Any, **_: Any) -> None:
                self.count += len(batch.deliveries)
                if self.count >= MESSAGES:
                    full.set()

        answer = await self._node.subscribe({"topic": topic}, Sink())
        await full.wait()
        await answer.subscription.close()

    async def publish(self, topic: str) -> None:
        await self._node.publish(topic, [{"value": VALUE}])


class Grpc:
    """gRPC's own client library, with batches built once."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._request = message("PublishRequest")
        self._wanted = message("SubscribeRequest")
        self._answer = message("SubscribeResponse")

    async def __aenter__(self) -> "Grpc":
        host, port = self._address
        self._channel = grpc.aio.insecure_channel(
            f"{host}:{port}", [("grpc.max_receive_message_length", -1)]
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    def _batch(self, topic: str, count: int) -> bytes:
        rows = [{"value": VALUE}] * count
        data: bytes = self._request(topic=topic, messages=rows).SerializeToString()
        return data

    async def stream(self, topic: str) -> None:
        call = self._channel.stream_stream("/chordmq.v1.ChordMQ/PublishStream")()
        batch = self._batch(topic, BATCH)

        async def send() -> None:
            for _ in range(MESSAGES // BATCH):
                await call.write(batch)
            await call.done_writing()

        async def hear() -> None:
            while await call.read() is not grpc.aio.EOF:
                pass

        await asyncio.gather(send(), hear())

    async def take(self, topic: str) -> None:
        call = self._channel.stream_stream(
            "/chordmq.v1.ChordMQ/Subscribe", None, self._answer.FromString
        )()
        await call.write(self._wanted(wanted={"topic": topic}).SerializeToString())
        count = 0
        while count < MESSAGES:
            count += len((await call.read()).batch.deliveries)
        call.cancel()

    async def publish(self, topic: str) -> None:
        publish = self._channel.unary_unary("/chordmq.v1.ChordMQ/Publish")
        await publish(self._batch(topic, 1))


def capnp_front(session: Session) -> list[Sample]:
    """Measure Cap'n Proto; what its process uses is not in the node's processor time."""
    if not session.ours:
        return []

    async def measured() -> list[Sample]:
        async with capnp.kj_loop(), Capnp(_address(session, "capnp")) as client:
            return await _measure(session, "capnp", client)

    return asyncio.run(measured())


def grpc_front(session: Session) -> list[Sample]:
    """Measure gRPC."""
    if not session.ours:
        return []

    async def measured() -> list[Sample]:
        async with Grpc(_address(session, "grpc")) as client:
            return await _measure(session, "grpc", client)

    return asyncio.run(measured())


def _address(session: Session, front: str) -> tuple[str, int]:
    ports = (Path(session.peer.directory) / "ports").read_text().split()
    return "127.0.0.1", int(ports[FRONTS.index(front)])


async def _measure(session: Session, name: str, client: Capnp | Grpc) -> list[Sample]:
    topic = await asyncio.to_thread(session.topic)
    samples = []
    for way, load in (("in", client.stream), ("out", client.take)):
        with session.metered() as meter:
            began = time.perf_counter()
            await asyncio.wait_for(load(topic), TIMEOUT_S)
            took_s = time.perf_counter() - began
        cost = (meter.cpu_s, meter.rss_mb, f"python -m benchmarks --case {name}")
        samples.append(Sample(f"{name}_{way}_100b", MESSAGES / took_s, "msg/s", *cost))
    found_ms = []
    with session.metered() as meter:
        for _ in range(ROUND_TRIPS):
            began = time.perf_counter()
            await client.publish(topic)
            found_ms.append((time.perf_counter() - began) * 1000)
    cost = (meter.cpu_s, meter.rss_mb, f"python -m benchmarks --case {name}")
    p50 = statistics.median(found_ms)
    return [*samples, Sample(f"{name}_publish.p50", p50, "ms", *cost)]

"""One connection: versions, pipelining, time-outs, and peers that misbehave."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from chordmq.client.connection import Address, Connection, ConnectionSettings, connect
from chordmq.client.errors import (
    BrokerRefused,
    CannotConnect,
    Closed,
    ConnectionLost,
    ProtocolMismatch,
    RequestTimedOut,
)
from chordmq.codecs.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from chordmq.codecs.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from chordmq.codecs.kafka.messages.produce import ProduceRequest
from chordmq.codecs.kafka.schema import encode
from tests.client.scripted_broker import (
    HangUp,
    ScriptedBroker,
    Silence,
    scripted_broker,
    serving,
)
from tests.running_node import RunningNode, free_port

IMPATIENT = ConnectionSettings(connect_timeout_s=0.3, request_timeout_s=0.3)


async def open_to(broker: ScriptedBroker, settings: ConnectionSettings | None = None) -> Connection:
    return await connect(Address("127.0.0.1", broker.port), settings or ConnectionSettings())


def raising(error: Exception) -> Callable[[ScriptedBroker, Any], Any]:
    def answer(broker: ScriptedBroker, request: Any) -> Any:
        raise error

    return answer


def wants(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


async def test_requests_are_pipelined_and_each_gets_its_own_answer(node: RunningNode) -> None:
    connection = await connect(Address(*node.address), ConnectionSettings())
    futures = [connection.send(wants(f"none-{n}"), MetadataResponse) for n in range(50)]
    answers = await asyncio.gather(*futures)
    assert [row.topics[0].name for row in answers] == [f"none-{n}" for n in range(50)]
    connection.close()


async def test_nobody_at_the_address_is_told_at_once() -> None:
    with pytest.raises(CannotConnect, match="refused"):
        await connect(Address("127.0.0.1", free_port()), ConnectionSettings())


async def test_a_peer_that_accepts_but_does_not_answer_is_given_up() -> None:
    async with scripted_broker() as broker:
        broker.answers["ApiVersions"] = raising(Silence())
        with pytest.raises(CannotConnect, match="does not speak Kafka"):
            await open_to(broker, IMPATIENT)


async def test_a_web_server_is_recognised_by_its_first_bytes() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with serving(serve) as port:
        with pytest.raises(CannotConnect, match="does not speak Kafka"):
            await connect(Address("127.0.0.1", port), ConnectionSettings())


async def test_an_old_broker_is_asked_again_in_a_version_it_knows() -> None:
    """C12: versions are negotiated down (KIP-511: the refusal comes in version 0)."""
    asked = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            key, version, number = struct.unpack(">hhi", (await reader.readexactly(size))[:8])
            asked.append((key, version))
            known = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 2)])
            known.error_code = 35 if version > 2 else 0
            body = struct.pack(">i", number) + encode(known, 0 if version > 2 else version)
            writer.write(struct.pack(">i", len(body)) + body)

    async with serving(serve) as port:
        connection = await connect(Address("127.0.0.1", port), ConnectionSettings())
        assert asked == [(18, 4), (18, 2)]
        with pytest.raises(ProtocolMismatch, match="does not know ProduceRequest"):
            connection.version_for(ProduceRequest)
        connection.close()


async def test_a_broker_without_a_common_version_is_refused_by_name() -> None:
    async with scripted_broker() as broker:
        broker.answers["ApiVersions"] = lambda broker, request: ApiVersionsResponse(
            api_keys=[ApiVersion(0, 90, 99)]
        )
        connection = await open_to(broker)
        with pytest.raises(ProtocolMismatch, match="speaks ProduceRequest 90-99"):
            connection.version_for(ProduceRequest)
        connection.close()


async def test_all_waiting_requests_fail_when_the_connection_breaks() -> None:
    async with scripted_broker() as broker:
        broker.answers["Metadata"] = raising(HangUp())
        connection = await open_to(broker)
        futures = [connection.send(wants("t"), MetadataResponse) for _ in range(3)]
        for future in futures:
            with pytest.raises(ConnectionLost):
                await future
        assert not connection.is_open
        with pytest.raises(ConnectionLost):
            connection.send(wants("t"), MetadataResponse)


async def test_a_request_without_an_answer_times_out_and_closes_the_connection() -> None:
    async with scripted_broker() as broker:
        broker.answers["Metadata"] = raising(Silence())
        connection = await open_to(broker, ConnectionSettings(request_timeout_s=2.0))
        with pytest.raises(RequestTimedOut, match="did not answer MetadataRequest"):
            await connection.call(wants("t"), MetadataResponse)
        assert not connection.is_open


async def test_an_answer_that_cannot_be_read_closes_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        number = (await reader.readexactly(size))[4:8]
        writer.write(struct.pack(">i", 8) + number + b"\0\0\x7f\xff")
        await reader.read()

    async with serving(serve) as port:
        with pytest.raises(CannotConnect, match="cannot read the answer"):
            await connect(Address("127.0.0.1", port), ConnectionSettings())


async def test_closing_fails_what_is_under_way() -> None:
    async with scripted_broker() as broker:
        broker.answers["Metadata"] = raising(Silence())
        connection = await open_to(broker)
        future = connection.send(wants("t"), MetadataResponse)
        connection.close()
        with pytest.raises(Closed):
            await future


async def test_a_refusal_to_name_versions_is_told() -> None:
    async with scripted_broker() as broker:
        broker.answers["ApiVersions"] = lambda broker, request: ApiVersionsResponse(error_code=29)
        with pytest.raises((BrokerRefused, CannotConnect)):
            await open_to(broker)

"""A broker of a few lines that answers as a test tells it, with faults on demand."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from chordmq.codecs.kafka.apis import APIS
from chordmq.codecs.kafka.header import read_request_header, response_head
from chordmq.codecs.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from chordmq.codecs.kafka.messages.init_producer_id import InitProducerIdResponse
from chordmq.codecs.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.records.batch import BatchHeader, read_header


class HangUp(Exception):
    """Raised by an answer to close the connection without a word."""


class Silence(Exception):
    """Raised by an answer to say nothing at all."""


Answer = Callable[["ScriptedBroker", Any], Any]


@dataclass
class ScriptedBroker:
    """Leads every partition; `answers` by request name override what it says."""

    port: int = 0
    partitions: int = 1
    answers: dict[str, Answer] = field(default_factory=dict)
    batches: list[BatchHeader] = field(default_factory=list)
    """The header of each batch that came in, in the order of arrival."""
    producer_ids: int = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, request: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        answer = self.answers.get(name) or DEFAULTS.get(name, _unknown)
        return answer(self, request)


def _unknown(broker: ScriptedBroker, request: Any) -> Any:
    raise AssertionError(f"the script has no answer to {type(request).__name__}")


def _versions(broker: ScriptedBroker, request: Any) -> ApiVersionsResponse:
    rows = [ApiVersion(key, api.versions[0], api.versions[-1]) for key, api in APIS.items()]
    return ApiVersionsResponse(api_keys=rows)


def _metadata(broker: ScriptedBroker, request: MetadataRequest) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=1)
        for index in range(broker.partitions)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
        controller_id=1,
        topics=[
            MetadataResponseTopic(name=topic.name, partitions=partitions)
            for topic in request.topics or []
        ],
    )


def _producer_id(broker: ScriptedBroker, request: Any) -> InitProducerIdResponse:
    broker.producer_ids += 1
    return InitProducerIdResponse(producer_id=broker.producer_ids, producer_epoch=0)


def answer_produce(
    broker: ScriptedBroker, request: ProduceRequest, code: int = 0, offset: int = 0
) -> ProduceResponse:
    """Note the batches and answer all of them alike."""
    responses = []
    for topic in request.topic_data:
        rows = []
        for row in topic.partition_data:
            assert row.records is not None
            broker.batches.append(read_header(row.records))
            rows.append(PartitionProduceResponse(row.index, code, -1 if code else offset))
        responses.append(TopicProduceResponse(name=topic.name, partition_responses=rows))
    return ProduceResponse(responses=responses)


DEFAULTS: dict[str, Answer] = {
    "ApiVersions": _versions,
    "Metadata": _metadata,
    "InitProducerId": _producer_id,
    "Produce": answer_produce,
}


def read_request(frame: bytes) -> tuple[Any, Any]:
    """Return the header and the message of a request."""
    header = read_request_header(frame)
    api = APIS[header.api_key]
    module = import_module(f"chordmq.codecs.kafka.messages.{api.module}")
    cls = getattr(module, f"{api.name}Request")
    return header, decode(cls, header.api_version, memoryview(frame), header.body)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """Listen on a free port, and cut every connection at the end."""
    writers: set[asyncio.StreamWriter] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
            writer.transport.abort()
        await server.wait_closed()


@asynccontextmanager
async def scripted_broker(partitions: int = 1) -> AsyncIterator[ScriptedBroker]:
    """Give a broker that listens on a free port."""
    broker = ScriptedBroker(partitions=partitions)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            header, request = read_request(await reader.readexactly(size))
            try:
                answer = broker.answer(request)
            except HangUp:
                return
            except Silence:
                continue
            body = response_head(header.correlation_id, header.api_key, header.api_version)
            body += encode(answer, header.api_version)
            writer.write(struct.pack(">i", len(body)) + body)

    async with serving(serve) as port:
        broker.port = port
        yield broker

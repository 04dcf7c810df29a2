"""Times the Kafka codec and the record batches beside kio, kafka-python and aiokafka."""

import importlib
import io
import timeit
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from rich.console import Console
from rich.table import Table

from chordmq.codecs.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from chordmq.codecs.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chordmq.codecs.kafka.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from chordmq.codecs.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch, read_records

ROUNDS = 3
ROUND_S = 0.02
RECORDS = 100

THEIR_MODULES = {"Metadata": "metadata", "Fetch": "consumer", "Produce": "producer"}


@dataclass(frozen=True, slots=True)
class Sample:
    """A message to time."""

    name: str
    message: Any
    version: int


def samples() -> list[Sample]:
    """Return the messages that a busy broker sees most."""
    return [
        Sample("Metadata response, 1 topic x 1", _metadata(1, 1), 12),
        Sample("Metadata response, 10 topics x 12", _metadata(10, 12), 12),
        Sample("Metadata response, 100 topics x 12", _metadata(100, 12), 12),
        Sample("Produce request, 16 KB", _produce(16_000), 9),
        Sample("Produce request, 1 MB", _produce(1_000_000), 9),
        Sample("Fetch request, 10 partitions", _fetch_request(10), 12),
        Sample("Fetch response, 1 empty partition", _fetch_response(1), 12),
        Sample("Fetch response, 50 empty partitions", _fetch_response(50), 12),
        Sample("Heartbeat request", HeartbeatRequest("group", 5, "member-0123456789"), 4),
        Sample("Heartbeat response", HeartbeatResponse(), 4),
        Sample("OffsetCommit request, 10 partitions", _offset_commit(10), 8),
    ]


def _metadata(topics: int, partitions: int) -> MetadataResponse:
    rows = [
        MetadataResponsePartition(partition_index=i, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for i in range(partitions)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        controller_id=1,
        topics=[
            MetadataResponseTopic(name=f"topic-{i}", topic_id=bytes([1] * 16), partitions=rows)
            for i in range(topics)
        ],
    )


def _produce(size: int) -> ProduceRequest:
    data = [TopicProduceData("topic", partition_data=[PartitionProduceData(0, bytes(size))])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)


def _fetch_request(partitions: int) -> FetchRequest:
    rows = [FetchPartition(i, partition_max_bytes=1 << 20) for i in range(partitions)]
    return FetchRequest(max_wait_ms=500, topics=[FetchTopic("topic", partitions=rows)])


def _fetch_response(partitions: int) -> FetchResponse:
    rows = [PartitionData(i, records=b"") for i in range(partitions)]
    return FetchResponse(responses=[FetchableTopicResponse("topic", partitions=rows)])


def _offset_commit(partitions: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(i, 1000 + i) for i in range(partitions)]
    topics = [OffsetCommitRequestTopic("topic", partitions=rows)]
    return OffsetCommitRequest("group", 5, "member-0123456789", topics=topics)


def microseconds(call: Callable[[], object]) -> float:
    """Return how long one call takes, the best of a few rounds."""
    timer = timeit.Timer(call)
    count = 1
    while timer.timeit(count) < ROUND_S:
        count *= 4
    return min(timer.repeat(ROUNDS, count)) / count * 1e6


def _kio(sample: Sample, wire: bytes) -> tuple[float, float]:
    is_request = type(sample.message).__name__.endswith("Request")
    load = load_request_schema if is_request else load_response_schema
    schema = load(sample.message.api_key, sample.version)
    read, write = entity_reader(schema), entity_writer(schema)
    entity, _ = read(wire, 0)
    return microseconds(lambda: write(io.BytesIO(), entity)), microseconds(lambda: read(wire, 0))


def _kafka_python(sample: Sample, wire: bytes) -> tuple[float, float]:
    name = type(sample.message).__name__
    package = THEIR_MODULES.get(name.removesuffix("Request").removesuffix("Response"), "consumer")
    cls = getattr(importlib.import_module(f"kafka.protocol.{package}"), name)
    message = cls.decode(wire, version=sample.version)
    message.with_header()
    return (
        microseconds(message.encode),
        microseconds(lambda: cls.decode(wire, version=sample.version)),
    )


def time_messages() -> Table:
    """Return the times of encoding and decoding each message."""
    table = Table(
        "message", "bytes", "ours enc", "dec", "kio enc", "dec", "kafka-python enc", "dec"
    )
    for sample in samples():
        message, version, cls = sample.message, sample.version, type(sample.message)
        wire = bytes(encode(message, version))
        view = memoryview(wire)
        times = [
            microseconds(partial(encode, message, version)),
            microseconds(partial(decode, cls, version, view)),
            *_kio(sample, wire),
            *_kafka_python(sample, wire),
        ]
        table.add_row(sample.name, str(len(wire)), *(f"{time:.1f}" for time in times))
    return table


def time_records() -> Table:
    """Return the times of building and reading one record in a batch of many."""
    table = Table(
        "per record of 100 B", "ours build", "read", "kafka-python", "read", "aiokafka", "read"
    )
    records = [NewRecord(1_700_000_000_000 + i, b"key-%d" % i, bytes(100)) for i in range(RECORDS)]
    for kind in Compression:
        batch = bytes(build_batch(records, compression=kind))
        times = [
            microseconds(partial(build_batch, records, compression=kind)),
            microseconds(partial(read_records, batch)),
        ]
        for library in (kafka_python_records, aiokafka_records):
            times += [
                microseconds(partial(_their_batch, library, records, kind)),
                microseconds(partial(_their_records, library, batch)),
            ]
        table.add_row(kind.name.lower(), *(f"{time / RECORDS:.2f}" for time in times))
    return table


def _their_batch(library: Any, records: list[NewRecord], kind: Compression) -> bytes:
    builder = library.DefaultRecordBatchBuilder(
        magic=2, compression_type=int(kind), is_transactional=0, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, batch_size=10_000_000,
    )  # fmt: skip
    for i, record in enumerate(records):
        builder.append(i, record.timestamp, record.key, record.value, [])
    return bytes(builder.build())


def _their_records(library: Any, batch: bytes) -> list[Any]:
    return list(library.DefaultRecordBatch(batch))


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way to read its schemas
    console = Console(width=130)
    console.print("Microseconds, the best of a few rounds.")
    console.print(time_messages())
    console.print(time_records())

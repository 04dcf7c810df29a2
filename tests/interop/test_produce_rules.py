"""What a broker takes from producers and what it refuses, batch by batch."""

import struct
import time
import uuid
from collections.abc import Callable

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from tests.interop.conftest import CreateTopic
from tests.interop.test_behaviours import find_coordinator
from tests.wire import (
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    PRODUCE,
    Wire,
    produce_fields,
    record_batch,
    stored,
)

ZSTD = 4
CONTROL = 0x20
HOUR_MS = 3_600_000
BAD_FORMAT = {
    ErrorCode.corrupt_message,
    ErrorCode.invalid_record,
    ErrorCode.unsupported_for_message_format,
}


def with_field(batch: bytes, form: str, position: int, value: int) -> bytes:
    """Return the batch with one header field changed and its checksum renewed."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_stores_the_batch(
    wire: Wire, create_topic: CreateTopic, version: int
) -> None:
    """C1: from the first version with this batch format to the last by topic name."""
    topic = create_topic()
    answer = wire.call(PRODUCE, version, **produce_fields(topic, record_batch([b"a", b"b"])))
    row = answer.responses[0].partition_responses[0]
    assert (row.error_code, row.base_offset) == (ErrorCode.none, 0)
    assert stored(wire.fetch(topic, 0).records) == [(0, b"a"), (1, b"b")]


def test_the_newest_version_names_topics_by_id(wire: Wire, create_topic: CreateTopic) -> None:
    """C1: an id that no topic has is UNKNOWN_TOPIC_ID."""
    topic = create_topic()

    def produce(topic_id: uuid.UUID) -> tuple[ErrorCode, int]:
        partitions = [{"index": 0, "records": record_batch([b"v"])}]
        topics = [{"topic_id": topic_id, "partition_data": partitions}]
        answer = wire.call(PRODUCE, 13, acks=-1, timeout=10_000, topic_data=topics)
        assert answer.responses[0].topic_id == topic_id
        row = answer.responses[0].partition_responses[0]
        return row.error_code, row.base_offset

    assert produce(wire.topic_id(topic)) == (ErrorCode.none, 0)
    assert produce(uuid.uuid4()) == (ErrorCode.unknown_topic_id, -1)


def test_one_request_may_have_good_and_bad_partitions(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C12: each partition has its own answer."""
    topic = create_topic(partitions=2)
    partitions = [
        {"index": 0, "records": record_batch([b"v"])},
        {"index": 7, "records": record_batch([b"v"])},
        {"index": 1, "records": record_batch([b"v"])[:-3]},
    ]
    topics = [{"name": topic, "partition_data": partitions}]
    answer = wire.call(PRODUCE, 9, acks=-1, timeout=10_000, topic_data=topics)
    rows = {row.index: row for row in answer.responses[0].partition_responses}
    assert (rows[0].error_code, rows[0].base_offset) == (ErrorCode.none, 0)
    assert rows[7].error_code is ErrorCode.unknown_topic_or_partition
    assert rows[1].error_code in {ErrorCode.corrupt_message, ErrorCode.invalid_record}


@pytest.mark.parametrize(
    ("spoil", "errors"),
    [
        pytest.param(lambda batch: with_field(batch, ">b", 16, 1), BAD_FORMAT, id="old format"),
        pytest.param(lambda batch: with_field(batch, ">b", 16, 3), BAD_FORMAT, id="new format"),
        pytest.param(
            lambda batch: with_field(batch, ">i", 57, 5), {ErrorCode.invalid_record}, id="count"
        ),
        pytest.param(
            lambda batch: with_field(batch, ">i", 23, 9), {ErrorCode.invalid_record}, id="offsets"
        ),
        pytest.param(
            lambda batch: with_field(batch, ">h", 21, CONTROL),
            {ErrorCode.invalid_record},
            id="control",
        ),
        pytest.param(
            lambda batch: batch + batch, {ErrorCode.invalid_record}, id="two batches at once"
        ),
        pytest.param(
            lambda batch: with_field(batch, ">i", 8, 10),
            {ErrorCode.corrupt_message},
            id="length too short",
        ),
        pytest.param(
            lambda batch: with_field(batch, ">i", 8, 5000),
            {ErrorCode.corrupt_message, ErrorCode.invalid_record},
            id="length too long",
        ),
    ],
)
def test_a_malformed_batch_is_refused_and_not_stored(
    wire: Wire,
    create_topic: CreateTopic,
    spoil: Callable[[bytes], bytes],
    errors: set[ErrorCode],
) -> None:
    """C12, D4: with a good checksum too, lies about the records are found out."""
    topic = create_topic()
    refused = wire.produce(topic, spoil(record_batch([b"a", b"b"])))
    assert refused.error_code in errors
    assert wire.produce(topic, record_batch([b"good"])).base_offset == 0


def test_only_known_acknowledgements_are_taken(wire: Wire, create_topic: CreateTopic) -> None:
    """C12: acks other than 0, 1 and all is INVALID_REQUIRED_ACKS."""
    topic = create_topic()
    refused = wire.produce(topic, record_batch([b"v"]), acks=2)
    assert refused.error_code is ErrorCode.invalid_required_acks
    assert wire.produce(topic, record_batch([b"v"]), acks=1).base_offset == 0


def test_zstd_needs_a_version_that_knows_it(wire: Wire, create_topic: CreateTopic) -> None:
    """C5, C12: UNSUPPORTED_COMPRESSION_TYPE before version 7; old consumers cannot read it."""
    topic = create_topic()
    batch = record_batch([b"v"], attributes=ZSTD)
    answer = wire.call(PRODUCE, 6, **produce_fields(topic, batch))
    error = answer.responses[0].partition_responses[0].error_code
    assert error is ErrorCode.unsupported_compression_type


@pytest.mark.parametrize("compression", [5, 6, 7])
def test_a_compression_that_nobody_knows_is_refused(
    wire: Wire, create_topic: CreateTopic, compression: int
) -> None:
    """C5, C12: stored, it would stop every consumer."""
    topic = create_topic()
    refused = wire.produce(topic, record_batch([b"v"], attributes=compression))
    # Apache Kafka has no better answer than a fault of its own.
    assert refused.error_code in {
        ErrorCode.unsupported_compression_type,
        ErrorCode.unknown_server_error,
    }
    assert wire.produce(topic, record_batch([b"v"])).base_offset == 0


def test_clients_cannot_write_to_the_brokers_own_topics(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C12: a forged record would change what groups have committed."""
    commit_something(wire, create_topic())
    refused = wire.produce("__consumer_offsets", record_batch([b"forged"]))
    assert refused.error_code is ErrorCode.invalid_topic_exception


def commit_something(wire: Wire, name: str) -> None:
    """Commit an offset, so that the topic for them is there."""
    find_coordinator(wire, name)
    rows = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    topics = [{"name": name, "partitions": rows}]
    wire.call(OFFSET_COMMIT, 8, group_id=name, generation_id_or_member_epoch=-1, topics=topics)


def test_times_far_in_the_future_are_refused(wire: Wire, create_topic: CreateTopic) -> None:
    """C7, C12: message.timestamp.after.max.ms, an hour by default."""
    topic = create_topic()
    now_ms = time.time_ns() // 1_000_000
    refused = wire.produce(topic, record_batch([b"v"], timestamp_ms=now_ms + 2 * HOUR_MS))
    assert refused.error_code is ErrorCode.invalid_timestamp
    near = wire.produce(topic, record_batch([b"v"], timestamp_ms=now_ms + HOUR_MS // 2))
    assert near.error_code is ErrorCode.none


def test_a_producer_of_an_older_epoch_is_fenced(wire: Wire, create_topic: CreateTopic) -> None:
    """C3: INVALID_PRODUCER_EPOCH; a new epoch begins with sequence 0."""
    topic = create_topic()
    fresh = {"transaction_timeout": 10_000, "producer_id": -1, "producer_epoch": -1}
    producer_id = wire.call(INIT_PRODUCER_ID, 4, **fresh).producer_id

    def send(epoch: int, sequence: int) -> ErrorCode:
        batch = record_batch(
            [b"v"], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        error = wire.produce(topic, batch).error_code
        assert isinstance(error, ErrorCode)
        return error

    assert send(1, 0) is ErrorCode.none
    assert send(0, 1) is ErrorCode.invalid_producer_epoch
    assert send(2, 5) is ErrorCode.out_of_order_sequence_number
    assert send(2, 0) is ErrorCode.none


def test_a_producer_must_number_its_batches(wire: Wire, create_topic: CreateTopic) -> None:
    """C3, C12: INVALID_RECORD; without a sequence no retry could be recognised."""
    topic = create_topic()
    batch = record_batch([b"v"], producer_id=7, producer_epoch=0, base_sequence=-1)
    assert wire.produce(topic, batch).error_code is ErrorCode.invalid_record


def test_a_duplicate_is_recognised_among_the_last_five_batches(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C3: clients keep at most five batches on their way."""
    topic = create_topic()
    fresh = {"transaction_timeout": 10_000, "producer_id": -1, "producer_epoch": -1}
    producer_id = wire.call(INIT_PRODUCER_ID, 4, **fresh).producer_id

    def send(sequence: int) -> tuple[ErrorCode, int]:
        values = [b"%d" % sequence, b"+"]
        batch = record_batch(
            values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        answer = wire.produce(topic, batch)
        return answer.error_code, answer.base_offset

    for sequence in range(0, 20, 2):
        assert send(sequence) == (ErrorCode.none, sequence)
    for sequence in range(10, 20, 2):
        assert send(sequence) == (ErrorCode.none, sequence)
    # Older ones are known to be old, but no longer where they lie.
    error, _ = send(0)
    assert error in {ErrorCode.out_of_order_sequence_number, ErrorCode.duplicate_sequence_number}
    assert len(stored(wire.fetch(topic, 0).records)) == 20

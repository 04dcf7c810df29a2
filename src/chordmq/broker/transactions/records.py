"""Transactional ids as records of `__transaction_state`, byte for byte as Kafka writes them.

A key is version i16 (0) and the transactional id, a value version i16 and a message of Kafka's
format; a null value deletes the id. Both versions are read, version 1 is written.
"""

from __future__ import annotations

import struct
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Struct, field

from chordmq.broker.transactions.machine import NO_EPOCH, NO_ID, State, TransactionSnapshot
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.codecs.kafka.wire import Wire
from chordmq.errors import DecodeError

KEY_VERSION = 0
VALUE_VERSION = 1
FIRST_PROTOCOL, SECOND_PROTOCOL = 0, 2

_VERSION = struct.Struct(">h")


class TransactionRecord(NamedTuple):
    """One entry of the log: the newest state of an id, or None when it is forgotten."""

    transactional_id: str
    snapshot: TransactionSnapshot | None


class TransactionLogKey(Struct):
    """Kafka's TransactionLogKey."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    transactional_id: Annotated[str, Wire("string")] = ""


class PartitionsSchema(Struct):
    """The partitions of one topic in a transaction."""

    topic: Annotated[str, Wire("string")] = ""
    partition_ids: Annotated[list[int], Wire("[]int32")] = field(default_factory=list)


class TransactionLogValue(Struct):
    """Kafka's TransactionLogValue."""

    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    producer_id: Annotated[int, Wire("int64")] = 0
    previous_producer_id: Annotated[int, Wire("int64", "1+", tag=0)] = NO_ID
    next_producer_id: Annotated[int, Wire("int64", "1+", tag=1)] = NO_ID
    producer_epoch: Annotated[int, Wire("int16")] = 0
    next_producer_epoch: Annotated[int, Wire("int16", "1+", tag=3)] = NO_EPOCH
    transaction_timeout_ms: Annotated[int, Wire("int32")] = 0
    transaction_status: Annotated[int, Wire("int8")] = 0
    transaction_partitions: Annotated[
        list[PartitionsSchema] | None, Wire("[]PartitionsSchema", nullable="0+")
    ] = field(default_factory=list)
    transaction_last_update_timestamp_ms: Annotated[int, Wire("int64")] = 0
    transaction_start_timestamp_ms: Annotated[int, Wire("int64")] = 0
    client_transaction_version: Annotated[int, Wire("int16", "1+", tag=2)] = 0


def write(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value that store the record."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    written = _VERSION.pack(KEY_VERSION) + encode(key, KEY_VERSION)
    if record.snapshot is None:
        return bytes(written), None
    value = encode(_value(record.snapshot), VALUE_VERSION)
    return bytes(written), bytes(_VERSION.pack(VALUE_VERSION) + value)


def read(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Return what the bytes store, or None for a kind of record that is not read here."""
    if _version(key) != KEY_VERSION:
        return None
    name = decode(TransactionLogKey, KEY_VERSION, key, _VERSION.size).transactional_id
    if value is None:
        return TransactionRecord(name, None)
    stored = decode(TransactionLogValue, _version(value), value, _VERSION.size)
    return TransactionRecord(name, _snapshot(name, stored))


def _version(data: bytes) -> int:
    try:
        return int(_VERSION.unpack_from(data)[0])
    except struct.error as error:
        raise DecodeError(f"no version in {len(data)} bytes") from error


def _value(snapshot: TransactionSnapshot) -> TransactionLogValue:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(snapshot.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionLogValue(
        producer_id=snapshot.producer_id,
        previous_producer_id=snapshot.previous_producer_id,
        next_producer_id=snapshot.next_producer_id,
        producer_epoch=snapshot.epoch,
        transaction_timeout_ms=snapshot.timeout_ms,
        transaction_status=snapshot.state,
        transaction_partitions=None
        if snapshot.state is State.EMPTY
        else [PartitionsSchema(topic, indexes) for topic, indexes in topics.items()],
        transaction_last_update_timestamp_ms=snapshot.updated_ms,
        transaction_start_timestamp_ms=snapshot.started_ms,
        client_transaction_version=SECOND_PROTOCOL
        if snapshot.has_epoch_per_transaction
        else FIRST_PROTOCOL,
    )


def _snapshot(transactional_id: str, value: TransactionLogValue) -> TransactionSnapshot:
    try:
        state = State(value.transaction_status)
    except ValueError as error:
        raise DecodeError(f"no transaction has status {value.transaction_status}") from error
    return TransactionSnapshot(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (entry.topic, index)
            for entry in value.transaction_partitions or ()
            for index in entry.partition_ids
        ),
        updated_ms=value.transaction_last_update_timestamp_ms,
        started_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        has_epoch_per_transaction=value.client_transaction_version >= SECOND_PROTOCOL,
    )

"""Shared cursors as records of `__share_group_state`, byte for byte as Kafka writes its snapshots.

A key is type i16 (0), group, topic id and partition; a value version i16 (0) and a message of
Kafka's format that holds the cursor's whole state; a null value deletes the cursor.
"""

from __future__ import annotations

import struct
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Struct, field

from chordmq.broker.cursors.shared_cursor import Change, State
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.codecs.kafka.wire import NO_UUID, Wire
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError

SNAPSHOT = 0
VERSION = 0
INT_MAX = 2**31 - 1
ACKNOWLEDGED, ARCHIVED = 2, 4
STATES = {0: State.AVAILABLE, ACKNOWLEDGED: State.DONE, ARCHIVED: State.DONE}

_INT16 = struct.Struct(">h")


class CursorKey(NamedTuple):
    """What a cursor belongs to."""

    group: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorSnapshot:
    """A cursor's state: where it starts, and what to replay from there."""

    start: int
    changes: tuple[Change, ...] = ()
    epoch: int = 0
    """Counts how often an operator has set the start."""
    created_ms: int = -1
    written_ms: int = -1


class CursorRecord(NamedTuple):
    """One entry of the log: the newest state of a cursor, or None when it is deleted."""

    key: CursorKey
    snapshot: CursorSnapshot | None


class ShareSnapshotKey(Struct):
    """Kafka's ShareSnapshotKey."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = None

    group_id: Annotated[str, Wire("string")] = ""
    topic_id: Annotated[bytes, Wire("uuid")] = NO_UUID
    partition: Annotated[int, Wire("int32")] = 0


class StateBatch(Struct):
    """Offsets in the same state."""

    first_offset: Annotated[int, Wire("int64")] = 0
    last_offset: Annotated[int, Wire("int64")] = 0
    delivery_state: Annotated[int, Wire("int8")] = 0
    delivery_count: Annotated[int, Wire("int16")] = 0


class ShareSnapshotValue(Struct):
    """Kafka's ShareSnapshotValue."""

    versions: ClassVar[range] = range(1)
    flexible_since: ClassVar[int | None] = 0

    snapshot_epoch: Annotated[int, Wire("int32")] = 0
    state_epoch: Annotated[int, Wire("int32")] = 0
    leader_epoch: Annotated[int, Wire("int32")] = 0
    start_offset: Annotated[int, Wire("int64")] = 0
    delivery_complete_count: Annotated[int, Wire("int32", tag=0)] = -1
    create_timestamp: Annotated[int, Wire("int64")] = 0
    write_timestamp: Annotated[int, Wire("int64")] = 0
    state_batches: Annotated[list[StateBatch], Wire("[]StateBatch")] = field(default_factory=list)


def write(record: CursorRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value that store the record."""
    key = _INT16.pack(SNAPSHOT) + encode(ShareSnapshotKey(*record.key), VERSION)
    snapshot = record.snapshot
    if snapshot is None:
        return bytes(key), None
    value = ShareSnapshotValue(
        state_epoch=snapshot.epoch,
        start_offset=snapshot.start,
        delivery_complete_count=min(_done_count(snapshot), INT_MAX),
        create_timestamp=snapshot.created_ms,
        write_timestamp=snapshot.written_ms,
        state_batches=[
            StateBatch(first, last, ACKNOWLEDGED if state is State.DONE else state, deliveries)
            for first, last, state, deliveries in snapshot.changes
        ],
    )
    return bytes(key), bytes(_INT16.pack(VERSION) + encode(value, VERSION))


def read(key: bytes, value: bytes | None) -> CursorRecord | None:
    """Return what the bytes store, or None for a kind of record that is not read here."""
    if _number(key) != SNAPSHOT:
        return None
    name = decode(ShareSnapshotKey, VERSION, key, _INT16.size)
    cursor_key = CursorKey(name.group_id, name.topic_id, name.partition)
    if value is None:
        return CursorRecord(cursor_key, None)
    if _number(value) != VERSION:
        raise DecodeError(f"a cursor of version {_number(value)}")
    return CursorRecord(cursor_key, _snapshot(decode(ShareSnapshotValue, 0, value, _INT16.size)))


def _done_count(snapshot: CursorSnapshot) -> int:
    return sum(c.last - c.first + 1 for c in snapshot.changes if c.state is State.DONE)


def _snapshot(value: ShareSnapshotValue) -> CursorSnapshot:
    try:
        changes = tuple(
            Change(
                batch.first_offset,
                batch.last_offset,
                STATES[batch.delivery_state],
                batch.delivery_count,
            )
            for batch in value.state_batches
        )
    except KeyError as error:
        raise DecodeError(f"no record has the state {error}") from error
    return CursorSnapshot(
        start=value.start_offset,
        changes=changes,
        epoch=value.state_epoch,
        created_ms=value.create_timestamp,
        written_ms=value.write_timestamp,
    )


def _number(data: bytes) -> int:
    try:
        return int(_INT16.unpack_from(data)[0])
    except struct.error as error:
        raise DecodeError(f"no type or version in {len(data)} bytes") from error

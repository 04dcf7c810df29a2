"""Groups and offsets as records of `__consumer_offsets`, byte for byte as Kafka writes them.

A key starts with its type, a value with its version, both i16; a null value deletes the key.

    key 0, 1   group string, topic string, partition i32                  a committed offset
    value      offset i64, [leader epoch i32 in 3+], metadata string, commit time i64,
               [expiry time i64 in 1], [topic id as tagged field 0 in 4+]
    key 2      group string                                               a group's generation
    value      protocol type string, generation i32, protocol string?, leader string?,
               [time of the state i64 in 2+], members: id string, [instance string? in 3+],
               client id string, client host string, [rebalance time-out i32 in 1+],
               session time-out i32, subscription bytes, assignment bytes

Strings carry their length as i16, bytes and arrays as i32; from value version 4 on all three as an
unsigned varint of length + 1, and structures end with tagged fields. This node writes version 3,
which every tool reads, and version 1 for an offset with its own expiry. Groups of the consumer
protocol are in `consumer_records`.
"""

import struct
from typing import NamedTuple

from chordmq.broker.groups import consumer_records
from chordmq.broker.groups.consumer_image import ConsumerRecord
from chordmq.broker.groups.membership import GroupSnapshot, MemberSnapshot
from chordmq.broker.groups.offsets import CommittedOffset, OffsetKey, OffsetRecord
from chordmq.codecs.cursor import read_uvarint
from chordmq.errors import DecodeError

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
VALUE_VERSION = 3
EXPIRING_VALUE_VERSION = 1
FLEXIBLE_SINCE = 4
VERSION_MAX = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class GroupRecord(NamedTuple):
    """One entry of the log: a group's newest generation, or None when the group is deleted."""

    group_id: str
    snapshot: GroupSnapshot | None


GroupLogRecord = OffsetRecord | GroupRecord | ConsumerRecord


def write(record: GroupLogRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value that store the record."""
    if isinstance(record, OffsetRecord):
        key, committed = record
        value = None if committed is None else _offset_value(committed)
        name = _string(key.group_id) + _string(key.topic)
        return _INT16.pack(OFFSET_KEYS[-1]) + name + _INT32.pack(key.partition), value
    if isinstance(record, GroupRecord):
        snapshot = record.snapshot
        value = None if snapshot is None else _group_value(snapshot)
        return _INT16.pack(GROUP_KEY) + _string(record.group_id), value
    return consumer_records.write(record)


def read(key: bytes, value: bytes | None) -> GroupLogRecord | None:
    """Return what the bytes store, or None for a kind of record that is not read here."""
    cursor = _Cursor(key)
    kind = cursor.int16()
    if kind in OFFSET_KEYS:
        offset_key = OffsetKey(cursor.string(), cursor.string(), cursor.int32())
        return OffsetRecord(offset_key, None if value is None else _read_offset(value))
    if kind == GROUP_KEY:
        group_id = cursor.string()
        return GroupRecord(group_id, None if value is None else _read_group(group_id, value))
    if kind in consumer_records.KEYS:
        return consumer_records.read(kind, key, value)
    return None


def _offset_value(committed: CommittedOffset) -> bytes:
    metadata = _string(committed.metadata)
    offset, commit_time = _INT64.pack(committed.offset), _INT64.pack(committed.commit_ms)
    if committed.expire_ms >= 0:
        expiry = _INT64.pack(committed.expire_ms)
        return _INT16.pack(EXPIRING_VALUE_VERSION) + offset + metadata + commit_time + expiry
    epoch = _INT32.pack(committed.leader_epoch)
    return _INT16.pack(VALUE_VERSION) + offset + epoch + metadata + commit_time


def _group_value(snapshot: GroupSnapshot) -> bytes:
    parts = [
        _INT16.pack(VALUE_VERSION),
        _string(snapshot.protocol_type),
        _INT32.pack(snapshot.generation),
        _string(snapshot.protocol),
        _string(snapshot.leader),
        _INT64.pack(snapshot.since_ms),
        _INT32.pack(len(snapshot.members)),
    ]
    for member in snapshot.members:
        parts += [
            _string(member.member_id),
            _string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        ]
    return b"".join(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return _INT16.pack(-1)
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _read_offset(value: bytes) -> CommittedOffset:
    cursor = _Cursor(value)
    version = cursor.read_version()
    offset = cursor.int64()
    leader_epoch = cursor.int32() if version >= 3 else -1
    metadata, commit_ms = cursor.string(), cursor.int64()
    expire_ms = cursor.int64() if version == 1 else -1
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_ms=commit_ms,
        expire_ms=expire_ms,
    )


def _read_group(group_id: str, value: bytes) -> GroupSnapshot:
    cursor = _Cursor(value)
    version = cursor.read_version()
    protocol_type, generation = cursor.string(), cursor.int32()
    protocol, leader = cursor.nullable_string(), cursor.nullable_string()
    since_ms = cursor.int64() if version >= 2 else -1
    members = tuple(_read_member(cursor) for _ in range(cursor.count()))
    return GroupSnapshot(
        group_id=group_id,
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        since_ms=since_ms,
        members=members,
    )


def _read_member(cursor: "_Cursor") -> MemberSnapshot:
    version = cursor.version
    member_id = cursor.string()
    instance_id = cursor.nullable_string() if version >= 3 else None
    client_id, client_host = cursor.string(), cursor.string()
    rebalance_timeout_ms = cursor.int32() if version >= 1 else -1
    session_timeout_ms = cursor.int32()
    subscription, assignment = cursor.blob(), cursor.blob()
    cursor.skip_tags()
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = session_timeout_ms
    return MemberSnapshot(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )


class _Cursor:
    """Reads one key or value from its start; raises DecodeError where the bytes do not fit."""

    def __init__(self, data: bytes) -> None:
        self.version = 0  # keys are never written in the compact form
        self._data = data
        self._position = 0

    def read_version(self) -> int:
        self.version = self.int16()
        if not 0 <= self.version <= VERSION_MAX:
            raise DecodeError(f"value of version {self.version}")
        return self.version

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise DecodeError("a string is null")
        return text

    def nullable_string(self) -> str | None:
        size = self._compact_size() if self.version >= FLEXIBLE_SINCE else self.int16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise DecodeError("a string is not UTF-8") from error

    def blob(self) -> bytes:
        size = self.count()
        return self._take(size)

    def count(self) -> int:
        size = self._compact_size() if self.version >= FLEXIBLE_SINCE else self.int32()
        if not 0 <= size <= len(self._data) - self._position:
            raise DecodeError(f"{size} items or bytes cannot follow")
        return size

    def skip_tags(self) -> None:
        if self.version < FLEXIBLE_SINCE:
            return
        for _ in range(self._uvarint()):
            self._uvarint()
            self._take(self._uvarint())

    def _compact_size(self) -> int:
        return self._uvarint() - 1

    def _uvarint(self) -> int:
        number, self._position = read_uvarint(self._data, self._position)
        return number

    def _number(self, layout: struct.Struct) -> int:
        return int(layout.unpack(self._take(layout.size))[0])

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise DecodeError(f"{size} bytes expected, {len(self._data) - self._position} left")
        taken, self._position = self._data[self._position : end], end
        return taken

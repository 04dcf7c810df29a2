"""The records inside a batch: builds batches from records and reads them back.

A record is its length and then, numbers in zigzag form: attributes (one byte, unused), difference
of its time and of its offset to the batch's, key, value and headers, each with its size before it;
the size -1 is null.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from chordmq.errors import CorruptBatch
from chordmq.records.batch import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    TIMESTAMP_APPEND,
    BatchHeader,
    head,
    read_header,
)
from chordmq.records.checksum import crc32c
from chordmq.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Buffer,
    Compression,
    compress,
    decompress,
)
from chordmq.records.varint import SMALL, UVARINTS, varint

Headers = tuple[tuple[str, bytes | None], ...]

RECORD_BYTES_MIN = 7  # seven numbers of one byte
RUN_LENGTH = 4
"""Records of a run on average, at least, for a batch to be read as runs."""
RUNS_TRIED = 8
"""Runs after which a batch is judged."""

Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""Time and offset relative to the batch, key, value, headers."""

_TIMESTAMP = attrgetter("timestamp")
_NULL = b"\x01"
_ZERO = b"\x00"
_NOTHING_AND_NO_TIME = b"\x00\x00"
"""No attributes, and the time of the batch."""
_TABLE_MAX = SMALL // 2  # the table holds zigzag forms, which are twice as large


_new = tuple.__new__  # half the time of calling the class


class NewRecord(NamedTuple):
    """A record that has no offset yet."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Record(NamedTuple):
    """A record as it is stored."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def build_batch(  # noqa: PLR0913  these are the fields of a batch header
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    flags: int = 0,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    """Return one batch with the records in their order; `flags` are TRANSACTIONAL and CONTROL."""
    assert records, "a batch holds at least one record"
    start = records[0].timestamp
    header = BatchHeader(
        base_offset=base_offset,
        size=0,
        leader_epoch=-1,
        crc=0,
        attributes=compression | flags,
        last_offset_delta=len(records) - 1,
        base_timestamp=start,
        max_timestamp=max(records, key=_TIMESTAMP).timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=len(records),
    )
    rows = [(time - start, i, k, v, h) for i, (time, k, v, h) in enumerate(records)]
    return _assemble(header, compress(compression, _encode_rows(rows)))


class RecordRun(NamedTuple):
    """Records that have no offsets yet, follow each other and differ in their values only."""

    timestamp: int
    key: bytes | None
    headers: Headers
    values: Sequence[bytes | None]
    """A record without a value stands by itself."""

    def records(self) -> list[NewRecord]:
        """Return the records one by one."""
        time, key, headers, values = self
        return [_new(NewRecord, (time, key, value, headers)) for value in values]


class AlikeRecords(NamedTuple):
    """Records that differ in their values only; key and headers are written already."""

    key: bytes
    headers: bytes
    values: Sequence[bytes | None]
    time: int = 0
    """How much later than the first of the batch."""


class UnlikeRecords(NamedTuple):
    """Records of the batch's time that have nothing in common: key and headers, and value."""

    rows: Sequence[tuple[tuple[bytes, bytes], bytes]]
    """Keys and headers are written already."""


def prepare_key(key: bytes | None) -> bytes:
    """Return a key as it stands in a record."""
    return _NULL if key is None else varint(len(key)) + key


def build_runs(runs: Sequence[RecordRun]) -> bytearray:
    """Return one batch with all records of the runs in their order."""
    start = runs[0].timestamp
    groups = [
        AlikeRecords(prepare_key(key), prepare_headers(headers), values, time - start)
        for time, key, headers, values in runs
    ]
    return build_alike(start, groups)


def build_alike(timestamp: int, groups: Sequence[AlikeRecords | UnlikeRecords]) -> bytearray:
    """Return one batch with all records of the groups in their order, none before the time."""
    out: list[bytes] = []
    count = latest = 0
    for group in groups:
        if isinstance(group, UnlikeRecords):
            _add_unlike(out, count, group)
            count += len(group.rows)
        else:
            _add_alike(out, count, group)
            count += len(group.values)
            latest = max(latest, group.time)
    assert count, "a batch holds at least one record"
    header = BatchHeader(
        base_offset=0,
        size=0,
        leader_epoch=-1,
        crc=0,
        attributes=Compression.NONE,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp + latest,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return _assemble(header, b"".join(out))


def _add_alike(out: list[bytes], offset: int, group: AlikeRecords) -> None:
    """Add records; what stands around a value is the same as long as its size is."""
    key, headers, values, time = group
    table, table_max = UVARINTS, _TABLE_MAX
    begin = _NOTHING_AND_NO_TIME if not time else _ZERO + varint(time)
    last, width = -2, 0
    before = between = b""
    for value in values:
        place = table[offset << 1] if offset < table_max else varint(offset)
        length = -1 if value is None else len(value)
        if length != last or len(place) != width:
            last, width = length, len(place)
            between = key + (table[length << 1] if 0 <= length < table_max else varint(length))
            size = len(begin) + width + len(between) + max(length, 0) + len(headers)
            before = (table[size << 1] if size < table_max else varint(size)) + begin
        out += (before, place, between, value or b"", headers)
        offset += 1


def _add_unlike(out: list[bytes], offset: int, group: UnlikeRecords) -> None:
    """Add records; what stands around a value is written for each."""
    table, table_max, begin = UVARINTS, _TABLE_MAX, _NOTHING_AND_NO_TIME
    for (key, headers), value in group.rows:
        place = table[offset << 1] if offset < table_max else varint(offset)
        length = len(value)
        width = table[length << 1] if length < table_max else varint(length)
        size = len(begin) + len(place) + len(key) + len(width) + length + len(headers)
        before = table[size << 1] if size < table_max else varint(size)
        out += (before, begin, place, key, width, value, headers)
        offset += 1


def rebuild_batch(batch: Buffer, compression: Compression, level: int | None = None) -> bytearray:
    """Return the batch with the same records, compressed in another way."""
    header = read_header(batch)
    data = _decompressed(batch, header, DECOMPRESSED_BYTES_MAX)
    header.attributes = header.attributes & ~COMPRESSION_MASK | compression
    return _assemble(header, compress(compression, data, level))


def build_compacted(header: BatchHeader, records: Sequence[Record]) -> bytearray:
    """Return the batch with only these of its records; their offsets and times stay."""
    start, base = header.base_timestamp, header.base_offset
    rows = [(r.timestamp - start, r.offset - base, r.key, r.value, r.headers) for r in records]
    compression = Compression(header.attributes & COMPRESSION_MASK)
    body = compress(compression, _encode_rows(rows))
    return _assemble(replace(header, record_count=len(rows)), body)


def read_records(batch: Buffer, *, size_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Return the records of one batch, which may decompress to at most `size_max` bytes.

    The checksum is not looked at: `batch.verify` does that when the batch comes in.
    """
    header = read_header(batch)
    data = bytes(_decompressed(batch, header, size_max))
    if not 0 <= header.record_count * RECORD_BYTES_MIN <= len(data):
        raise CorruptBatch(f"{header.record_count} records cannot be in {len(data)} bytes")
    try:
        return _read_all(header, data)
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptBatch(f"a record is malformed: {error}") from error


def read_runs(batch: Buffer, *, size_max: int = DECOMPRESSED_BYTES_MAX) -> list[RecordRun]:
    """Return the records of one batch as runs of those that differ in their values only.

    None if they are hardly alike, or some are gone: `read_records` takes less time then, or has to
    tell their offsets.
    """
    header = read_header(batch)
    if header.record_count < RUN_LENGTH or header.last_offset_delta != header.record_count - 1:
        return []
    data = bytes(_decompressed(batch, header, size_max))
    single = replace(header, record_count=1)
    runs: list[RecordRun] = []
    at = number = 0
    try:
        while number < header.record_count:
            size, begin = _read_varint(data, at)
            [first] = _read_all(single, data[at : begin + size])
            if first.offset != header.base_offset + number:
                return []
            values, at = _read_alike(data, at, number, first)
            number += len(values)
            runs.append(RecordRun(first.timestamp, first.key, first.headers, values))
            if len(runs) >= RUNS_TRIED and number < RUN_LENGTH * len(runs):
                return []
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptBatch(f"a record is malformed: {error}") from error
    if number > header.record_count or at != len(data):
        raise CorruptBatch("bytes follow the last record of the batch")
    return runs


def _read_alike(data: bytes, at: int, number: int, first: Record) -> tuple[list[bytes | None], int]:
    """Return the values of a record at a place and of those like it behind, and where they end.

    What stands around a value is the same as long as its size is.
    """
    size, begin = _read_varint(data, at)
    beyond = begin + size
    head = data[begin : _read_varint(data, begin + 1)[1]]  # the attributes and the time
    key, after = prepare_key(first.key), prepare_headers(first.headers)
    values: list[bytes | None] = []
    table, table_max = UVARINTS, _TABLE_MAX
    before = between = b""
    width = around = length = -1
    while at < len(data):
        place = table[number << 1] if number < table_max else varint(number)
        if len(place) != width or not data.startswith(before + place + between, at):
            size, begin = _read_varint(data, at)
            fixed = head + place + key
            if not data.startswith(fixed, begin):
                break
            length, start = _read_varint(data, begin + len(fixed))
            if length < 0 or start + length + len(after) != begin + size:
                break
            before, between = data[at:begin] + head, key + data[begin + len(fixed) : start]
            width, around = len(place), start - at
        start = at + around
        stop = start + length
        if not data.startswith(after, stop):
            break
        values.append(data[start:stop])
        at = stop + len(after)
        number += 1
    if not values:  # null, or its numbers are longer than need be
        return [first.value], beyond
    return values, at


def _decompressed(batch: Buffer, header: BatchHeader, size_max: int) -> Buffer:
    if header.size > len(batch):
        raise CorruptBatch(f"batch of {header.size} bytes, {len(batch)} are there")
    body = memoryview(batch)[HEADER_SIZE : header.size]
    return decompress(header.attributes & COMPRESSION_MASK, body, size_max)


def _assemble(header: BatchHeader, body: Buffer) -> bytearray:
    out = bytearray(
        head(
            (
                header.base_offset,
                HEADER_SIZE - LENGTH_END + len(body),
                header.leader_epoch,
                MAGIC,
                0,
                header.attributes,
                header.last_offset_delta,
                header.base_timestamp,
                header.max_timestamp,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.record_count,
            )
        )
    )
    out += body
    out[CRC_START - 4 : CRC_START] = crc32c(memoryview(out)[CRC_START:]).to_bytes(4, "big")
    return out


def _encode_rows(rows: Iterable[Row]) -> bytearray:
    out = bytearray()
    table, table_max = UVARINTS, _TABLE_MAX
    last: Headers = ()
    prepared = _ZERO
    for time, offset, key, value, headers in rows:
        if headers is not last:  # what one client sends has often the very same
            last, prepared = headers, prepare_headers(headers) if headers else _ZERO
        body = (
            _ZERO
            + (table[time << 1] if 0 <= time < table_max else varint(time))
            + (table[offset << 1] if offset < table_max else varint(offset))
        )
        for part in (key, value):
            if part is None:
                body += _NULL
            else:
                size = len(part)
                body += (table[size << 1] if size < table_max else varint(size)) + part
        size = len(body) + len(prepared)
        out += table[size << 1] if size < table_max else varint(size)
        out += body
        out += prepared
    return out


def prepare_headers(headers: Headers) -> bytes:
    """Return headers as they stand in a record."""
    out = bytearray(varint(len(headers)))
    for name, value in headers:
        encoded = name.encode()
        out += varint(len(encoded))
        out += encoded
        out += _NULL if value is None else varint(len(value)) + value
    return bytes(out)


def _read_all(header: BatchHeader, data: bytes) -> list[Record]:
    base_time, base_offset = header.base_timestamp, header.base_offset
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_APPEND else None
    records = []
    at = 0
    for _ in range(header.record_count):
        size, at = _read_varint(data, at)
        stop = at + size
        if size < RECORD_BYTES_MIN - 1 or stop > len(data):
            raise CorruptBatch("a record's size does not fit its batch")
        time, at = _read_varint(data, at + 1)
        offset, at = _read_varint(data, at)
        key, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        count, at = _read_varint(data, at)
        headers, at = read_headers(data, at, count) if count else ((), at)
        if at != stop:
            raise CorruptBatch("a record's size does not match its fields")
        timestamp = base_time + time if append_time is None else append_time
        records.append(Record(base_offset + offset, timestamp, key, value, headers))
    if at != len(data):
        raise CorruptBatch("bytes follow the last record of the batch")
    return records


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise CorruptBatch("a number in a record is longer than ten bytes")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(data, at)
    if size == -1:
        return None, at
    stop = at + size
    if size < 0 or stop > len(data):
        raise CorruptBatch("a key, value or header is longer than its batch")
    return data[at:stop], stop


def read_headers(data: bytes, at: int, count: int) -> tuple[Headers, int]:
    """Read so many headers at a place; return them and the place after them."""
    if not 0 <= count * 2 <= len(data) - at:
        raise CorruptBatch(f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise CorruptBatch("a header has no name")
        value, at = _read_bytes(data, at)
        headers.append((str(name, "utf-8"), value))
    return tuple(headers), at

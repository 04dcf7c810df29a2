"""The record batch (Kafka's format v2): the one format on the wire, on disk and in memory.

Layout, big-endian; the checksum covers everything from `attributes` on, so that base offset and
leader epoch can be set by the broker without touching it:

    0  base offset        i64     27  base timestamp   i64
    8  length             i32     35  max timestamp    i64
    12 leader epoch       i32     43  producer id      i64
    16 magic (2)          i8      51  producer epoch   i16
    17 crc-32c            u32     53  base sequence    i32
    21 attributes         i16     57  record count     i32
    23 last offset delta  i32     61  records, compressed as the attributes say
"""

import struct
from collections.abc import Iterator, Sequence

from chordmq.dataclass import dataclass
from chordmq.errors import CorruptBatch, UnsupportedFormat
from chordmq.records.checksum import crc32c

HEADER_SIZE = 61
MAGIC = 2
LENGTH_END = 12  # the length field counts the bytes after itself
CRC_START = 21

COMPRESSION_MASK = 0x07
TIMESTAMP_APPEND = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_LENGTH = struct.Struct(">i")


@dataclass(slots=True)
class BatchHeader:
    """What a batch says about itself, without its records."""

    base_offset: int
    size: int
    """Bytes of the whole batch, header included."""
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Return the offset that follows the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Return the producer's sequence number of the last record; it wraps at 2**31."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds transaction markers, not data."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)


def read_header(data: memoryview | bytes | bytearray, position: int = 0) -> BatchHeader:
    """Read the header at `position` and check its lengths, but not its checksum."""
    if len(data) - position < HEADER_SIZE:
        raise CorruptBatch(f"batch header cut off after {len(data) - position} bytes")
    (base, length, epoch, magic, crc, attributes, delta, first, last, pid, pepoch, seq, count) = (
        _HEADER.unpack_from(data, position)
    )
    if magic != MAGIC:
        raise UnsupportedFormat(f"record format {magic}; only format {MAGIC} is stored")
    if length < HEADER_SIZE - LENGTH_END:
        raise CorruptBatch(f"batch length {length} is shorter than a header")
    return BatchHeader(
        base, length + LENGTH_END, epoch, crc, attributes, delta, first, last, pid, pepoch, seq,
        count,
    )  # fmt: skip


def walk(data: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch; raise CorruptBatch on one cut off."""
    position, end = 0, len(data)
    while position < end:
        header = read_header(data, position)
        if position + header.size > end:
            raise CorruptBatch(f"batch of {header.size} bytes, {end - position} are there")
        yield position, header
        position += header.size


def verify(data: memoryview, position: int, header: BatchHeader) -> None:
    """Check the batch's checksum and that its counts agree."""
    if crc32c(data[position + CRC_START : position + header.size]) != header.crc:
        raise CorruptBatch("batch checksum does not match")
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptBatch("batch counts its records below zero")


def place(data: memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the offset and leader epoch that the log gives the batch; both lie before the crc."""
    _OFFSET.pack_into(data, position, base_offset)
    _EPOCH.pack_into(data, position + LENGTH_END, leader_epoch)


def stamp(data: memoryview, position: int, now_ms: int) -> None:
    """Give every record of the batch the time of its append, and renew the checksum."""
    size = _LENGTH.unpack_from(data, position + 8)[0] + LENGTH_END
    (attributes,) = struct.unpack_from(">h", data, position + CRC_START)
    struct.pack_into(">h", data, position + CRC_START, attributes | TIMESTAMP_APPEND)
    struct.pack_into(">q", data, position + 35, now_ms)
    struct.pack_into(
        ">I", data, position + 17, crc32c(data[position + CRC_START : position + size])
    )


def head(fields: Sequence[int]) -> bytes:
    """Pack the thirteen header fields in their order on the wire."""
    return _HEADER.pack(*fields)

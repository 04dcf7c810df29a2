"""Decides whether a topic takes a producer's batch, and turns it into what is stored."""

from chordmq.broker.settings import TopicSettings
from chordmq.clock import Clock
from chordmq.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompression,
)
from chordmq.records.batch import COMPRESSION_MASK, CONTROL, BatchHeader, read_header, stamp, verify
from chordmq.records.compression import Compression
from chordmq.records.origin import NO_PRODUCER
from chordmq.records.record import read_records, rebuild_batch

NO_TIMESTAMP = -1
ZSTD = Compression.ZSTD.value
"""The last compression that there is, as a plain number: those of an enumeration compare slowly."""
STORED_AS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Intake:
    """The checks of one topic; records are decoded only where a setting asks for it."""

    def __init__(self, settings: TopicSettings, clock: Clock) -> None:
        self._clock = clock
        self._is_compacted = settings.is_compacted
        self._uses_append_time = settings.uses_append_time
        self._size_max = settings.max_message_bytes
        self._before_max_ms = settings.message_timestamp_before_max_ms
        self._after_max_ms = settings.message_timestamp_after_max_ms
        self._compression = STORED_AS.get(settings.compression_type)
        self._levels = {
            Compression.GZIP: settings.compression_gzip_level,
            Compression.LZ4: settings.compression_lz4_level,
            Compression.ZSTD: settings.compression_zstd_level,
        }

    def check(
        self, data: memoryview, *, is_copy: bool = False
    ) -> tuple[memoryview, BatchHeader, int]:
        """Return the batch to store, its header and the append time, or raise what is wrong.

        A copy may have lost records to compaction elsewhere, and be as old as it likes.
        """
        header = read_header(data)
        size = header.size
        if size > self._size_max:
            raise BatchTooLarge(f"a batch of {size} bytes; max.message.bytes is {self._size_max}")
        if size != len(data):
            raise _misfit(size, len(data))
        verify(data, 0, header)
        if not is_copy:
            _check_fresh(header)
        compression = header.attributes & COMPRESSION_MASK
        if compression > ZSTD:
            raise UnsupportedCompression(f"compression {compression}")
        if header.attributes & CONTROL:
            raise InvalidRecord("clients must not write control batches")
        if self._is_compacted and any(r.key is None for r in read_records(data)):
            raise InvalidRecord("a compacted topic takes only records with a key")
        if self._compression is not None and compression != self._compression:
            data, header = self._recompressed(data, header)
        if self._uses_append_time:
            now_ms = self._clock.now_ms()
            stamp(data, 0, now_ms)
            return data, read_header(data), now_ms
        if not is_copy:
            self._check_times(header)
        return data, header, NO_TIMESTAMP

    def _check_times(self, header: BatchHeader) -> None:
        now_ms = self._clock.now_ms()
        newest, oldest = header.max_timestamp, header.base_timestamp
        if newest - now_ms > self._after_max_ms or (
            oldest != NO_TIMESTAMP and now_ms - oldest > self._before_max_ms
        ):
            raise InvalidTimestamp(
                f"times {oldest} to {newest} are too far from the node's {now_ms}; "
                "see message.timestamp.before.max.ms and message.timestamp.after.max.ms"
            )

    def _recompressed(
        self, data: memoryview, header: BatchHeader
    ) -> tuple[memoryview, BatchHeader]:
        assert self._compression is not None
        level = self._levels.get(self._compression)
        changed = memoryview(rebuild_batch(data, self._compression, level))
        return changed, read_header(changed)


def _misfit(size: int, arrived: int) -> CorruptBatch | InvalidRecord:
    if size > arrived:
        return CorruptBatch(f"a batch of {size} bytes, {arrived} arrived")
    return InvalidRecord("more than one batch for a partition in one request")


def _check_fresh(header: BatchHeader) -> None:
    """Refuse what only a batch can be that was stored elsewhere before."""
    count = header.record_count
    if count != header.last_offset_delta + 1 or count == 0:
        raise InvalidRecord("the batch's record count and last offset do not agree")
    if header.producer_id < NO_PRODUCER:
        raise InvalidRecord(f"{header.producer_id} is no producer id")

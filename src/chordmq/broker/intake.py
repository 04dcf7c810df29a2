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
from chordmq.records.batch import COMPRESSION_MASK, BatchHeader, read_header, stamp, verify
from chordmq.records.compression import Compression
from chordmq.records.origin import NO_PRODUCER
from chordmq.records.record import read_records, rebuild_batch

NO_TIMESTAMP = -1
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
        if header.size > self._size_max:
            raise BatchTooLarge(
                f"a batch of {header.size} bytes; max.message.bytes is {self._size_max}"
            )
        if header.size != len(data):
            if header.size > len(data):
                raise CorruptBatch(f"a batch of {header.size} bytes, {len(data)} arrived")
            raise InvalidRecord("more than one batch for a partition in one request")
        verify(data, 0, header)
        if not is_copy:
            _check_fresh(header)
        if header.attributes & COMPRESSION_MASK > Compression.ZSTD:
            raise UnsupportedCompression(f"compression {header.attributes & COMPRESSION_MASK}")
        if header.is_control:
            raise InvalidRecord("clients must not write control batches")
        if self._is_compacted and any(r.key is None for r in read_records(data)):
            raise InvalidRecord("a compacted topic takes only records with a key")
        if self._compression not in (None, header.attributes & COMPRESSION_MASK):
            data, header = self._recompressed(data, header)
        if is_copy and not self._uses_append_time:
            return data, header, NO_TIMESTAMP
        return self._timed(data, header)

    def _timed(self, data: memoryview, header: BatchHeader) -> tuple[memoryview, BatchHeader, int]:
        now_ms = self._clock.now_ms()
        if self._uses_append_time:
            stamp(data, 0, now_ms)
            return data, read_header(data), now_ms
        newest, oldest = header.max_timestamp, header.base_timestamp
        if newest - now_ms > self._after_max_ms or (
            oldest != NO_TIMESTAMP and now_ms - oldest > self._before_max_ms
        ):
            raise InvalidTimestamp(
                f"times {oldest} to {newest} are too far from the node's {now_ms}; "
                "see message.timestamp.before.max.ms and message.timestamp.after.max.ms"
            )
        return data, header, NO_TIMESTAMP

    def _recompressed(
        self, data: memoryview, header: BatchHeader
    ) -> tuple[memoryview, BatchHeader]:
        assert self._compression is not None
        level = self._levels.get(self._compression)
        changed = memoryview(rebuild_batch(data, self._compression, level))
        return changed, read_header(changed)


def _check_fresh(header: BatchHeader) -> None:
    """Refuse what only a batch can be that was stored elsewhere before."""
    if header.record_count != header.last_offset_delta + 1 or header.record_count == 0:
        raise InvalidRecord("the batch's record count and last offset do not agree")
    if header.producer_id < NO_PRODUCER:
        raise InvalidRecord(f"{header.producer_id} is no producer id")

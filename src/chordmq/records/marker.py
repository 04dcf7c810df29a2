"""Transaction markers: control batches that end a producer's transaction in one partition.

A marker is one record. Its key is version i16 (0) and type i16 (0 abort, 1 commit), its value
version i16 (0) and the coordinator's epoch i32.
"""

import struct
from typing import NamedTuple

from chordmq.errors import CorruptBatch
from chordmq.records.batch import CONTROL, TRANSACTIONAL, read_header
from chordmq.records.compression import Buffer
from chordmq.records.record import NewRecord, build_batch, read_records

ABORT, COMMIT = 0, 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0


class Marker(NamedTuple):
    """The end of a transaction: whose it was, and whether its records count."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int = 0


def build_marker(marker: Marker, now_ms: int) -> bytearray:
    """Return the control batch that stores the marker."""
    key = _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [NewRecord(now_ms, key, value)],
        flags=TRANSACTIONAL | CONTROL,
        producer_id=marker.producer_id,
        epoch=marker.epoch,
    )


def read_marker(batch: Buffer) -> Marker:
    """Return the marker that a control batch stores."""
    header = read_header(batch)
    try:
        record = read_records(batch)[0]
        _, kind = _KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except (IndexError, struct.error) as error:
        raise CorruptBatch(f"control batch at offset {header.base_offset}: {error}") from error
    if kind not in (ABORT, COMMIT):
        raise CorruptBatch(f"control batch at offset {header.base_offset} has type {kind}")
    return Marker(header.producer_id, header.producer_epoch, kind == COMMIT, coordinator_epoch)

"""Batches whose records were read a moment ago: others who are at the same place read them too.

A client takes a few records of a batch at a time, and many clients follow the same end of a log.
"""

from chordmq.records.batch import BatchHeader
from chordmq.records.record import Record, read_records

WEIGHT_MAX = 16 * 1024 * 1024
"""Bytes of memory that all batches here take, roughly."""
RECORD_WEIGHT = 200
"""What a record takes besides its value."""

Key = tuple[object, int, int]
"""Whose batch, where it begins, and its checksum."""


class DecodedBatches:
    """The batches decoded last, up to a bound; the one not used for longest goes first."""

    def __init__(self, weight_max: int = WEIGHT_MAX) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._batches: dict[Key, tuple[int, list[Record]]] = {}

    def records(self, owner: object, header: BatchHeader, batch: memoryview) -> list[Record]:
        """Return the records of a batch, which nobody may change."""
        key = (owner, header.base_offset, header.crc)
        known = self._batches.pop(key, None)
        if known is None:
            records = read_records(batch)
            weight = sum(RECORD_WEIGHT + len(one.value or b"") for one in records)
            if 2 * weight > self._weight_max:
                return records
            known = weight, records
            self._weight += weight
        self._batches[key] = known
        while self._weight > self._weight_max:
            self._weight -= self._batches.pop(next(iter(self._batches)))[0]
        return known[1]

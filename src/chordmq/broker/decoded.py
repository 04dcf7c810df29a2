"""Batches whose records are at hand: read a moment ago, or built here from what clients sent.

A client takes a few records of a batch at a time, and many clients follow the same end of a log.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast

from chordmq.records.batch import BatchHeader
from chordmq.records.record import NewRecord, Record, RecordRun, read_records, read_runs

WEIGHT_MAX = 8 * 1024 * 1024
"""Bytes of memory that all batches here take, roughly."""
RECORD_WEIGHT = 200
"""What a record takes besides its value."""
VALUE_WEIGHT = 50
"""What a value of a run takes besides its bytes."""

_new = tuple.__new__  # half the time of calling the class

Key = tuple[object, int, int]
"""Whose batch, where it begins, and its checksum."""


New = TypeVar("New", NewRecord, RecordRun)
Built = Sequence[NewRecord] | Sequence[RecordRun]


class Kept(NamedTuple):
    """The records of a batch; those that nobody has read have no offsets yet."""

    weight: int
    records: list[Record]
    built: Built = ()


class DecodedBatches:
    """The newest batches, up to a bound; the one not used for longest goes first."""

    def __init__(self, weight_max: int = WEIGHT_MAX) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._batches: dict[Key, Kept] = {}

    def built(self, key: Key, size: int, records: Built) -> None:
        """Keep the records of which a batch was built that is in the log now.

        If it was changed on its way there, its checksum is another and nobody asks for these.
        """
        self._keep(key, Kept(size, [], records))

    def records(self, owner: object, header: BatchHeader, batch: memoryview) -> list[Record]:
        """Return the records of a batch, which nobody may change."""
        key = (owner, header.base_offset, header.crc)
        known = self._batches.pop(key, None)
        if known is not None:
            self._weight -= known.weight
        if known is None or known.built:
            built = one_by_one(known.built if known is not None else ())
            records = [_new(Record, (n, *one)) for n, one in enumerate(built, header.base_offset)]
            records = records or read_records(batch)
            weight = sum(RECORD_WEIGHT + len(one.value or b"") for one in records)
            known = Kept(weight, records)
        self._keep(key, known)
        return known.records

    def runs(self, owner: object, header: BatchHeader, batch: memoryview) -> Sequence[RecordRun]:
        """Return the records of a batch as runs.

        None if they are known one by one, or hardly any of them are alike.
        """
        key = (owner, header.base_offset, header.crc)
        known = self._batches.get(key)
        if known is None:
            runs = read_runs(batch)
            if runs:
                values = [value for run in runs for value in run.values]
                weight = sum(VALUE_WEIGHT + len(value or b"") for value in values)
                self._keep(key, Kept(weight, [], runs))
            return runs
        if not known.built or not isinstance(known.built[0], RecordRun):
            return ()
        return cast(Sequence[RecordRun], known.built)

    def _keep(self, key: Key, kept: Kept) -> None:
        if 2 * kept.weight > self._weight_max:
            return  # it would displace all others
        self._batches[key] = kept
        self._weight += kept.weight
        while self._weight > self._weight_max:
            self._weight -= self._batches.pop(next(iter(self._batches))).weight


def one_by_one(built: Built) -> Sequence[NewRecord]:
    """Return records one by one that may have been built in runs."""
    if built and isinstance(built[0], RecordRun):
        runs = cast(Sequence[RecordRun], built)
        return [
            _new(NewRecord, (time, key, value, headers))
            for time, key, headers, values in runs
            for value in values
        ]
    return cast(Sequence[NewRecord], built)

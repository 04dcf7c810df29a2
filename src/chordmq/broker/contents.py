"""The records in a partition's batches, for fronts that do not send batches as they are stored."""

from collections.abc import Sequence

from chordmq.broker.decoded import Built, New
from chordmq.broker.shared import Shared
from chordmq.records.batch import BatchHeader
from chordmq.records.record import NewRecord, Record, RecordRun


class Contents:
    """The part of a partition that packs and unpacks records."""

    topic: str
    index: int
    _shared: Shared

    def sealed(self, records: Sequence[New]) -> Sequence[New] | Sequence[NewRecord]:
        """Return records as fronts that build batches are to store them."""
        return self._shared.sealed(self.topic, records)

    def records(self, header: BatchHeader, batch: memoryview) -> list[Record]:
        """Return the records of a batch of this partition, which nobody may change."""
        return self._shared.decoded.records(self, header, batch)

    def runs(self, header: BatchHeader, batch: memoryview) -> Sequence[RecordRun]:
        """Return the records of a batch as runs, if they are alike and handed out as stored."""
        return self._shared.decoded.runs(self, header, batch) if self._shared.is_plain else ()

    def built(self, base_offset: int, header: BatchHeader, records: Built) -> None:
        """Keep the records of a batch for those who read it next; the header is as it was built."""
        self._shared.decoded.built((self, base_offset, header.crc), header.size, records)

    def delivered(self, records: list[Record]) -> list[Record]:
        """Return records as they are handed out by fronts that do not send batches as stored."""
        return self._shared.delivered(self.topic, self.index, records)

"""The archive behind a log: where it begins, and the files that have what the log has dropped."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from chordmq.archive.files import ArchivedFile, covering, first_since
from chordmq.archive.table import Archive
from chordmq.client.bulk import DataLost, OffsetRange
from chordmq.client.offsets import EARLIEST_TIME, LATEST_TIME
from pyspark_chordmq.ranges import Offsets, Place

Piece = tuple[OffsetRange, tuple[str, ...]]
"""Offsets, and the files that may have them."""


class Tier:
    """The archived part of some topics, as it is now."""

    def __init__(self, directory: Path, topics: Sequence[str]) -> None:
        archive = Archive(directory)
        try:
            found = {topic: archive.files(topic) for topic in topics}
        finally:
            archive.close()
        self._files = {topic: files.named for topic, files in found.items()}
        self._ends = {topic: files.ends for topic, files in found.items()}

    def lowered(self, times: Mapping[Place, int], found: Offsets) -> Offsets:
        """Return offsets that were looked up in the log, or earlier ones that the archive has."""
        lowered = {}
        for (topic, partition), offset in found.items():
            archived = self._lookup(topic, partition, times[topic, partition])
            lowered[topic, partition] = offset if archived is None else min(offset, archived)
        return lowered

    def pieces(self, wanted: OffsetRange, *, fail_on_data_loss: bool) -> list[Piece]:
        """Return the files of a range; raise DataLost if the archive does not go so far."""
        own = self._own(wanted.topic, wanted.partition)
        first = min((one.start for one in own), default=wanted.stop)
        end = self._ends[wanted.topic].get(wanted.partition, 0)
        if fail_on_data_loss and not first <= wanted.start < wanted.stop <= end:
            raise DataLost(
                f"{wanted.topic} partition {wanted.partition}: of offsets {wanted.start} to "
                f"{wanted.stop - 1}, which the log no longer has, the archive has {first} to "
                f"{end - 1}; set failOnDataLoss=false to go on without the others"
            )
        return [(part, tuple(paths)) for part, paths in covering(own, wanted)]

    def _own(self, topic: str, partition: int) -> list[ArchivedFile]:
        return [one for one in self._files[topic] if one.partition == partition]

    def _lookup(self, topic: str, partition: int, time: int) -> int | None:
        own = self._own(topic, partition)
        if time == LATEST_TIME or not own:
            return None
        if time == EARLIEST_TIME:
            return min(one.start for one in own)
        return first_since(own, partition, time)

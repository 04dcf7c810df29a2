"""Follows partitions for one client: committed records in order, and word when there are more."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chordmq.broker.audience import Reader
from chordmq.broker.partition import Partition
from chordmq.dataclass import dataclass
from chordmq.errors import InvalidRequest, OffsetNotAvailable, OffsetOutOfRange, UnknownTopic
from chordmq.records.batch import BatchHeader, walk
from chordmq.records.record import Record

Offsets = dict[int, int]
"""The offset of the next record, by partition."""


class Found(NamedTuple):
    """A record, and the partition that holds it."""

    partition: int
    record: Record


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that the log does not hold any more, or never got to hold."""

    partition: int
    wanted: int
    next: int


class Feed:
    """A position in some partitions of a topic, and a reader who waits there.

    Records of transactions show up when these are committed, and never when they are aborted. A
    reader that is patient is given nothing at first of what only the disk has, as if it had not
    come yet, so that nobody else waits for the disk: who reads once and for all is not.
    """

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        offsets: Mapping[int, int],
        *,
        is_patient: bool = False,
    ) -> None:
        self.partitions = dict(partitions)
        self._is_patient = is_patient
        self.offsets: Offsets = {index: offsets.get(index, 0) for index in partitions}
        self._woken = asyncio.Event()
        self._turn = 0

    @property
    def is_at_end(self) -> bool:
        """Return whether there is nothing to take now, and no gap to skip.

        What is on other nodes is asked for, in all partitions.
        """
        offsets = self.offsets
        found = [one.readable(offsets[index]) for index, one in self.partitions.items()]
        return not any(found)

    @property
    def awaits_disk(self) -> bool:
        """Return whether something that was to be taken is being brought into memory."""
        offsets = self.offsets
        return any(one.is_on_its_way(offsets[index]) for index, one in self.partitions.items())

    def take(self, count_max: int, bytes_max: int) -> list[Found]:
        """Return the next records and move past them; raise OffsetOutOfRange at a gap."""
        for gap in self._gaps():  # before any record is taken, so that none is lost
            raise OffsetOutOfRange(f"partition {gap.partition} has no offset {gap.wanted}")
        found: list[Found] = []
        indexes = list(self.partitions)
        self._turn += 1
        for number in range(len(indexes)):
            # Another partition begins each time, so that none is starved by a busy one.
            index = indexes[(self._turn + number) % len(indexes)]
            bytes_max -= self._take_from(index, found, count_max, bytes_max)
            if len(found) >= count_max or bytes_max <= 0:
                break
        return found

    def skip_gaps(self) -> list[Gap]:
        """Go to the nearest record there is where the next one is missing; say what is skipped."""
        gaps = list(self._gaps())
        self.offsets |= {gap.partition: gap.next for gap in gaps}
        return gaps

    def _gaps(self) -> Iterator[Gap]:
        for index, partition in self.partitions.items():
            if partition.is_closed:
                partition = self._moved(index, partition)
            wanted = self.offsets[index]
            nearest = partition.nearest(wanted)
            if nearest != wanted:
                yield Gap(index, wanted, nearest)

    def check_open(self) -> None:
        """Go on with what stands for partitions now; raise UnknownTopic if there is nothing."""
        for index, partition in self.partitions.items():
            if partition.is_closed:
                self._moved(index, partition)

    def _moved(self, index: int, partition: Partition) -> Partition:
        """Return what stands for a partition after copies have come here, or gone."""
        while partition.is_closed:
            if partition.moved_to is None:
                raise UnknownTopic(f"{partition.topic} was deleted, or the node stops")
            partition = partition.moved_to
        self.partitions[index] = partition
        return partition

    async def more(self, timeout_s: float) -> bool:
        """Wait until a partition has more to read; False if none has in time."""
        self.wait(self)
        return await self._is_woken(timeout_s)

    async def reach(self, ends: Mapping[int, int], bytes_max: int, timeout_s: float) -> None:
        """Wait until what lies before some offsets is here, which a copy may get a bit later."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while late := self._late(ends, bytes_max):
            for partition in late:
                partition.wait(self)
            if not await self._is_woken(deadline_s - loop.time()):
                return

    def _late(self, ends: Mapping[int, int], bytes_max: int) -> list[Partition]:
        """Return the partitions that have nothing to read yet, as a disk or other nodes have it."""
        self.check_open()
        offsets = self.offsets
        return [
            one
            for index, one in self.partitions.items()
            if one.awaits_disk(offsets[index], bytes_max)
            or not (one.is_leader or offsets[index] == ends[index] or one.readable(offsets[index]))
        ]

    async def _is_woken(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        finally:
            self._woken.clear()
        return True

    def wait(self, reader: Reader) -> None:
        """Have a reader woken once when a partition has more to read, at once if one has.

        It may: behind what readers are not shown.
        """
        self.check_open()
        for partition in self.partitions.values():
            partition.wait(reader)
        if not self.is_at_end:
            reader.wake()

    def forget(self, reader: Reader) -> None:
        """Do not wake a reader any more."""
        for partition in self.partitions.values():
            partition.forget(reader)

    def wake(self) -> None:
        """Take note that there is more to read."""
        self._woken.set()

    def close(self) -> None:
        """Wait no more."""
        self.forget(self)

    def _take_from(self, index: int, found: list[Found], count_max: int, bytes_max: int) -> int:
        """Add records of one partition, and return how many bytes their batches have."""
        partition = self.partitions[index]
        offset, size = self.offsets[index], 0
        if self._is_patient and partition.awaits_disk(offset, bytes_max):
            return 0
        try:
            buffers = partition.read(offset, bytes_max, only_stable=True)
        except OffsetNotAvailable:  # the copy here is late
            return 0
        for header, batch in visible(partition, offset, buffers):
            size += header.size
            if batch is not None:
                records = partition.records(header, batch)
                start = bisect_left(records, (offset,))
                stop = start + count_max - len(found)
                shown = partition.delivered(records[start:stop])
                found += [Found(index, record) for record in shown]
                if stop < len(records):
                    self.offsets[index] = records[stop].offset
                    return size
            self.offsets[index] = header.next_offset
        return size


def visible(
    partition: Partition, offset: int, buffers: list[memoryview]
) -> Iterator[tuple[BatchHeader, memoryview | None]]:
    """Yield each batch; without its bytes if it is a marker or was aborted."""
    aborted = sorted(partition.aborted_in(offset, buffers), key=lambda one: one[1], reverse=True)
    hidden: set[int] = set()
    for buffer in buffers:
        for position, header in walk(buffer):
            while aborted and aborted[-1][1] <= header.last_offset:
                hidden.add(aborted.pop()[0])
            if header.is_control:
                hidden.discard(header.producer_id)  # a marker ends the producer's transaction
                yield header, None
            elif header.is_transactional and header.producer_id in hidden:
                yield header, None
            else:
                yield header, buffer[position : position + header.size]


def write_position(offsets: Mapping[int, int]) -> str:
    """Return offsets as a text that `read_position` understands: `0:15,1:7`."""
    return ",".join(f"{index}:{offset}" for index, offset in sorted(offsets.items()))


def read_position(text: str) -> Offsets:
    """Return the offsets in a text, or raise InvalidRequest."""
    offsets: Offsets = {}
    for part in text.split(","):
        index, colon, offset = part.partition(":")
        if not (colon and _is_number(index) and _is_number(offset)):
            raise InvalidRequest(f"{text[:100]!r} is no position such as 0:15,1:7")
        offsets[int(index)] = int(offset)
    return offsets


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < len(str(2**63))

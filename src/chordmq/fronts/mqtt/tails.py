"""The ends of partitions that subscribers follow: each new message is read and matched once."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from chordmq.broker.feed import Feed
from chordmq.broker.partition import Partition
from chordmq.errors import NotCommittedInTime, OffsetOutOfRange
from chordmq.fronts.mqtt.letters import Bundle
from chordmq.fronts.mqtt.mapping import Parcel, parcel_of
from chordmq.records.record import Record

RECORDS_AT_ONCE = 1_000
BYTES_AT_ONCE = 256 * 1024
REREAD_TIMEOUT_S = 5.0
UNKNOWN = -1
"""The end of a partition that nobody leads now."""
OWN_BYTES_MAX = 8 * 1024 * 1024
"""What is kept until it is committed and handed on; beyond it, it is read from the log."""


class Source(Protocol):
    """Where messages come from, and who wants to know what became of them."""

    partition: Partition
    is_own: bool
    """Whether the session itself keeps its place there; else a group does."""

    def settled(self, offset: int, *, is_taken: bool = True) -> None:
        """Take note that a client has answered for a message, or cannot take it."""
        ...


class Tail:
    """The end of one partition: hands on what is committed, in order, and waits for more.

    What this front has appended itself is handed on as it came, without reading it from the log.
    """

    is_own = True

    def __init__(
        self, partition: Partition, position: int, spread: Callable[[list[Parcel | Bundle]], None]
    ) -> None:
        self.partition = partition
        self.position = position
        """Everything before it was handed on."""
        self._spread = spread
        self.is_waiting = position == UNKNOWN
        """Whether nobody could say yet where the partition ends."""
        self._own: dict[int, list[Parcel | Bundle]] = {}
        self._own_bytes = 0
        self._is_scheduled = False
        self.is_closed = False
        self.wake()

    def begin(self, position: int) -> None:
        """Begin at what turned out to be the end."""
        self.position, self.is_waiting = position, False
        self.wake()

    def expect(self, base_offset: int, parcels: list[Parcel | Bundle]) -> None:
        """Take note of what this front has appended, and where it came to lie."""
        for parcel in parcels:
            parcel.source, parcel.base_offset = self, base_offset
            base_offset += len(parcel)
        if self._own_bytes >= OWN_BYTES_MAX:
            self._forget_own()  # an undecided transaction holds them up; the log has them
        self._own[parcels[0].base_offset] = parcels
        self._own_bytes += sum(map(_size, parcels))

    def _forget_own(self) -> None:
        self._own.clear()
        self._own_bytes = 0

    def settled(self, offset: int, *, is_taken: bool = True) -> None:
        """Let it be: sessions know their places by themselves."""

    def wake(self) -> None:
        """Hand on what there is, at the end of this turn."""
        if not self._is_scheduled and not self.is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def move(self, partition: Partition) -> None:
        """Go on with what stands for the partition, after a copy came here, or went."""
        self.partition = partition
        self._forget_own()
        self.wake()

    def close(self) -> None:
        """Follow the partition no more."""
        self.is_closed = True
        self.partition.forget(self)

    def _work(self) -> None:
        self._is_scheduled = False
        partition = self.partition
        if self.is_closed or partition.is_closed or self.is_waiting:
            return
        has_read = False
        while partition.readable(self.position):
            parcels = self._own.pop(self.position, None)
            if parcels is not None:
                # All that there is: what is received in a turn must not pile up from turn to turn.
                self.position = parcels[-1].base_offset + len(parcels[-1])
                self._own_bytes -= sum(map(_size, parcels))
            elif has_read:
                self.wake()  # others have their turn first
                return
            elif partition.awaits_disk(self.position, BYTES_AT_ONCE):
                break
            else:
                parcels, has_read = self._read_on(), True
            if parcels:
                self._spread(parcels)
        partition.wait(self)

    def _read_on(self) -> list[Parcel | Bundle]:
        """Return what others have appended, up to what this front has."""
        for base in [base for base in self._own if base <= self.position]:
            self._own_bytes -= sum(map(_size, self._own.pop(base)))
        nearest = min(self._own, default=self.position + RECORDS_AT_ONCE)
        count = min(nearest - self.position, RECORDS_AT_ONCE)
        parcels, self.position = read_parcels(self, self.position, count)
        return [*parcels]


def read_parcels(
    source: Source,
    offset: int,
    count_max: int,
    *,
    until: int | None = None,
    is_joining: bool = True,
) -> tuple[list[Parcel], int]:
    """Return messages from an offset on, and where to read on; what is gone is skipped.

    Alike messages side by side are one parcel, unless told otherwise. Nothing from the offset
    `until` on is returned.
    """
    partition = source.partition
    feed = Feed({partition.index: partition}, {partition.index: offset})
    try:
        found = feed.take(count_max, BYTES_AT_ONCE)
    except OffsetOutOfRange:
        feed.skip_gaps()
        return [], feed.offsets[partition.index]
    parcels: list[Parcel] = []
    last: Record | None = None
    for _, record in found:
        if until is not None and record.offset >= until:
            return parcels, until
        if is_joining and last is not None and _is_alike(last, record):
            parcels[-1].payloads.append(record.value or b"")
        else:
            parcels.append(parcel_of(partition.topic, record))
            parcels[-1].source = source
        last = record
    return parcels, feed.offsets[partition.index]


async def reread(source: Source, offset: int) -> list[Parcel]:
    """Return the message at an offset, from whichever node has it; nothing if it is gone."""
    partition = source.partition
    feed = Feed({partition.index: partition}, {partition.index: offset})
    try:
        while feed.is_at_end:
            if not await feed.more(REREAD_TIMEOUT_S):
                raise NotCommittedInTime(f"{partition.topic}-{partition.index} cannot be read now")
    finally:
        feed.close()
    return read_parcels(source, offset, 1)[0]


def _size(parcel: Parcel | Bundle) -> int:
    if isinstance(parcel, Bundle):
        return parcel.size
    return sum(map(len, parcel.packets or parcel.payloads))


def _is_alike(one: Record, other: Record) -> bool:
    """Return whether a record follows another and differs from it in its value only."""
    return (
        other.offset == one.offset + 1
        and other.headers == one.headers
        and other.key == one.key
        and other.timestamp == one.timestamp
        and one.value is not None
        and other.value is not None
    )

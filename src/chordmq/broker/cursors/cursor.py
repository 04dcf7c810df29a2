"""One shared cursor on its partition: reads what it gives, and stores what consumers settle."""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from typing import NamedTuple, Protocol

from chordmq.broker.audience import Reader
from chordmq.broker.cursors.records import CursorKey, CursorRecord, CursorSnapshot
from chordmq.broker.cursors.shared_cursor import (
    Change,
    Dead,
    Limits,
    Outcome,
    Settlement,
    SharedCursor,
    Taken,
)
from chordmq.broker.partition import Partition
from chordmq.broker.read_ahead import DISK_WAIT_S
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, NotLeader, UnknownTopic
from chordmq.records.batch import BatchHeader, read_header, walk
from chordmq.records.marker import read_marker
from chordmq.records.record import Record, read_records

RETRY_MS = 1_000
"""How long records stay with their consumer when taking them away could not be stored."""
READ_BYTES = 2**20
ANY_COUNT = 2**31


@dataclass(frozen=True, slots=True)
class Policy:
    """How a cursor gives its records, and what becomes of those that nobody can process."""

    limits: Limits = field(default_factory=Limits)
    only_stable: bool = False
    """Whether consumers read committed transactions only."""
    dead_letter: str = ""
    """The topic that gets a copy of records given up; empty for none."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Whole stored batches, and which of their records the consumer has got."""

    batches: list[memoryview] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    partition: Partition | None = None
    """Where the batches lie; None for no delivery at all."""

    @property
    def size(self) -> int:
        """Return how many bytes the batches have."""
        return sum(len(batch) for batch in self.batches)

    def records(self) -> Iterator[tuple[Record, int]]:
        """Yield the records that the consumer has got, each with its number of deliveries."""
        number, taken, partition = 0, self.taken, self.partition
        for batch in self.batches:
            assert partition is not None
            records = partition.records(read_header(batch), batch)
            end = records[-1].offset + 1 if records else 0
            while number < len(taken) and taken[number].first < end:
                first, last, deliveries = taken[number]
                start, stop = bisect_left(records, (first,)), bisect_left(records, (last + 1,))
                for record in records[start:stop]:
                    yield record, deliveries
                if last >= end:
                    break  # it goes on in the next batch
                number += 1


class Answer(NamedTuple):
    """What a consumer says of some of its records: one outcome for all, or one for each."""

    first: int
    last: int
    outcomes: Sequence[Outcome]


@dataclass(slots=True)
class Decided:
    """Settlements that are stored together, and who waits for that."""

    machine: SharedCursor
    changes: list[Change] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Keeper(Protocol):
    """What a cursor needs of those who keep it."""

    def now_ms(self) -> int:
        """Return the time by which deadlines are set."""
        ...

    def took(self, cursor: "Cursor") -> None:
        """Have the cursor's `expire` called when records that were taken come free."""
        ...

    def store(self, cursor: "Cursor", decided: Decided) -> None:
        """Write what was decided to the log, and then call the cursor's `stored`."""
        ...


class Bell(asyncio.Event):
    """Set when there may be something to take."""

    def wake(self) -> None:
        """Take note of it."""
        self.set()


class Cursor:
    """A group's index in one partition, kept by `Cursors`; lives on the event loop.

    What is settled while the last write is under way goes into the next one, so that many answers
    cost few flushes.
    """

    def __init__(
        self,
        key: CursorKey,
        partition: Partition,
        snapshot: CursorSnapshot,
        policy: Policy,
        keeper: Keeper,
    ) -> None:
        self.key = key
        self.partition = partition
        self._keeper = keeper
        self._readers: dict[Reader, None] = {}
        self._decided: Decided | None = None
        self._is_writing = False
        self.is_retired = False
        """Whether another node keeps the cursor now, or nobody."""
        self._policy = policy
        self.restore(snapshot)

    def restore(self, snapshot: CursorSnapshot) -> None:
        """Begin with a stored state; nobody holds anything."""
        self.epoch = snapshot.epoch
        self._created_ms = snapshot.created_ms
        self.machine = SharedCursor(snapshot.start, self._policy.limits)
        for change in snapshot.changes:
            self.machine.replay(change)
        self.wake()

    @property
    def policy(self) -> Policy:
        """Return the rules in force; new limits apply to what is taken or renewed from now on."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        if policy != self._policy:
            self._policy = policy
            self.machine.limits = policy.limits
            self.wake()

    @property
    def start(self) -> int:
        """Return the first offset that is not done."""
        return self.machine.start

    @property
    def lag(self) -> int:
        """Return how many offsets of the partition are not done."""
        start = max(self.machine.start, self.partition.log.start_offset)
        return max(self.partition.high_watermark - start - self.machine.done_after_start, 0)

    def record(self, now_ms: int) -> CursorRecord:
        """Return what the log must hold so that everything decided by now is kept."""
        start, changes = self.machine.stored()
        snapshot = CursorSnapshot(
            start=start,
            changes=tuple(changes),
            epoch=self.epoch,
            created_ms=self._created_ms,
            written_ms=now_ms,
        )
        return CursorRecord(self.key, snapshot)

    def take(
        self, holder: str, count_max: int, max_bytes: int, *, in_batches: bool = False
    ) -> Delivery:
        """Give a consumer records, at least one if any is available, and nobody waits for the disk.

        `in_batches` gives all available records of a batch rather than stop inside it.
        """
        self._check_open()
        while (offset := self._next_available()) is not None:
            if self.partition.awaits_disk(offset, min(max_bytes, READ_BYTES)):
                break
            batches = self._sifted(offset, max_bytes)
            if not batches:
                if self._next_available() == offset:
                    break  # the next record is not readable yet
                continue
            until = batches[-1][0].next_offset
            if in_batches:
                until = self._end_of_batches(batches, count_max)
            limit = ANY_COUNT if in_batches else count_max
            taken = self.machine.take(holder, self._keeper.now_ms(), until, limit)
            if taken:
                self._keeper.took(self)
                found = [data for header, data in batches if _has_any(header, taken)]
                return Delivery(found, taken, self.partition)
        return Delivery()

    async def take_now(self, holder: str, count_max: int, max_bytes: int) -> Delivery:
        """Give a consumer records, as `take` does, and wait if only the disk has them."""
        given = self.take(holder, count_max, max_bytes)
        with suppress(TimeoutError):
            async with asyncio.timeout(DISK_WAIT_S):
                while not given.taken and self._awaits_disk:
                    await self._woken()
                    given = self.take(holder, count_max, max_bytes)
        return given

    @property
    def _awaits_disk(self) -> bool:
        """Return whether what would be given next is being brought into memory."""
        offset = self._next_available()
        return offset is not None and self.partition.is_on_its_way(offset)

    async def _woken(self) -> None:
        bell = Bell()
        self.wait(bell)
        try:
            await bell.wait()
        finally:
            self.forget(bell)

    def available_bytes(self, max_bytes: int) -> int:
        """Return the size of what `take` would read now."""
        offset = None if self.partition.is_closed else self._next_available()
        if offset is None or self.partition.awaits_disk(offset, min(max_bytes, READ_BYTES)):
            return 0
        return sum(len(data) for _, data in self._sifted(offset, max_bytes))

    def _next_available(self) -> int | None:
        partition = self.partition
        self.machine.skip_to(partition.log.start_offset)
        only_stable = self._policy.only_stable
        end = partition.stable_offset if only_stable else partition.high_watermark
        return self.machine.next_available(end)

    def _end_of_batches(self, batches: list[tuple[BatchHeader, memoryview]], count_max: int) -> int:
        found, end = 0, 0
        for header, _ in batches:
            end = header.next_offset
            found += self.machine.count_available(header.base_offset, header.last_offset)
            if found >= count_max:
                break
        return end

    def _sifted(self, offset: int, max_bytes: int) -> list[tuple[BatchHeader, memoryview]]:
        """Read batches from an offset on; skip markers, aborted records and compacted offsets."""
        only_stable = self._policy.only_stable
        # More than this at once would be read in vain: only so many records may be under way.
        max_bytes = min(max_bytes, READ_BYTES)
        buffers = self.partition.read(offset, max_bytes, only_stable=only_stable)
        aborted = self.partition.aborted_in(offset, buffers) if only_stable else []
        aborted.sort(key=lambda transaction: transaction[1], reverse=True)
        aborting: set[int] = set()
        found: list[tuple[BatchHeader, memoryview]] = []
        for buffer in buffers:
            for position, header in walk(buffer):
                if header.base_offset >= self.machine.window_end:
                    return found
                self._skip(offset, header.base_offset - 1)
                offset = header.next_offset
                data = buffer[position : position + header.size]
                while aborted and aborted[-1][1] <= header.last_offset:
                    aborting.add(aborted.pop()[0])
                if header.is_control:
                    if not read_marker(data).is_commit:
                        aborting.discard(header.producer_id)
                    self._skip(header.base_offset, header.last_offset)
                elif header.is_transactional and header.producer_id in aborting:
                    self._skip(header.base_offset, header.last_offset)
                else:
                    found.append((header, data))
        return found

    def _skip(self, first: int, last: int) -> None:
        self.machine.skip(first, min(last, self.machine.window_end - 1))

    def settle(
        self, holder: str, first: int, last: int, outcomes: Sequence[Outcome]
    ) -> asyncio.Future[None]:
        """Take a consumer's answer; the future is done when it is in the log.

        One outcome counts for all offsets, else each has its own. Raises InvalidRecordState,
        and changes nothing, if the consumer does not hold them all.
        """
        return self.settle_all(holder, [Answer(first, last, outcomes)])

    def settle_all(self, holder: str, answers: Sequence[Answer]) -> asyncio.Future[None]:
        """Take several answers about offsets that do not overlap, all or none."""
        self._check_open()
        for answer in answers:
            self.machine.check_held(holder, *answer)
        settlement = Settlement()
        for answer in answers:
            self.machine.renew(holder, self._keeper.now_ms(), *answer)
            decided = self.machine.settle(holder, *answer)
            settlement.changes += decided.changes
            settlement.dead += decided.dead
        return self._keep(settlement)

    def expire(self) -> None:
        """Take records from consumers that were too slow."""
        self._keep_quietly(self.machine.expire(self._keeper.now_ms()))

    def leave(self, holder: str, *, is_counted: bool = True) -> None:
        """Give a consumer's records to others; they count as tried unless told otherwise."""
        self._keep_quietly(self.machine.leave(holder, is_counted=is_counted))

    def _keep(self, settlement: Settlement) -> asyncio.Future[None]:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if settlement.changes:
            self._add(settlement).waiting.append(stored)
        else:
            stored.set_result(None)
        return stored

    def _keep_quietly(self, settlement: Settlement) -> None:
        if settlement.changes:
            self._add(settlement)

    def _add(self, settlement: Settlement) -> Decided:
        if self._decided is None:
            self._decided = Decided(self.machine)
            if not self._is_writing:
                self._is_writing = True
                # In the next turn of the loop, once for all that is settled in this one.
                asyncio.get_running_loop().call_soon(self._write)
        self._decided.changes += settlement.changes
        self._decided.dead += settlement.dead
        return self._decided

    def _write(self) -> None:
        decided, self._decided = self._decided, None
        self._is_writing = decided is not None
        if decided is not None:
            self._keeper.store(self, decided)

    def stored(self, decided: Decided, error: ChordMQError | None) -> None:
        """Apply what is in the log now, or take it back, and tell those who wait."""
        retry_ms = self._keeper.now_ms() + RETRY_MS
        for change in decided.changes:
            if error is None:
                decided.machine.replay(change)
            else:
                decided.machine.undo(change, retry_ms)
        for waiting in decided.waiting:
            if waiting.done():  # the consumer has gone meanwhile
                continue
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)
        self._write()
        self.wake()

    def records(self, first: int, last: int) -> Iterator[Record]:
        """Yield the records of a range, read from the log."""
        offset = max(first, self.partition.log.start_offset)
        while offset <= last:
            buffers = self.partition.read(offset, READ_BYTES)
            if not buffers:
                return
            for buffer in buffers:
                for position, header in walk(buffer):
                    if header.base_offset > last:
                        return
                    found = read_records(buffer[position : position + header.size])
                    yield from (record for record in found if offset <= record.offset <= last)
                    offset = header.next_offset

    def wait(self, reader: Reader) -> None:
        """Have `reader` woken once when there may be something to take."""
        self._readers[reader] = None
        self.partition.wait(self)

    def forget(self, reader: Reader) -> None:
        """Do not wake `reader` any more."""
        self._readers.pop(reader, None)
        if not self._readers:
            self.partition.forget(self)

    def wake(self) -> None:
        """Tell all who wait that there is more, or that the partition is gone."""
        readers, self._readers = self._readers, {}
        for reader in readers:
            reader.wake()

    def _check_open(self) -> None:
        if self.partition.is_closed:
            raise UnknownTopic(f"{self.partition.topic} was deleted")
        if self.is_retired:
            raise NotLeader(f"cursors of {self.partition.topic} are kept elsewhere now")


def _has_any(header: BatchHeader, taken: list[Taken]) -> bool:
    return any(
        part.first <= header.last_offset and header.base_offset <= part.last for part in taken
    )

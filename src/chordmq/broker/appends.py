"""Joins what clients append to a partition in one turn of the event loop into one batch."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

from chordmq.broker.decoded import Built, New, one_by_one
from chordmq.broker.partition import Partition
from chordmq.broker.patience import ANOTHER_TIME, Patience
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, NotLeader, UnknownTopic
from chordmq.records.batch import HEADER_SIZE, read_header
from chordmq.records.record import NewRecord, RecordRun, build_batch, build_runs

RECORD_OVERHEAD_MAX = 40
"""Bytes that a record takes besides key, value and headers, at most: its seven numbers."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The records of one client, and its future for the offset of the first."""

    records: Built
    count: int
    size: int
    offset: asyncio.Future[int]


class Appends:
    """What waits for the end of this turn; one write and one flush then serve all of it."""

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = patience
        """Appends again what a change of leader gets in the way of; None if clients do so."""
        self._waiting: dict[Partition, list[Waiting]] = {}
        self.batches = 0
        self.records = 0

    def append(self, partition: Partition, records: Sequence[New]) -> asyncio.Future[int]:
        """Return a future for the first record's offset, done when all are committed.

        The records stay together in one batch, in their order; those that are alike are less work
        as runs.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._write_all)
        sealed = partition.sealed(records)
        waiting = Waiting(sealed, *_extent(sealed), loop.create_future())
        self._waiting.setdefault(partition, []).append(waiting)
        return waiting.offset

    def _write_all(self) -> None:
        everything, self._waiting = self._waiting, {}
        for partition, waiting in everything.items():
            for joined in _joined(waiting, partition.settings.max_message_bytes - HEADER_SIZE):
                self._write(partition, joined)

    def _write(self, partition: Partition, joined: list[Waiting]) -> None:
        records, data = _built([waiting.records for waiting in joined])
        batch = memoryview(data)
        built = read_header(batch)
        patience = self._patience
        if not partition.is_leader or (patience is not None and patience.holds_up(partition)):
            _forward(joined, self._elsewhere(partition, batch))
            return
        try:
            appended = partition.append(batch)
        except ChordMQError as error:
            if patience is not None and isinstance(error, ANOTHER_TIME):
                _forward(joined, patience.append(partition, batch))
                return
            if len(joined) == 1:
                _refuse(joined[0], error)
            else:  # one client's records must not fail another's
                for waiting in joined:
                    self._write(partition, [waiting])
            return
        partition.built(appended.base_offset, built, records)
        self.batches += 1
        self.records += built.record_count
        base_offset = appended.base_offset
        committed = partition.committed(appended.next_offset)
        if committed is None or patience is None or partition.replica is None:
            _tell(joined, base_offset, committed)
        else:
            _forward(joined, patience.see_through(partition, batch, base_offset, committed))

    def _elsewhere(self, partition: Partition, batch: memoryview) -> asyncio.Future[int]:
        if self._patience is not None:
            return self._patience.append(partition, batch)
        return partition.forward(batch)


def _built(parts: Sequence[Built]) -> tuple[Built, bytearray]:
    """Return the records of all parts together, and the batch with them."""
    if all(isinstance(part[0], RecordRun) for part in parts):
        runs = [run for part in parts for run in cast(Sequence[RecordRun], part)]
        return runs, build_runs(runs)
    records = [record for part in parts for record in one_by_one(part)]
    return records, build_batch(records)


def _joined(waiting: list[Waiting], size_max: int) -> Iterator[list[Waiting]]:
    """Yield who shares a batch; one that is too large by itself is refused by itself."""
    joined: list[Waiting] = []
    size = 0
    for one in waiting:
        if joined and size + one.size > size_max:
            yield joined
            joined, size = [], 0
        joined.append(one)
        size += one.size
    yield joined


def _tell(joined: list[Waiting], offset: int, committed: asyncio.Future[None] | None) -> None:
    """Tell the clients the offsets of what this node has appended, once it is committed."""
    if committed is not None:
        committed.add_done_callback(partial(_end, joined, offset))
    else:
        _settle(joined, offset, None)


def _end(joined: list[Waiting], offset: int, committed: asyncio.Future[None]) -> None:
    if committed.cancelled():
        error: BaseException | None = UnknownTopic("the topic was deleted meanwhile")
    else:
        error = committed.exception()
    _settle(joined, offset, error)


def _forward(joined: list[Waiting], appended: asyncio.Future[int]) -> None:
    """Tell the clients what came of a batch that another node is to append."""

    def done(future: asyncio.Future[int]) -> None:
        if future.cancelled():
            error: BaseException | None = NotLeader("the node stops")
        else:
            error = future.exception()
        _settle(joined, future.result() if error is None else 0, error)

    appended.add_done_callback(done)


def _settle(joined: list[Waiting], offset: int, error: BaseException | None) -> None:
    """Tell each client the first offset of its own records, or why they are not stored."""
    for waiting in joined:
        if error is not None:
            _refuse(waiting, error)
        elif not waiting.offset.done():
            waiting.offset.set_result(offset)
        offset += waiting.count


def _refuse(waiting: Waiting, error: BaseException) -> None:
    if not waiting.offset.done():
        waiting.offset.set_exception(error)


def _extent(records: Built) -> tuple[int, int]:
    """Return how many records there are, and how many bytes they may take at most in a batch."""
    count = size = 0
    if not (records and isinstance(records[0], RecordRun)):
        return len(records), size_of_all(one_by_one(records))
    for time, key, headers, values in cast(Sequence[RecordRun], records):
        around = size_of(NewRecord(time, key, None, headers))
        count += len(values)
        size += around * len(values) + sum([len(value or b"") for value in values])
    return count, size


def size_of_all(records: Sequence[NewRecord]) -> int:
    """Return how many bytes records may take at most in a batch."""
    size, last, around = 0, None, 0
    for _, key, value, headers in records:
        if headers is not last:  # what one client sends has often the very same
            last, around = headers, RECORD_OVERHEAD_MAX
            for name, said in headers:
                around += 10 + len(name.encode()) + len(said or b"")
        size += around + len(key or b"") + len(value or b"")
    return size


def size_of(record: NewRecord) -> int:
    """Return how many bytes a record may take at most in a batch."""
    return size_of_all((record,))

"""What one client fetches: a row per partition, and which rows have something to send.

A row either has something to send (it is in `ready`) or waits at its partition to be woken, so
that a fetch over a thousand partitions costs only as much as the few that got new records.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from chordmq.broker.partition import Partition
from chordmq.codecs.kafka.fetch import NO_REPLICA, PartitionRecords, TopicRecords
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, NotLeader
from chordmq.fronts.kafka.errors import code_of
from chordmq.fronts.kafka.leaders import leader_of

SESSIONLESS = 0
EPOCH_MAX = 0x7FFFFFFF

RowKey = tuple[str, bytes, int]


class Waiter(Protocol):
    """A fetch that waits for a row to become ready."""

    def wake(self) -> None:
        """Look again whether there is enough to answer."""
        ...


@dataclass(slots=True, eq=False)
class Row:
    """One partition as the client fetches it; `error_code` instead of a partition if refused."""

    session: "FetchSession"
    topic: str
    topic_id: bytes
    index: int
    partition: Partition | None
    offset: int
    max_bytes: int
    leader_epoch: int
    error_code: int = 0
    sent_watermark: int = -2
    sent_stable: int = -2
    sent_start: int = -2

    def wake(self) -> None:
        """Take note that the partition has more."""
        self.session.row_woken(self)

    def read(self, max_bytes: int) -> PartitionRecords:
        """Read what the client may have now, or say why it may not."""
        partition = self.partition
        if partition is None:
            return PartitionRecords(self.index, self.error_code)
        try:
            if partition.is_closed:
                raise NotLeader("the topic is gone")
            partition.check_epoch(self.leader_epoch)
            reads_copies = self.session.reads_copies and not partition.is_absent
            if not (partition.is_leader or reads_copies):
                raise NotLeader("another node leads the partition")
            nearer = self.session.nearer
            if nearer is not None and (replica := nearer(partition, self.offset)) != NO_REPLICA:
                records = self.status()
                records.preferred_replica = replica
                return records
            only_stable = self.session.only_stable
            size = max(0, min(self.max_bytes, max_bytes))
            if self.session.is_patient and partition.awaits_disk(self.offset, size):
                return self.status()  # it is woken when memory has what the client wants
            if self.offset < partition.log.memory_start:
                partition.read_ahead.note(self.session)
            buffers = partition.read(self.offset, size, only_stable=only_stable)
        except ChordMQError as error:
            leader = leader_of(partition) if isinstance(error, NotLeader) else None
            return PartitionRecords(self.index, code_of(error), leader=leader)
        records = self.status()
        records.buffers = buffers
        if only_stable:
            records.aborted = partition.aborted_in(self.offset, buffers)
        return records

    def status(self) -> PartitionRecords:
        """Say how far the partition goes, without records."""
        partition = self.partition
        if partition is None:
            return PartitionRecords(self.index, self.error_code)
        return PartitionRecords(
            self.index,
            0,
            partition.high_watermark,
            partition.stable_offset,
            partition.log.start_offset,
        )

    def is_news(self, records: PartitionRecords) -> bool:
        """Return whether an incremental answer must name this row."""
        return bool(
            records.buffers
            or records.error_code
            or records.preferred_replica != NO_REPLICA
            or records.high_watermark != self.sent_watermark
            or records.last_stable_offset != self.sent_stable
            or records.start_offset != self.sent_start
        )

    def sent(self, records: PartitionRecords) -> None:
        """Remember what the client knows."""
        self.sent_watermark = records.high_watermark
        self.sent_stable = records.last_stable_offset
        self.sent_start = records.start_offset


class FetchSession:
    """The rows of one client (KIP-227), or those of a single request when `id` is 0."""

    def __init__(self, session_id: int, acl_version: int = 0) -> None:
        self.id = session_id
        self.acl_version = acl_version
        """The ACLs by which the rows were found readable or not."""
        self.has_failed = False
        """Whether a row had an error; its topic may be there, or be another one, the next time."""
        self.epoch = 1
        self.reads_copies = False
        """Whether the client can read from followers (KIP-392)."""
        self.nearer: Callable[[Partition, int], int] | None = None
        """Says which copy a client should read instead; None if it reads where it is."""
        self.is_patient = False
        """Whether the client waits for records, so that it can wait for the disk."""
        self.only_stable = False
        """Whether the client reads committed transactions only, as its last request says."""
        self.waiter: Waiter | None = None
        self._rows: dict[RowKey, Row] = {}
        self._ready: dict[Row, None] = {}

    def put(self, row: Row) -> None:
        """Add a row, or replace what the client asked of this partition before."""
        key = (row.topic, row.topic_id, row.index)
        old = self._rows.get(key)
        if old is not None:
            self._drop(old)
            row.sent_watermark, row.sent_start = old.sent_watermark, old.sent_start
            row.sent_stable = old.sent_stable
        self._rows[key] = row
        self._ready[row] = None

    def check(self, readable: Callable[[Row], tuple[Partition | None, int]]) -> None:
        """Ask of every row anew which partition it means, and whether the client may read it."""
        self.has_failed = False
        for row in self._rows.values():
            partition, error_code = readable(row)
            if partition is not row.partition or error_code != row.error_code:
                self._drop(row)
                row.partition, row.error_code = partition, error_code
                self._ready[row] = None

    def forget(self, keys: Iterable[RowKey]) -> None:
        """Remove rows that the client no longer wants."""
        for key in keys:
            row = self._rows.pop(key, None)
            if row is not None:
                self._drop(row)

    def _drop(self, row: Row) -> None:
        self._ready.pop(row, None)
        if row.partition is not None:
            row.partition.forget(row)

    def park(self, waiter: Waiter) -> None:
        """Have the waiter woken when any row gets more, those with too little so far as well."""
        self.waiter = waiter
        for row in self._ready:
            if row.partition is not None:
                row.partition.wait(row)

    def only_row(self) -> Row | None:
        """Return the one row that the client fetches, if there is no other."""
        if len(self._rows) != 1:
            return None
        [row] = self._rows.values()
        return row

    def advance(self) -> None:
        """Expect the request after this one."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def go_on(self, row: Row, offset: int) -> None:
        """Let a row, which has something to send, be read from an offset on."""
        assert row.partition is not None
        row.partition.forget(row)
        row.offset = offset
        self._ready[row] = None

    def row_woken(self, row: Row) -> None:
        """Take note that a row has something to send."""
        self._ready[row] = None
        if self.waiter is not None:
            self.waiter.wake()

    def collect(self, max_bytes: int) -> tuple[list[tuple[Row, PartitionRecords]], int, bool]:
        """Read the ready rows; return them, their sizes' sum and whether one is to be told now."""
        found: list[tuple[Row, PartitionRecords]] = []
        total, failed = 0, False
        for row in list(self._ready):
            if total >= max_bytes:
                break
            records = row.read(max_bytes - total)
            found.append((row, records))
            if records.buffers:
                total += sum(len(buffer) for buffer in records.buffers)
                # Behind the others the next time, so that no partition starves.
                del self._ready[row]
                self._ready[row] = None
            elif records.error_code:
                failed = self.has_failed = True
            elif records.preferred_replica != NO_REPLICA:
                failed = True  # the client need not wait to learn of it
            else:
                del self._ready[row]
                assert row.partition is not None
                row.partition.wait(row)
        return found, total, failed

    def answer(
        self, found: list[tuple[Row, PartitionRecords]], is_full: bool
    ) -> list[TopicRecords]:
        """Group by topic what the client must be told; a full answer names every row."""
        if is_full:
            named = {id(row) for row, _ in found}
            rest = [row for row in self._rows.values() if id(row) not in named]
            found = found + [(row, row.status()) for row in rest]
        topics: dict[tuple[str, bytes], TopicRecords] = {}
        for row, records in found:
            if is_full or row.is_news(records):
                key = (row.topic, row.topic_id)
                if key not in topics:
                    topics[key] = TopicRecords(row.topic, row.topic_id, [])
                topics[key].partitions.append(records)
                row.sent(records)
        return list(topics.values())

    def close(self) -> None:
        """Let go of all partitions."""
        self.forget(list(self._rows))

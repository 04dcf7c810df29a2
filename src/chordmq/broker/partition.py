"""One partition: takes batches, says what is committed, and wakes those who wait for more."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from chordmq.broker.audience import Audience
from chordmq.broker.commits import Commits, Waiter
from chordmq.broker.contents import Contents
from chordmq.broker.intake import Intake
from chordmq.broker.joint_run import JointRun
from chordmq.broker.log_settings import log_settings
from chordmq.broker.producers import ProducerState
from chordmq.broker.settings import TopicSettings
from chordmq.broker.shared import Appended, Shared
from chordmq.errors import (
    ChordMQError,
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    NotLeader,
    OffsetNotAvailable,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownTopic,
)
from chordmq.logs import get_logger
from chordmq.records.batch import BatchHeader, place, read_header, verify, walk
from chordmq.records.marker import Marker, build_marker, read_marker
from chordmq.records.origin import NO_PRODUCER
from chordmq.storage.compaction import Compaction
from chordmq.storage.log import Log

if TYPE_CHECKING:
    from chordmq.broker.replica import Replica

logger = get_logger(__name__)

NO_EPOCH = -1
SNAPSHOT_BYTES = 4 << 20
"""Of the log without a snapshot of its producers, which a start has to read."""


class Partition(Contents, Audience):
    """The only writer of its log; lives on the event loop, so that nothing needs a lock.

    The high watermark is the end of what consumers may see. With flush=disk it follows the flushed
    offset, so that nobody ever reads a record that a power cut could take back. With a replica it
    follows what all in-sync copies have.
    """

    is_absent = False
    """Whether this node has no log of the partition."""
    moved_to: "Partition | None" = None
    """What stands for the partition when this has ended because a copy came here, or went."""

    def __init__(
        self, topic: str, index: int, log: Log, settings: TopicSettings, shared: Shared
    ) -> None:
        super().__init__()
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = 0
        self.producers = ProducerState()
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.is_closed = False
        self._shared = shared
        self._flusher = shared.flusher
        self.read_ahead = shared.read_ahead
        self._commits = Commits()
        self.high_watermark = 0
        self._unsaved_bytes = 0
        self.replica: Replica | None = None
        """This copy among others; None when it is the only one and leads for ever."""
        if shared.new_replica is not None:
            self.replica = shared.new_replica(self)
        self.settings = settings
        self._restore_producers()
        self._progress()

    @property
    def settings(self) -> TopicSettings:
        """Return the topic's settings in force."""
        return self._settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._intake = Intake(settings, self._shared.clock)
        self._flushes = settings.flushes_to_disk
        self.log.settings = log_settings(settings)
        if self.replica is not None:
            self.replica.set_min_in_sync(settings.min_insync_replicas)
        if not self._flushes:
            self._progress()

    @property
    def is_leader(self) -> bool:
        """Return whether clients write here."""
        return self.replica is None or self.replica.leader is not None

    @property
    def safe_offset(self) -> int:
        """Return how far the log is as safe as the topic demands, on this node alone."""
        return self.log.flushed_offset if self._flushes else self.log.end_offset

    @property
    def stable_offset(self) -> int:
        """Return the end of what a reader of committed transactions may see."""
        return max(
            self.producers.transactions.stable_offset(self.high_watermark), self.log.start_offset
        )

    def append(
        self,
        data: memoryview,
        *,
        is_enlisted: bool = False,
        is_quorum_needed: bool = True,
        is_copy: bool = False,
        is_lent: bool = False,
    ) -> Appended:
        """Check one batch, give it its offsets and write it; a repeated one is not stored again.

        A transaction may begin here only if its coordinator has enlisted the partition. Unless the
        client will wait for no other copy, enough of them must be in sync. `is_copy`: another
        cluster's batch, which says where it comes from. `is_lent`: its memory may be used again
        when this returns.
        """
        data, header, append_time_ms = self._checked(data, is_quorum_needed, is_copy)
        start_offset = self.log.start_offset
        if header.producer_id > NO_PRODUCER:
            known = self.producers.check(header, is_enlisted=is_enlisted)
            if known is not None:
                last = known + header.last_offset_delta
                return Appended(known, last + 1, append_time_ms, start_offset)
        self._place(data, header, self.log.end_offset)
        self._write([data], [header], is_lent=is_lent)
        return Appended(header.base_offset, header.next_offset, append_time_ms, start_offset)

    def append_together(
        self, batches: Sequence[memoryview], *, is_quorum_needed: bool
    ) -> list[Appended | ChordMQError]:
        """Append batches of several clients by one write; each is taken or refused by itself.

        Their memory may be used again when this returns.
        """
        results: list[Appended | ChordMQError] = []
        run = JointRun(self.log.end_offset, self.leader_epoch)
        start_offset = self.log.start_offset
        for batch in batches:
            known = None
            try:
                data, header, append_time_ms = self._checked(batch, is_quorum_needed)
                if header.producer_id > NO_PRODUCER and not run.takes(header):
                    if run.knows(header.producer_id):  # what it has to follow must be noted first
                        run = self._write_run(run, results)
                    known = self.producers.check(header)
            except ChordMQError as error:
                results.append(error)
                continue
            base_offset = run.end_offset if known is None else known
            if known is None:
                run.add(len(results), data, header)
            following = base_offset + header.last_offset_delta + 1
            results.append(Appended(base_offset, following, append_time_ms, start_offset))
        self._write_run(run, results)
        return results

    def _write_run(self, run: JointRun, results: list[Appended | ChordMQError]) -> JointRun:
        """Write batches that have their offsets; return a run for those that come behind them."""
        if run.headers:
            pieces, is_lent = run.pieces()
            try:
                self._write(pieces, run.headers, is_lent=is_lent)
            except ChordMQError as error:
                for number in run.numbers:
                    results[number] = error
        return JointRun(self.log.end_offset, self.leader_epoch)

    def _checked(
        self, data: memoryview, is_quorum_needed: bool, is_copy: bool = False
    ) -> tuple[memoryview, BatchHeader, int]:
        shared = self._shared
        if self.is_closed or shared.full or self.log.fault or self.replica is not None:
            self._check_writable(is_quorum_needed)
        if shared.intercept is not None:
            data = shared.intercept(self.topic, data)
        return self._intake.check(data, is_copy=is_copy)

    def forward(self, data: memoryview) -> asyncio.Future[int]:
        """Return a future for the first offset of a batch that another node is to append."""
        assert self._shared.forward is not None, "a node alone leads everything"
        return self._shared.forward(self, data)

    def append_marker(self, marker: Marker) -> int:
        """End a producer's transaction here, and return the offset after its marker."""
        if self.is_closed or self._shared.full or self.replica is not None:
            self._check_writable(is_quorum_needed=True)
        self.producers.check_marker(marker)
        data = memoryview(build_marker(marker, self._shared.clock.now_ms()))
        header = read_header(data)
        self._place(data, header, self.log.end_offset)
        self._write([data], [header], marker)
        return header.next_offset

    def _check_writable(self, is_quorum_needed: bool) -> None:
        if self.is_closed:
            raise UnknownTopic(f"{self.topic} was deleted")
        if self.replica is not None:
            self.replica.check_leading(is_quorum_needed=is_quorum_needed)
        # Before sequences are looked at, or the next batch would seem to leave a gap.
        if self._shared.full:
            self._give_up(DiskFull(self._shared.full))
        if self.log.fault:
            self._give_up(StorageFailed(self.log.fault))

    def _give_up(self, error: ChordMQError) -> NoReturn:
        """Refuse a write that the disk refuses, and let another copy lead if there is one."""
        if self.replica is not None:
            self.replica.resign()
        raise error

    def _place(self, data: memoryview, header: BatchHeader, base_offset: int) -> None:
        header.base_offset = base_offset
        header.leader_epoch = self.leader_epoch
        place(data, 0, base_offset, self.leader_epoch)

    def _write(
        self,
        pieces: Sequence[memoryview],
        headers: Sequence[BatchHeader],
        marker: Marker | None = None,
        *,
        is_lent: bool = False,
    ) -> None:
        """Write batches that follow the log's end, and remember them once they are in it."""
        try:
            self.log.append(pieces, headers, is_lent=is_lent)
        except (DiskFull, StorageFailed) as error:
            self._shared.report(error)
            self._give_up(error)
        for header in headers:
            self._note(header, marker)
        if self.replica is not None:
            self.replica.appended()
        self._make_safe()

    def _note(self, header: BatchHeader, marker: Marker | None) -> None:
        self.producers.replay(header, marker)
        self._unsaved_bytes += header.size
        self.bytes_in += header.size
        self.records_in += header.record_count

    def _make_safe(self) -> None:
        if self._flushes:
            self._flusher.request(self)
        else:
            self._progress()
            if self.log.has_unflushed_segments:
                self._flusher.request(self)  # so that a sealed segment gives up its descriptor

    def _progress(self) -> None:
        """Move the high watermark, as far as this copy and the others let it."""
        safe = self.log.flushed_offset if self._flushes else self.log.end_offset
        self.commit(safe if self.replica is None else self.replica.progressed(safe))

    def flushed(self) -> None:
        """Move the high watermark after the log's flushed offset has moved."""
        if self._flushes:
            self._progress()
            # A deleted topic's files are renamed next; a flush would find them gone.
            if self.log.flushed_offset < self.log.end_offset and not self.is_closed:
                self._flusher.request(self)

    def committed(self, next_offset: int) -> asyncio.Future[None] | None:
        """Return None if all before `next_offset` is committed, else a future that waits for it."""
        if next_offset <= self.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._commits.add(next_offset, future)
        return future

    def tell(self, next_offset: int, waiter: Waiter) -> None:
        """Have a waiter told when all before an offset is committed, which it is not yet."""
        self._commits.add(next_offset, waiter)

    def take(self, records: memoryview) -> None:
        """Write batches of the leader as they are; raise CorruptBatch if they are not whole."""
        if self._shared.full:
            raise DiskFull(self._shared.full)
        batches = list(walk(records))
        for position, header in batches:
            verify(records, position, header)
        base_offset = batches[0][1].base_offset
        if base_offset < self.log.end_offset:
            # Compaction on the leader has joined batches; what is here ends inside of one.
            self.cut(base_offset)
        if base_offset != self.log.end_offset:
            raise CorruptBatch(f"{base_offset} does not follow {self.log.end_offset}")
        self.log.append([records], [header for _, header in batches])
        if self._shared.copied is not None:
            self._shared.copied(self.topic, records)
        for position, header in batches:
            batch = records[position : position + header.size]
            self._note(header, read_marker(batch) if header.is_control else None)
        self._make_safe()

    def cut(self, offset: int) -> None:
        """Remove what lies at or after the offset, of which the leader knows nothing."""
        logger.info("log cut", log=self.log.name, end=self.log.end_offset, to=offset)
        with self._flusher.watching(self):
            self.log.truncate(offset)
        self._after_cut()

    def restart(self, offset: int) -> None:
        """Drop the log and go on at the offset, where the leader's begins."""
        logger.info("log begun anew", log=self.log.name, end=self.log.end_offset, at=offset)
        self.log.restart(offset)
        self._after_cut()

    def _after_cut(self) -> None:
        end = self.log.end_offset
        self.high_watermark = max(min(self.high_watermark, end), self.log.start_offset)
        self.producers = ProducerState()
        self._unsaved_bytes = 0
        self._restore_producers()

    def begin_epoch(self) -> None:
        """Tell those who wait for commits that another may lead now; have readers look again."""
        self._commits.fail(NotLeader("the leader changed before all copies had this"))
        self.wake()

    def commit(self, high_watermark: int) -> None:
        """Take note of how far all in-sync copies have the partition, and tell who waits."""
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        self._commits.reached(high_watermark)
        if self._readers:
            self.wake()

    def read(self, offset: int, max_bytes: int, *, only_stable: bool = False) -> list[memoryview]:
        """Return whole committed batches from the one that holds `offset` on.

        `only_stable` ends before the first transaction that is not decided.
        """
        log = self.log
        if not log.start_offset <= offset <= log.end_offset:
            if offset > log.end_offset and not self.is_leader:
                raise OffsetNotAvailable(f"the copy here ends at {log.end_offset}")
            raise OffsetOutOfRange(
                f"{self.topic}-{self.index} has offsets {log.start_offset} to {log.end_offset}, "
                f"not {offset}"
            )
        limit = self.stable_offset if only_stable else self.high_watermark
        if offset >= limit:
            return []
        found = log.read(offset, max_bytes, limit=limit)
        self.bytes_out += sum(map(len, found))
        return found

    def readable(self, offset: int) -> bool:
        """Return whether a reader at the offset finds something now: records, or a gap."""
        if self.nearest(offset) != offset:
            return True
        return offset < self.stable_offset and not self.is_on_its_way(offset)

    def awaits_disk(self, offset: int, max_bytes: int) -> bool:
        """Return whether a read has to wait for the disk; who waits for more is woken afterwards.

        It is not readable until then. Only for readers who wait if they find nothing.
        """
        log = self.log
        if offset >= log.memory_start or not log.start_offset <= offset < self.high_watermark:
            return False
        with suppress(ChordMQError):  # the read says what is wrong
            return self.read_ahead.awaits(log, offset, max_bytes, self.wake)
        return False

    def is_on_its_way(self, offset: int) -> bool:
        """Return whether the disk is being asked for an offset; readers are woken afterwards."""
        return self.read_ahead.joins(self.log, offset, self.wake)

    def nearest(self, offset: int) -> int:
        """Return where a reader goes on who wants this offset; a copy may be late, and waits."""
        log = self.log
        if offset < log.start_offset:
            return log.start_offset
        return offset if offset <= log.end_offset or not self.is_leader else log.end_offset

    def aborted_in(self, offset: int, buffers: list[memoryview]) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of each aborted transaction in what was read."""
        transactions = self.producers.transactions
        if not buffers or not transactions.aborted:
            return []
        end = max(header.next_offset for _, header in walk(buffers[-1]))
        return [one[:2] for one in transactions.aborted_between(offset, end)]

    def check_epoch(self, epoch: int) -> None:
        """Refuse a client whose knowledge of the leader is older or newer than ours."""
        if epoch != NO_EPOCH and epoch != self.leader_epoch:
            if epoch < self.leader_epoch:
                raise FencedLeaderEpoch(f"the leader epoch is {self.leader_epoch}, not {epoch}")
            raise UnknownLeaderEpoch(f"the leader epoch is {self.leader_epoch}, not yet {epoch}")

    def check_leading(self) -> None:
        """Raise NotLeader unless this node leads the partition."""
        if self.replica is not None:
            self.replica.check_leading()

    def check_current(self) -> None:
        """Raise unless this node leads, and knows all that leaders before it have committed."""
        if self.replica is not None:
            self.replica.check_current()

    async def delete_records(self, before: int) -> int:
        """Drop records before an offset (-1: all committed ones); return the new first offset."""
        self.check_leading()
        if before == -1:
            before = self.high_watermark
        if not 0 <= before <= self.high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic}-{self.index} is committed up to {self.high_watermark}, not {before}"
            )
        await asyncio.wrap_future(self.log.delete_before(before))
        return self.log.start_offset

    def begin_compaction(self) -> Compaction | None:
        """Return a pass over the oldest segments, up to what is not decided, if it is worth it."""
        is_aborted = self.producers.transactions.aborted_batches()
        return self.log.begin_compaction(self.stable_offset, is_aborted)

    async def save_producers(self) -> None:
        """Store the producers' state beside the log, so that the next start reads less."""
        self.producers.transactions.forget_before(self.log.start_offset)
        needed = 1 if self.producers.origins.next else SNAPSHOT_BYTES  # retention may take them
        if self._unsaved_bytes >= needed:
            self._unsaved_bytes = 0
            await asyncio.to_thread(
                self.log.write_snapshot, self.log.end_offset, self.producers.snapshot()
            )

    def _restore_producers(self) -> None:
        """Read the newest snapshot, then the batches after it."""
        start = self.log.start_offset
        snapshot = self.log.newest_snapshot()
        if snapshot is not None:
            try:
                self.producers.restore(snapshot[1])
                start = max(start, snapshot[0])
            except CorruptBatch:
                pass  # the batches themselves say the same, only slower
        for header, batch in self.log.scan(start):
            self._unsaved_bytes += header.size
            self.producers.replay(header, read_marker(batch) if header.is_control else None)
        self.producers.transactions.forget_before(self.log.start_offset)

    def save(self) -> None:
        """Store what a restart needs; blocks, in any thread while nobody uses the partition."""
        producers = self.producers
        is_needed = bool(producers.producers or producers.origins.next)
        if self._unsaved_bytes >= SNAPSHOT_BYTES or (self._unsaved_bytes and is_needed):
            self._unsaved_bytes = 0
            with suppress(DiskFull, StorageFailed):  # it only makes the next start quicker
                self.log.write_snapshot(self.log.end_offset, self.producers.snapshot())
        self.log.save()

    def close(self) -> None:
        """Store what a restart needs, and close the log; blocks."""
        self._end()
        self.save()
        self.log.close()

    async def discard(self) -> None:
        """Close the log of a deleted topic as soon as no flush is under way."""
        self._end()
        await self._flusher.finished(self)
        try:
            await asyncio.wrap_future(self.log.abandon())
        except StorageFailed as error:
            logger.error("log cannot be forgotten", log=self.log.name, error=str(error))

    def _end(self) -> None:
        """Tell all who wait that nothing more comes."""
        self.is_closed = True
        self._commits.end()
        self.wake()

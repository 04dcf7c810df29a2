"""A group coordinator in a simulated broker: the broker's own machines on a simulated log.

What the event loop does in the broker is done here step by step, in the order that a schedule
says: `InternalLog` reads the log of a new leader epoch and writes one batch at a time, and
`ClassicCoordinator` answers what a group has decided once that is written.
"""

from collections.abc import Callable, Sequence
from itertools import count

from chordmq.broker.groups.classic_groups import Answer, Group, Outbox
from chordmq.broker.groups.consumer_groups import Beat, ConsumerGroup
from chordmq.broker.groups.consumer_image import ConsumerRecord, Image
from chordmq.broker.groups.membership import GroupSnapshot, Identity, Join, Sync
from chordmq.broker.groups.offsets import Commit, CommittedOffset, OffsetRecord, Offsets, Place
from chordmq.broker.groups.records import GroupRecord
from chordmq.broker.groups.topic_view import TopicFacts, TopicView
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.write_queue import Done, Write, WriteQueue, end
from chordmq.cluster.replication.leader import Leader
from chordmq.errors import ChordMQError, CoordinatorLoading, NotCoordinator
from tests.sim.brokers import Process, SimLog

GROUPS = ("a", "b")
CONSUMERS = "c"
"""The group of the consumer protocol."""
TOPIC = "t"
PARTITIONS = 4
TOPICS = TopicView([TopicFacts(TOPIC, bytes(16), PARTITIONS)])
SETTINGS = BrokerSettings(group_initial_rebalance_delay_ms=0)
METADATA_BYTES_MAX = 100
SESSION_MS = 6_000

Entry = OffsetRecord | GroupRecord | ConsumerRecord
Batch = tuple[Entry, ...]
Heard = Callable[[object], None]
"""Takes the answer to a request, or the error."""


class Coordinator:
    """Looks after all groups for as long as its broker's process lives."""

    def __init__(
        self, process: Process, now_s: Callable[[], float], appended: Callable[[], None]
    ) -> None:
        self.read: tuple[int, int] | None = None
        """The leader epoch in which the log was read, and where it ended then."""
        self.led: int | None = None
        """The leader epoch in which all that was read is committed."""
        self._process = process
        self.groups = self._new_groups()
        self.consumers = self._new_consumers()
        self.offsets = Offsets(METADATA_BYTES_MAX)
        self._now_s = now_s
        self._appended = appended
        self._queue: WriteQueue[Entry] = WriteQueue()
        self._under_way: tuple[list[Write[Entry]], int] | None = None
        """The writes in the last batch, and the offset behind it."""
        self._waiting: dict[int, Heard] = {}
        self._tickets = count()
        self._unlogged: list[Heard] | None = None
        """Who hears of the consumers' last write; None if none is under way."""

    # As InternalLog does.

    def work(self) -> None:
        """Follow the leader epoch, write what waits, and let groups act on their deadlines."""
        self._reconcile()
        if self._under_way is None:
            writes = self._queue.take()
            if writes:
                self._write(writes)
        if self.led is not None:
            for group in self.groups.values():
                group.tick(self._now_ms())
                self._settle(group)
            self.consumers.tick(self._now_ms())
            self._log_consumers(self.consumers, None)

    def check(self) -> Leader:
        """Return the leader if clients may be served, else raise."""
        leader = self._process.leader
        if leader is None or leader.is_fenced(self._now_s()):
            raise NotCoordinator("another broker leads")
        if self.led != leader.epoch:
            raise CoordinatorLoading("the log is being read")
        return leader

    def on_turned(self) -> None:
        """Take note that another leader epoch has begun."""
        if self._under_way is not None:
            writes, _ = self._under_way
            self._under_way = None
            self._fail(writes)

    def on_committed(self, high_watermark: int) -> None:
        """Take note of how far the log is committed."""
        if self._under_way is not None and high_watermark >= self._under_way[1]:
            writes, _ = self._under_way
            self._under_way = None
            end(writes, None)

    def _reconcile(self) -> None:
        leader = self._process.leader
        epoch = None if leader is None else leader.epoch
        if self.read is not None and self.read[0] != epoch:
            self._forget()
        if epoch is not None and self.read is None:
            self._load(self._process.log)
            self.read = (epoch, self._process.log.end_offset)
        if self.read is not None and self._is_committed(self.read[1]):
            self.led = self.read[0]

    def _is_committed(self, read_end: int) -> bool:
        return self._process.high_watermark >= read_end

    def _write(self, writes: list[Write[Entry]]) -> None:
        leader, log = self._process.leader, self._process.log
        if leader is None or not leader.has_enough or not self._may_write(writes[0], leader):
            self._fail(writes)
            return
        log.records.append((leader.epoch, tuple(one for write in writes for one in write.records)))
        self._under_way = (writes, log.end_offset)
        self._appended()

    def _may_write(self, write: Write[Entry], leader: Leader) -> bool:
        return write.epoch == leader.epoch and not leader.is_fenced(self._now_s())

    def _fail(self, writes: list[Write[Entry]]) -> None:
        end([*writes, *self._queue.take_behind(writes)], NotCoordinator("not written"))

    def _append(self, group_id: str, entries: Sequence[Entry], done: Done) -> None:
        epoch = None if self.read is None else self.read[0]
        self._queue.add(Write(group_id, entries, done, epoch=epoch))

    # As GroupCoordinator and ClassicCoordinator do.

    def join(self, group_id: str, join: Join, heard: Heard) -> None:
        """Take a member into the next generation."""
        group = self.groups[group_id]
        self._ask(group, lambda ticket: group.join(join, ticket, self._now_ms()), heard)

    def sync(self, group_id: str, sync: Sync, heard: Heard) -> None:
        """Give a member its assignment."""
        group = self.groups[group_id]
        self._ask(group, lambda ticket: group.sync(sync, ticket, self._now_ms()), heard)

    def heartbeat(self, group_id: str, identity: Identity, heard: Heard) -> None:
        """Keep a member's session alive."""
        self.groups[group_id].heartbeat(identity, self._now_ms())
        heard(None)

    def commit(self, group_id: str, identity: Identity, commit: Commit, heard: Heard) -> None:
        """Commit an offset; answer when it is in the log."""
        self._check_commit(group_id, identity)
        records, _ = self.offsets.commits(group_id, [commit], self._now_ms())

        def done(error: ChordMQError | None) -> None:
            if error is None:
                for record in records:
                    self.offsets.replay(record)
            heard(error)

        self._append(group_id, records, done)

    def _check_commit(self, group_id: str, identity: Identity) -> None:
        """Refuse the commit of one who is not in the generation."""
        self.groups[group_id].check_commit(identity, self._now_ms())

    def committed(self, group_id: str, heard: Heard) -> None:
        """Tell what a group has committed."""
        heard(dict(self.offsets.of_group(group_id)))

    def beat(self, beat: Beat, heard: Heard) -> None:
        """Take a heartbeat of the consumer protocol; answer when its effects are in the log."""
        group = self.consumers
        beaten = group.heartbeat(beat, TOPICS, self._now_ms())
        self._log_consumers(group, lambda error: heard(error or beaten))

    def _log_consumers(self, group: ConsumerGroup, heard: Heard | None) -> None:
        """Write what the group has decided, as ConsumerCoordinator does."""
        records = group.take_outbox()
        waiting = [] if heard is None else [heard]
        if not records:
            if self._unlogged is not None:
                self._unlogged += waiting
            else:
                _tell(waiting, None)
            return
        self._unlogged = waiting

        def done(error: ChordMQError | None) -> None:
            if self._unlogged is waiting:
                self._unlogged = None
            if error is None:
                group.confirm(records)
            else:
                self._lose(group)
            _tell(waiting, error)

        self._append(CONSUMERS, records, done)

    def _lose(self, group: ConsumerGroup) -> None:
        group.lose(self._now_ms())

    def _ask(self, group: Group, act: Callable[[int], None], heard: Heard) -> None:
        ticket = next(self._tickets)
        self._waiting[ticket] = heard
        try:
            act(ticket)
        except ChordMQError:
            del self._waiting[ticket]
            raise
        finally:
            self._settle(group)

    def _settle(self, group: Group) -> None:
        outbox = group.take_outbox()
        if outbox.snapshots:
            self._log_snapshots(group, outbox)
        else:
            self._send(outbox.answers)

    def _log_snapshots(self, group: Group, outbox: Outbox) -> None:
        def done(error: ChordMQError | None) -> None:
            for snapshot in outbox.snapshots:
                if error is None:
                    group.replay(snapshot, self._now_ms())
                else:
                    group.lose(snapshot, error, self._now_ms())
            self._send([(ticket, error or answer) for ticket, answer in outbox.answers])
            if group is self.groups[group.group_id]:
                self._settle(group)

        records = [GroupRecord(group.group_id, snapshot) for snapshot in outbox.snapshots]
        self._append(group.group_id, records, done)

    def _send(self, answers: Sequence[tuple[int, Answer]]) -> None:
        for ticket, answer in answers:
            self._waiting.pop(ticket)(answer)

    def _load(self, log: SimLog) -> None:
        self._forget()
        for group_id, snapshot in replay(log.records, self.offsets, self.consumers).items():
            self.groups[group_id].replay(snapshot, self._now_ms())
        self.consumers.wake(self._now_ms())

    def _forget(self) -> None:
        self.read = self.led = None
        gone = NotCoordinator("another broker looks after the group")
        for group in self.groups.values():
            group.dissolve()
            self._send([(ticket, gone) for ticket, _ in group.take_outbox().answers])
        self.groups, self.consumers = self._new_groups(), self._new_consumers()
        self.offsets = Offsets(METADATA_BYTES_MAX)
        self._unlogged = None

    def _new_consumers(self) -> ConsumerGroup:
        return ConsumerGroup(CONSUMERS, SETTINGS, lambda: SESSION_MS)

    def _new_groups(self) -> dict[str, Group]:
        ids = self._process.ids
        return {one: Group(one, SETTINGS, lambda: str(next(ids))) for one in GROUPS}

    def _now_ms(self) -> int:
        return int(self._now_s() * 1000)


def _tell(waiting: Sequence[Heard], error: ChordMQError | None) -> None:
    for one in waiting:
        one(error)


def replay(
    records: Sequence[tuple[int, Batch]], offsets: Offsets, consumers: ConsumerGroup | Image
) -> dict[str, GroupSnapshot]:
    """Apply what a log says of offsets and consumers; return each classic group's generation."""
    snapshots = {}
    for _, batch in records:
        for entry in batch:
            if isinstance(entry, OffsetRecord):
                offsets.replay(entry)
            elif not isinstance(entry, GroupRecord):
                consumers.replay(entry)
            elif entry.snapshot is not None:
                snapshots[entry.group_id] = entry.snapshot
    return snapshots


def offset_of(committed: dict[Place, CommittedOffset], place: Place) -> int | None:
    """Return where a group stands in one place."""
    found = committed.get(place)
    return None if found is None else found.offset

"""An internal topic as a coordinator's log: made on first use, written in order, read by partition.

Whoever leads a partition looks after the names that it keeps: it reads the partition when it begins
to lead, and forgets what it has read when another leads. A node alone leads all partitions.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from chordmq.broker.partition import Partition
from chordmq.broker.producers import Incarnation
from chordmq.broker.security.permissions import Permissions
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.topics import Topics
from chordmq.broker.write_queue import Done, Write, WriteQueue, end
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ChordMQError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    DecodeError,
    InvalidReplicationFactor,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
    TopicExists,
)
from chordmq.logs import get_logger
from chordmq.records.batch import BatchHeader, walk
from chordmq.records.marker import Marker, read_marker
from chordmq.records.record import NewRecord, build_batch, read_records

log = get_logger(__name__)

READ_BYTES = 2**20
COPIES_MAX = 3
HOME_WAIT_S = 15.0
LOOK_INTERVAL_S = 0.05

Entry = TypeVar("Entry")
Ready = Callable[[], None]


class Host(Protocol):
    """What coordinators need of the broker they belong to."""

    clock: Clock
    topics: Topics
    permissions: Permissions

    @property
    def settings(self) -> BrokerSettings:
        """Return the node's settings in force."""
        ...

    async def append_records(
        self,
        topic: str,
        partition: int,
        records: Sequence[NewRecord],
        *,
        producer: Incarnation | None = None,
    ) -> int:
        """Append records as one batch and return once they are committed."""
        ...

    async def append_marker(self, topic: str, partition: int, marker: Marker) -> None:
        """End a transaction in one partition and return once that is committed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic(Generic[Entry]):
    """What a coordinator's topic is called, how it is made and how its records read."""

    name: str
    settings: Mapping[str, str]
    partitions: Callable[[BrokerSettings], int]
    write: Callable[[Entry], tuple[bytes, bytes | None]]
    read: Callable[[bytes, bytes | None], Entry | None]
    is_written_anywhere: bool = False
    """Whether nodes write that do not lead the partition; else they are refused."""


class LoggedBatch(NamedTuple, Generic[Entry]):
    """One batch of the log: entries, those of an open transaction, or the end of one."""

    partition: int
    entries: list[Entry]
    producer: Incarnation | None = None
    """Whose transaction the entries belong to; None when they count at once."""
    marker: Marker | None = None


class InternalLog(Generic[Entry]):
    """Writes what a coordinator decides, and says when it is safe.

    All that is asked for while a partition's last append is under way goes into its next one, so
    that many small writes cost few flushes. Within a partition, writes end in the order in which
    they were asked for, and one that fails takes those of the same name behind it along. What was
    decided in one leader epoch is not written in another: somebody else may have decided since.
    """

    def __init__(self, host: Host, topic: InternalTopic[Entry]) -> None:
        self._host = host
        self._topic = topic
        self._queues: dict[int, WriteQueue[NewRecord]] = {}
        """Writes to come by partition; a key is there while somebody drains the partition."""
        self._tasks: asyncio.TaskGroup | None = None
        self._read: dict[int, tuple[int, int]] = {}
        """The partitions that are read, in which leader epoch, and where they ended then."""
        self._led: dict[int, int] = {}
        """Those of them in force here, by leader epoch: all that was read is committed."""
        self._woken = asyncio.Event()
        self._applied: dict[int, int] = {}
        """How far partitions are applied that are followed."""
        self._awaited: list[tuple[Mapping[int, int], asyncio.Future[None]]] = []

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to take writes; `tasks` does the work."""
        self._tasks = tasks

    def close(self) -> None:
        """Take no more writes; those under way end when the task group does."""
        self._tasks = None

    async def serve(
        self, load: Callable[[int], Awaitable[None]], unload: Callable[[int], None], ready: Ready
    ) -> None:
        """Have partitions loaded when this node begins to lead them, and unloaded when it ends.

        `ready` is called each time when all are loaded that it leads.
        """
        while True:
            self._woken.clear()
            await self._reconcile(load, unload)
            ready()
            if self._host.topics.is_alone:
                return  # it leads what there is for ever, and knows what it makes
            await self._woken.wait()

    def look_again(self) -> None:
        """Take note that partitions may have come, or changed their leader."""
        self._woken.set()

    def check(self, name: str) -> None:
        """Raise NotCoordinator, or CoordinatorLoading, unless a name is looked after here now."""
        topics = self._host.topics
        if topics.is_alone:
            return
        topic = topics.find(self._topic.name)
        if topic is None:
            raise CoordinatorNotAvailable(f"{self._topic.name} is not there yet")
        index = self.partition_of(name)
        partition = topic.partitions[index]
        try:
            partition.check_leading()
        except NotLeader as error:
            node = topics.state(topic, index).leader
            raise NotCoordinator(f"{self._topic.name}-{index}: {error}", node) from None
        if self._led.get(index) != partition.leader_epoch:
            raise CoordinatorLoading(f"{self._topic.name}-{index} is being read")

    async def home_of(self, name: str) -> int | None:
        """Return the node that looks after a name, None for this one; wait for it if need be."""
        if self._host.topics.is_alone:
            return None
        await self.ensure()
        for _ in range(int(HOME_WAIT_S / LOOK_INTERVAL_S)):
            try:
                self.check(name)
            except NotCoordinator as elsewhere:
                if elsewhere.node >= 0:
                    return elsewhere.node
            except (CoordinatorLoading, CoordinatorNotAvailable):
                pass
            else:
                return None
            await asyncio.sleep(LOOK_INTERVAL_S)
        raise CoordinatorNotAvailable(f"nobody looks after {name[:100]!r} now")

    async def _reconcile(
        self, load: Callable[[int], Awaitable[None]], unload: Callable[[int], None]
    ) -> None:
        led = self._led_now()
        for index in [one for one, (epoch, _) in self._read.items() if led.get(one) != epoch]:
            self._forget(index, unload)
        for index, epoch in led.items():
            if index not in self._read:
                self._read[index] = (epoch, 0)
                unload(index)  # of an earlier epoch, what came back from the log late
                await load(index)
                self._read[index] = (epoch, self._partition(index).log.end_offset)
                if self._led_now().get(index) != epoch:
                    self._forget(index, unload)
        for index, (epoch, read_end) in self._read.items():
            if index not in self._led:
                self._enforce(index, epoch, read_end)

    def _enforce(self, index: int, epoch: int, read_end: int) -> None:
        """Serve what was read, or have this tried again when more is committed.

        Until then another may come to lead who has not all of it, and clients must not be told.
        """
        partition = self._partition(index)
        if partition.high_watermark >= read_end or self._host.topics.is_alone:
            self._led[index] = epoch
        else:
            partition.wait(self)

    def _forget(self, index: int, unload: Callable[[int], None]) -> None:
        self._read.pop(index)
        self._led.pop(index, None)
        unload(index)

    def _partition(self, index: int) -> Partition:
        return self._host.topics.get(self._topic.name).partitions[index]

    def _led_now(self) -> dict[int, int]:
        topic = self._host.topics.find(self._topic.name)
        partitions = topic.partitions if topic is not None else ()
        return {one.index: one.leader_epoch for one in partitions if one.is_leader}

    async def follow(
        self, apply: Callable[[LoggedBatch[Entry]], None], ready: Callable[[], None]
    ) -> None:
        """Have all applied that the log holds, and that other nodes write.

        `ready` is called each time when all that is committed so far is applied.
        """
        while True:
            self._woken.clear()
            topic = self._host.topics.find(self._topic.name)
            for partition in topic.partitions if topic is not None else ():
                self._applied[partition.index] = self._apply_new(partition, apply)
                partition.wait(self)
            ready()
            self._tell_applied()
            if self._host.topics.is_alone:
                return  # nobody else writes
            await self._woken.wait()

    def wake(self) -> None:
        """Take note that a followed partition has more."""
        self._woken.set()

    async def applied(self, ends: Mapping[int, int], timeout_s: float) -> None:
        """Wait until all before these offsets is applied, but not longer than this."""
        if any(self._applied.get(index, 0) < end for index, end in ends.items()):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited.append((ends, future))
            await asyncio.wait([future], timeout=timeout_s)

    def _tell_applied(self) -> None:
        awaited, self._awaited = self._awaited, []
        for ends, future in awaited:
            if any(self._applied.get(index, 0) < end for index, end in ends.items()):
                self._awaited.append((ends, future))
            elif not future.done():
                future.set_result(None)

    def _apply_new(self, partition: Partition, apply: Callable[[LoggedBatch[Entry]], None]) -> int:
        """Apply what is committed and new in a partition; return where it ends."""
        offset = partition.nearest(self._applied.get(partition.index, 0))
        try:
            while found := partition.read(offset, READ_BYTES):
                for data in found:
                    for position, header in walk(data):
                        offset = header.next_offset
                        batch = data[position : position + header.size]
                        apply(self._read_batch(partition.index, header, batch))
        except ChordMQError as error:  # the copy is being moved or mended; there will be news
            log.warning("log not followed", topic=self._topic.name, error=str(error))
        return offset

    async def woken(self) -> None:
        """Wait until partitions may have come, or changed their leader."""
        await self._woken.wait()
        self._woken.clear()

    def partition_of(self, name: str) -> int:
        """Return the partition that keeps a group or transactional id, as Kafka computes it."""
        topic = self._host.topics.find(self._topic.name)
        if topic is None:
            return java_hash(name) % self._topic.partitions(self._host.settings)
        count = len(topic.partitions)
        return java_hash(name) % count if count > 1 else 0

    def append(
        self,
        name: str,
        entries: Sequence[Entry],
        done: Done,
        producer: Incarnation | None = None,
    ) -> None:
        """Write entries that belong to one name, all or none, and then call `done`.

        With a producer they are part of its transaction, and count when that is committed.
        """
        now_ms = self._host.clock.now_ms()
        records = [NewRecord(now_ms, *self._topic.write(entry)) for entry in entries]
        partition = self.partition_of(name)
        epoch, _ = self._read.get(partition, (None, 0))
        self._enqueue(partition, Write(name, records, done, producer, epoch=epoch))

    def append_marker(self, partition: int, marker: Marker, done: Done) -> None:
        """End a transaction in one partition, and then call `done`."""
        self._enqueue(partition, Write("", [], done, marker=marker))

    async def replay(self, index: int | None = None) -> AsyncIterator[LoggedBatch[Entry]]:
        """Yield everything that the log, or one partition of it, holds, in its order."""
        topic = self._host.topics.find(self._topic.name)
        for partition in topic.partitions if topic is not None else ():
            if index not in (None, partition.index) or partition.is_absent:
                continue
            offset = partition.log.start_offset
            while found := partition.log.read(offset, READ_BYTES):
                for data in found:
                    for position, header in walk(data):
                        offset = header.next_offset
                        batch = data[position : position + header.size]
                        yield self._read_batch(partition.index, header, batch)
                await asyncio.sleep(0)

    def _read_batch(
        self, partition: int, header: BatchHeader, batch: memoryview
    ) -> LoggedBatch[Entry]:
        if header.is_control:
            return LoggedBatch(partition, [], marker=read_marker(batch))
        producer = None
        if header.is_transactional:
            producer = Incarnation(header.producer_id, header.producer_epoch)
        entries = []
        for stored in read_records(batch):
            try:
                entry = self._topic.read(stored.key or b"", stored.value)
            except DecodeError as error:
                log.error(
                    "unreadable record",
                    topic=self._topic.name,
                    offset=stored.offset,
                    error=str(error),
                )
                continue
            if entry is not None:
                entries.append(entry)
        return LoggedBatch(partition, entries, producer)

    def _enqueue(self, partition: int, write: Write[NewRecord]) -> None:
        if self._tasks is None:
            raise CoordinatorNotAvailable("the node does not take writes now")
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = WriteQueue()
            self._tasks.create_task(self._drain(partition, queue))
        queue.add(write)

    async def _drain(self, partition: int, queue: WriteQueue[NewRecord]) -> None:
        try:
            while writes := queue.take():
                await self._append(partition, writes)
        finally:
            del self._queues[partition]
            end(queue.take_all(), CoordinatorNotAvailable("the node stops"))

    async def _append(self, partition: int, writes: list[Write[NewRecord]]) -> None:
        """Write what was asked for in one batch, and tell everybody how it went."""
        name = self._topic.name
        outcome: ChordMQError | None = CoordinatorNotAvailable("the node stops")
        try:
            await self._write(partition, writes)
            outcome = None
        except (NotLeader, NotEnoughReplicas) as error:
            log.info("not written", topic=name, partition=partition, error=str(error))
            is_gone = isinstance(error, NotLeader)
            outcome = (NotCoordinator if is_gone else CoordinatorNotAvailable)(str(error))
        except ChordMQError as error:
            log.error("not written", topic=name, partition=partition, error=str(error))
            outcome = error
        finally:
            if outcome is not None:
                writes = [*writes, *self._queues[partition].take_behind(writes)]
            end(writes, outcome)

    async def _write(self, partition: int, writes: list[Write[NewRecord]]) -> None:
        await self.ensure()
        name, first, target = self._topic.name, writes[0], self._partition(partition)
        _check_epoch(target, first.epoch)
        if first.marker is not None:
            await self._host.append_marker(name, partition, first.marker)
            return
        records = [record for write in writes for record in write.records]
        if self._topic.is_written_anywhere and not target.is_leader:
            await target.forward(memoryview(build_batch(records)))
        else:
            await self._host.append_records(name, partition, records, producer=first.producer)
        _check_epoch(target, first.epoch)

    async def ensure(self) -> None:
        """Have the topic; on several nodes if there are several."""
        topics = self._host.topics
        if topics.find(self._topic.name) is None:
            partitions = self._topic.partitions(self._host.settings)
            copies = copies_of(topics)
            settings = dict(self._topic.settings)
            if copies == COPIES_MAX:
                settings["min.insync.replicas"] = str(COPIES_MAX - 1)
            try:
                await topics.create(self._topic.name, partitions, copies, settings)
            except InvalidReplicationFactor as error:
                raise CoordinatorNotAvailable(str(error)) from None
            except TopicExists:  # made for another partition's sake meanwhile
                pass


def copies_of(topics: Topics) -> int:
    """Return how many copies the node's own topics get: one on each node, up to three."""
    wanted = max(topics.settings.default_replication_factor, topics.nodes)
    return 1 if topics.is_alone else min(COPIES_MAX, wanted)


def java_hash(text: str) -> int:
    """Return Java's String.hashCode without its sign bit, as Kafka places groups."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
    return number & 0x7FFFFFFF


def _check_epoch(partition: Partition, epoch: int | None) -> None:
    """Raise NotLeader if another may have led since a write was decided."""
    if epoch not in (None, partition.leader_epoch):
        raise NotLeader(f"decided in leader epoch {epoch}, now {partition.leader_epoch}")

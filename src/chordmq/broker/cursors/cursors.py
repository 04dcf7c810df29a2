"""All shared cursors of the node: kept in a log, loaded from it, with one timer for all of them.

A cursor is kept by the node that leads its partition, which reads it from the log when it begins to
lead. The log is written by all nodes, and read from whoever leads it.
"""

import asyncio
import base64
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from chordmq.broker.alarm import Alarm
from chordmq.broker.cursors.cursor import Cursor, Decided, Policy
from chordmq.broker.cursors.dead_letters import bury
from chordmq.broker.cursors.index import GroupIndex
from chordmq.broker.cursors.records import CursorKey, CursorRecord, CursorSnapshot, read, write
from chordmq.broker.internal_log import Host, InternalLog, InternalTopic
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.errors import (
    ChordMQError,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    InvalidRecordState,
    UnknownTopic,
)
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.broker.cursors.exchange import Exchange, Nodes, Rows
    from chordmq.broker.cursors.routing import Routing

log = get_logger(__name__)

RETRY_S = 0.5
EARLIEST, LATEST = -2, -1
"""Where a new cursor begins, instead of a time in milliseconds."""

CURSOR_TOPIC: InternalTopic[CursorRecord] = InternalTopic(
    name="__share_group_state",
    settings={
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 * 2**20),
        "max.message.bytes": str(100 * 2**20),
    },
    # Few, so that one flush serves many cursors.
    partitions=lambda settings: 4,
    write=write,
    read=read,
    is_written_anywhere=True,
)

Place = tuple[bytes, int]
"""A topic's id and the index of one of its partitions."""


class Cursors:
    """Opens, keeps and deletes cursors; nothing is answered before it is in the log.

    `policy_of` says by which rules a group reads a topic unless whoever opens a cursor says so.
    """

    def __init__(self, host: Host, policy_of: Callable[[str, str], Policy]) -> None:
        self._host = host
        self._policy_of = policy_of
        self._log = InternalLog(host, CURSOR_TOPIC)
        self._groups: dict[str, dict[Place, Cursor]] = {}
        self._by_name: dict[str, Cursor] = {}
        self.alarm = Alarm(host.clock, self._expire)
        self._tasks: asyncio.TaskGroup | None = None
        self.loaded = asyncio.Event()
        """Set once the log is read; until then consumers are asked to try again."""
        self._led: dict[Place, int] = {}
        """In a cluster: partitions whose cursors are kept here, and in which leader epoch."""
        self.routing: Routing | None = None
        """The way to cursors of other nodes; None for a node alone."""

    def join(self, nodes: "Nodes") -> None:
        """Be part of a cluster: other nodes keep the cursors of what they lead."""
        from chordmq.broker.cursors.routing import Routing

        self.routing = Routing(nodes, self._host.topics, self)

    def look_again(self) -> None:
        """Take note that partitions may have come, or changed their leader."""
        self._log.look_again()
        if self.routing is not None:
            self.routing.look_again()

    async def run(self) -> None:
        """Read the log, then serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._log.open(tasks)
            try:
                if self.routing is None:
                    await self._load()
                    await asyncio.Event().wait()
                while self.routing is not None:
                    await self._reconcile(self.routing)
                    await self._log.woken()
            finally:
                self._stop()

    def _stop(self) -> None:
        self.loaded.clear()
        self._tasks = None
        self._log.close()
        self.alarm.cancel()
        for cursor in list(self._by_name.values()):
            cursor.wake()

    async def open(
        self,
        group: str,
        topic: str,
        partition: int,
        *,
        start_ms: int = LATEST,
        policy: Policy | None = None,
        is_bound: bool = True,
    ) -> GroupIndex:
        """Return a group's cursor; a new one begins where told, and is in the log by then.

        Its consumers leave when their node does, unless they are not bound to one.
        """
        if self.routing is None:
            return await self.open_here(group, topic, partition, start_ms, policy)
        await self.routing.open(group, topic, partition, start_ms, policy)
        return self.routing.cursor(group, topic, partition, is_bound=is_bound)

    async def open_here(
        self, group: str, topic: str, partition: int, start_ms: int, policy: Policy | None = None
    ) -> Cursor:
        """Return a group's cursor, which this node keeps."""
        self.check_loaded()
        target = self._host.topics.get(topic)
        if not 0 <= partition < len(target.partitions):
            raise UnknownTopic(f"{topic} has {len(target.partitions)} partitions, not {partition}")
        self._check_led(target, partition)
        cursor = self.find(group, target.id, partition)
        if cursor is None:
            start = start_of(target.partitions[partition], start_ms)
            cursor = await self._create(CursorKey(group, target.id, partition), start, policy)
        elif policy is not None:
            cursor.policy = policy
        return cursor

    async def open_anywhere(self, group: str, topic: str, partition: int, start_ms: int) -> None:
        """Have a group's cursor on whichever node leads the partition."""
        target = self._host.topics.get(topic)
        if self.routing is None or target.partitions[partition].is_leader:
            await self.open_here(group, topic, partition, start_ms)
        else:
            from chordmq.broker.cursors.wishes import Opening

            await self.routing.exchange.open(Opening(group, topic, partition, start_ms))

    def reach(self, group: str, topic: str, partition: int) -> GroupIndex | None:
        """Return a group's cursor on whichever node, if it is there; nobody is bound to it."""
        if self.routing is None:
            return self.find(group, self._host.topics.get(topic).id, partition)
        return self.routing.cursor(group, topic, partition, is_bound=False)

    def kept(self, key: CursorKey) -> Cursor:
        """Return a cursor that is kept here; raise why it is not."""
        self._check_led(self._host.topics.by_id(key.topic_id), key.partition)
        cursor = self.find(*key)
        if cursor is None:
            raise InvalidRecordState(f"{key.group} has no cursor in partition {key.partition}")
        return cursor

    def here(self, key: CursorKey) -> Cursor | None:
        """Return a cursor if it is kept here now."""
        cursor = self.find(*key)
        if cursor is None or not cursor.partition.is_leader:
            return None
        epoch = self._led.get((key.topic_id, key.partition))
        return cursor if epoch == cursor.partition.leader_epoch else None

    def _check_led(self, topic: Topic, index: int) -> None:
        """Raise NotLeader, or CoordinatorLoading, unless the partition's cursors are kept here."""
        partition = topic.partitions[index]
        if self.routing is None:
            return
        partition.check_leading()
        if self._led.get((topic.id, index)) != partition.leader_epoch:
            raise CoordinatorLoading(f"cursors of {topic.name}-{index} are being read")

    async def _create(self, key: CursorKey, start: int, policy: Policy | None) -> Cursor:
        now_ms = self._host.clock.now_ms()
        snapshot = CursorSnapshot(start=start, created_ms=now_ms, written_ms=now_ms)
        await self._append([CursorRecord(key, snapshot)])
        existing = self.find(*key)  # opened by somebody else meanwhile
        return existing or self._add(key, snapshot, policy)

    def find(self, group: str, topic_id: bytes, partition: int) -> Cursor | None:
        """Return a group's cursor in a partition, if there is one."""
        return self._groups.get(group, {}).get((topic_id, partition))

    def groups(self) -> Iterator[str]:
        """Yield the groups that have cursors."""
        return iter(list(self._groups))

    def of_group(self, group: str) -> list[Cursor]:
        """Return all cursors of a group."""
        return list(self._groups.get(group, {}).values())

    def took(self, cursor: Cursor) -> None:
        """Take note that records were taken, so that they come free at their deadline."""
        name = _name(cursor.key)
        if name not in self.alarm:
            self._arm(name, cursor)

    async def reset(self, cursor: Cursor, start: int) -> None:
        """Let a group begin at another offset; what its consumers hold is theirs no more."""
        now_ms = self._host.clock.now_ms()
        snapshot = CursorSnapshot(
            start=start, epoch=cursor.epoch + 1, created_ms=now_ms, written_ms=now_ms
        )
        await self._append([CursorRecord(cursor.key, snapshot)])
        cursor.restore(snapshot)

    async def delete(self, cursors: Sequence[Cursor]) -> None:
        """Forget cursors of one or more groups for ever."""
        await self._append([CursorRecord(cursor.key, None) for cursor in cursors])
        for cursor in cursors:
            self._remove(cursor)

    def leave(self, group: str, holder: str, *, is_counted: bool = True) -> None:
        """Give all records of a consumer that has gone to others of its group."""
        for cursor in self.of_group(group):
            cursor.leave(holder, is_counted=is_counted)

    def forget_topic(self, topic: str) -> None:
        """Delete all cursors in a topic that is no more."""
        for cursor in list(self._by_name.values()):
            if cursor.partition.topic == topic and cursor.partition.is_closed:
                self._remove(cursor)
                self._delete_quietly(cursor.key)

    def now_ms(self) -> int:
        """Return the time by which deadlines are set."""
        return self.alarm.now_ms()

    def check_loaded(self) -> None:
        """Raise CoordinatorLoading until the log is read."""
        if not self.loaded.is_set():
            raise CoordinatorLoading("cursors are being read from the log")

    async def read_log(self, log_partition: int) -> "Rows":
        """Return the newest state of each cursor in a partition of the log."""
        found: dict[CursorKey, CursorRecord] = {}
        async for batch in self._log.replay(log_partition):
            for record in batch.entries:
                found[record.key] = record
        rows = (write(record) for record in found.values())
        return [(key, value) for key, value in rows if value is not None]

    async def _reconcile(self, routing: "Routing") -> None:
        """Keep the cursors of what this node leads, and let go of the others."""
        led = {
            (topic.id, one.index): one.leader_epoch
            for topic in self._host.topics
            for one in topic.partitions
            if one.is_leader and not topic.is_internal
        }
        for cursor in list(self._by_name.values()):
            place = (cursor.key.topic_id, cursor.key.partition)
            if led.get(place) != self._led.get(place):
                self._remove(cursor)
        self._led = {place: led[place] for place in self._led if led.get(place) == self._led[place]}
        new = {place: epoch for place, epoch in led.items() if place not in self._led}
        try:
            for key, snapshot in (await self._held(routing.exchange, new)).items():
                self._add(key, snapshot)
            self._led |= new
            self.loaded.set()
            routing.look_again()
        except ChordMQError as error:
            log.warning("cursors not read yet", error=str(error))
            asyncio.get_running_loop().call_later(RETRY_S, self.look_again)

    async def _held(
        self, exchange: "Exchange", places: Collection[Place]
    ) -> dict[CursorKey, CursorSnapshot]:
        """Return what the log holds of the cursors in some partitions."""
        topic = self._host.topics.find(CURSOR_TOPIC.name)
        found: dict[CursorKey, CursorSnapshot] = {}
        for partition in topic.partitions if topic is not None and places else ():
            for key, value in await exchange.read(partition):
                record = read(key, value)
                if record is None or record.snapshot is None:
                    continue
                if (record.key.topic_id, record.key.partition) in places:
                    found[record.key] = record.snapshot
        return found

    async def _load(self) -> None:
        snapshots: dict[CursorKey, CursorSnapshot] = {}
        async for batch in self._log.replay():
            for key, snapshot in batch.entries:
                if snapshot is None:
                    snapshots.pop(key, None)
                else:
                    snapshots[key] = snapshot
        topics = {topic.id: topic for topic in self._host.topics}
        for key, snapshot in snapshots.items():
            if _exists(topics.get(key.topic_id), key.partition):
                self._add(key, snapshot)
            else:  # deleted just before the node went down
                self._delete_quietly(key)
        self.loaded.set()
        log.info("cursors loaded", cursors=len(self._by_name))

    def _add(
        self, key: CursorKey, snapshot: CursorSnapshot, policy: Policy | None = None
    ) -> Cursor:
        partition = self._host.topics.by_id(key.topic_id).partitions[key.partition]
        policy = policy or self._policy_of(key.group, partition.topic)
        cursor = Cursor(key, partition, snapshot, policy, self)
        self._groups.setdefault(key.group, {})[key.topic_id, key.partition] = cursor
        self._by_name[_name(key)] = cursor
        return cursor

    def _remove(self, cursor: Cursor) -> None:
        group, topic_id, partition = cursor.key
        places = self._groups.get(group, {})
        if places.get((topic_id, partition)) is cursor:
            del places[topic_id, partition]
            del self._by_name[_name(cursor.key)]
            self.alarm.discard(_name(cursor.key))
        if not places:
            self._groups.pop(group, None)
        cursor.is_retired = True
        cursor.wake()

    def store(self, cursor: Cursor, decided: Decided) -> None:
        """Have everything that a cursor has decided written, its dead letters before it."""
        # Now, for what is decided later may have dead letters of its own.
        record = cursor.record(self._host.clock.now_ms())
        if decided.dead and cursor.policy.dead_letter and self._tasks is not None:
            self._tasks.create_task(self._bury_and_write(cursor, decided, record))
        else:
            self._write(cursor, decided, record)

    async def _bury_and_write(self, cursor: Cursor, decided: Decided, record: CursorRecord) -> None:
        try:
            await bury(self._host, cursor, decided.dead)
        except ChordMQError as error:
            log.error("dead letters not written", group=cursor.key.group, error=str(error))
            self._stored(cursor, decided, error)
            return
        self._write(cursor, decided, record)

    def _write(self, cursor: Cursor, decided: Decided, record: CursorRecord) -> None:
        try:
            self._log.append(_name(cursor.key), [record], partial(self._stored, cursor, decided))
        except CoordinatorNotAvailable as error:
            self._stored(cursor, decided, error)

    def _stored(self, cursor: Cursor, decided: Decided, error: ChordMQError | None) -> None:
        cursor.stored(decided, error)
        if error is not None and self.loaded.is_set():
            self._arm(_name(cursor.key), cursor)

    async def _append(self, records: Sequence[CursorRecord]) -> None:
        """Write records and return when all are in the log."""
        written: list[asyncio.Future[None]] = []
        for record in records:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._log.append(_name(record.key), [record], partial(_tell, future))
            written.append(future)
        await asyncio.gather(*written)

    def _delete_quietly(self, key: CursorKey) -> None:
        try:
            self._log.append(_name(key), [CursorRecord(key, None)], lambda error: None)
        except CoordinatorNotAvailable:
            pass  # the next start finds that the topic is no more

    def _expire(self, name: str) -> None:
        """Take records from consumers whose time is over."""
        cursor = self._by_name[name]
        cursor.expire()
        self._arm(name, cursor)

    def _arm(self, name: str, cursor: Cursor) -> None:
        """Note when the next record of a cursor comes free."""
        if name in self._by_name:
            self.alarm.set(name, cursor.machine.next_deadline_ms())


def start_of(partition: Partition, start_ms: int) -> int:
    """Return the offset at which a cursor begins that starts at a time, EARLIEST or LATEST."""
    if start_ms == EARLIEST:
        return partition.log.start_offset
    found = partition.log.offset_for_time(start_ms) if start_ms != LATEST else None
    return partition.high_watermark if found is None else found[0]


def _exists(topic: Topic | None, partition: int) -> bool:
    return topic is not None and 0 <= partition < len(topic.partitions)


def _name(key: CursorKey) -> str:
    """Return the key as text; Kafka places cursors by the same."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).rstrip(b"=").decode()
    return f"{key.group}:{topic_id}:{key.partition}"


def _tell(future: asyncio.Future[None], error: ChordMQError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)

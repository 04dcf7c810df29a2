"""The internal topic that keeps groups and offsets: made on first use, read whole at start."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, Protocol

import structlog

from chordmq.broker.group_records import GroupLogRecord, read, write
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.topics import Topics
from chordmq.clock import Clock
from chordmq.errors import ChordMQError, CoordinatorNotAvailable, DecodeError, TopicExists
from chordmq.records.batch import walk
from chordmq.records.record import NewRecord, read_records

log = structlog.get_logger(__name__)

TOPIC = "__consumer_offsets"
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 * 2**20),
    # One record holds all members of a group, so a large group needs a large record.
    "max.message.bytes": str(100 * 2**20),
}
READ_BYTES = 2**20
JOINED_RECORDS_MAX = 10_000

Done = Callable[[ChordMQError | None], None]
"""Told when records are in the log (None), or why they are not."""


class Host(Protocol):
    """What groups need of the broker they belong to."""

    clock: Clock
    topics: Topics

    @property
    def settings(self) -> BrokerSettings:
        """Return the node's settings in force."""
        ...

    async def append_records(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        """Append records as one batch and return once they are committed."""
        ...


class _Write(NamedTuple):
    records: list[NewRecord]
    done: Done


class GroupLog:
    """Writes what groups decide, and tells each when it is safe.

    All that is asked for while a partition's last append is under way goes into its next one, so
    that many small commits cost few flushes. Within a partition, writes end in the order in which
    they were asked for.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._queues: dict[int, list[_Write]] = {}
        """Writes to come by partition; a key is there while somebody drains the partition."""
        self._tasks: asyncio.TaskGroup | None = None

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to take writes; `tasks` does the work."""
        self._tasks = tasks

    def close(self) -> None:
        """Take no more writes; those under way end when the task group does."""
        self._tasks = None

    def partition_of(self, group_id: str) -> int:
        """Return the partition that keeps a group, as Kafka computes it."""
        topic = self._host.topics.find(TOPIC)
        if topic is None:
            return java_hash(group_id) % self._host.settings.offsets_topic_num_partitions
        return java_hash(group_id) % len(topic.partitions)

    def append(self, group_id: str, records: Sequence[GroupLogRecord], done: Done) -> None:
        """Write records of one group, all or none, and then call `done`."""
        if self._tasks is None:
            raise CoordinatorNotAvailable("the node does not take writes now")
        now_ms = self._host.clock.now_ms()
        entry = _Write([NewRecord(now_ms, *write(record)) for record in records], done)
        partition = self.partition_of(group_id)
        queue = self._queues.get(partition)
        if queue is None:
            self._queues[partition] = [entry]
            self._tasks.create_task(self._drain(partition))
        else:
            queue.append(entry)

    async def replay(self) -> AsyncIterator[GroupLogRecord]:
        """Yield everything the log holds, in its order."""
        topic = self._host.topics.find(TOPIC)
        for partition in topic.partitions if topic is not None else ():
            offset = partition.log.start_offset
            while found := partition.log.read(offset, READ_BYTES):
                for data in found:
                    for position, header in walk(data):
                        offset = header.next_offset
                        batch = data[position : position + header.size]
                        for record in () if header.is_control else _read_batch(batch):
                            yield record
                await asyncio.sleep(0)

    async def _drain(self, partition: int) -> None:
        try:
            while queue := self._queues[partition]:
                count = _joined_count(queue)
                self._queues[partition] = queue[count:]
                await self._append(partition, queue[:count])
        finally:
            _end(self._queues.pop(partition), CoordinatorNotAvailable("the node stops"))

    async def _append(self, partition: int, writes: list[_Write]) -> None:
        """Write what was asked for in one batch, and tell everybody how it went."""
        outcome: ChordMQError | None = CoordinatorNotAvailable("the node stops")
        try:
            await self._ensure_topic()
            records = [record for entry in writes for record in entry.records]
            await self._host.append_records(TOPIC, partition, records)
            outcome = None
        except ChordMQError as error:
            log.error("groups could not be written", partition=partition, error=str(error))
            outcome = error
        finally:
            _end(writes, outcome)

    async def _ensure_topic(self) -> None:
        topics = self._host.topics
        if topics.find(TOPIC) is None:
            partitions = self._host.settings.offsets_topic_num_partitions
            try:
                await topics.create(TOPIC, partitions, 1, TOPIC_SETTINGS)
            except TopicExists:  # made for another partition's sake meanwhile
                pass


def java_hash(text: str) -> int:
    """Return Java's String.hashCode without its sign bit, as Kafka places groups."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
    return number & 0x7FFFFFFF


def _joined_count(queue: list[_Write]) -> int:
    """Return how many of the first writes go into one batch."""
    total = 0
    for count, entry in enumerate(queue):
        total += len(entry.records)
        if total > JOINED_RECORDS_MAX:
            return max(count, 1)
    return len(queue)


def _end(writes: list[_Write], error: ChordMQError | None) -> None:
    for entry in writes:
        entry.done(error)


def _read_batch(batch: memoryview) -> list[GroupLogRecord]:
    records = []
    for stored in read_records(batch):
        try:
            record = read(stored.key or b"", stored.value)
        except DecodeError as error:
            log.error("unreadable group record", offset=stored.offset, error=str(error))
            continue
        if record is not None:
            records.append(record)
    return records

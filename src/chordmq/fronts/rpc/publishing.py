"""Takes messages of procedure calls: one batch per partition, at once or in a stream."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from chordmq.broker.appends import size_of
from chordmq.broker.names import named
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.client.partitioner import partition_for_key
from chordmq.errors import ChordMQError, InvalidRequest
from chordmq.fronts.rpc.session import Session
from chordmq.records.batch import HEADER_SIZE
from chordmq.records.record import NewRecord

NOT_STORED = -1
ANY_PARTITION = -1

_turns = itertools.count()


class Addressed(NamedTuple):
    """A message, and the partition it is meant for, if any."""

    record: NewRecord
    partition: int = ANY_PARTITION


class Published(NamedTuple):
    """Where messages came to lie, in their order."""

    partitions: list[int]
    offsets: list[int]
    failure: ChordMQError | None
    """Why some are not stored."""


class Target(NamedTuple):
    """A topic that the client may write, and what its name says of the messages."""

    name: str
    topic: Topic
    key: bytes | None


class Appending:
    """Messages on their way to the disk, in batches that each partition takes whole or not."""

    def __init__(self, session: Session, target: Target, messages: Sequence[Addressed]) -> None:
        """Begin to append; what was begun earlier is stored earlier."""
        if not messages:
            raise InvalidRequest("no message")
        self._session = session
        self._target = target
        self.count = len(messages)
        self.size = 0
        self._places: list[tuple[int, int]] = []
        """For each message its batch, and where it lies in that."""
        self._partitions: list[int] = []
        self._offsets: list[asyncio.Future[int]] = []
        batches = self._batches(messages)
        for partition, records in batches:
            self._partitions.append(partition.index)
            offset = session.front.appends.append(partition, records)
            offset.add_done_callback(_looked_at)
            self._offsets.append(offset)
        session.front.messages_in += self.count

    def _batches(self, messages: Sequence[Addressed]) -> list[tuple[Partition, list[NewRecord]]]:
        """Sort messages into batches that are not larger than the topic allows."""
        name, topic, key = self._target
        size_max = topic.settings.max_message_bytes - HEADER_SIZE
        batches: list[tuple[Partition, list[NewRecord]]] = []
        current: dict[int, tuple[int, int]] = {}
        """For each partition its last batch, and that one's size."""
        turn = next(_turns) % len(topic.partitions)
        for record, asked in messages:
            if record.key is None and key is not None:
                record = record._replace(key=key)
            record = named(record, name)
            index = partition_of(topic, asked, record.key, turn)
            size = size_of(record)
            self.size += size
            number, held = current.get(index, (-1, size_max))
            if held + size > size_max:
                number, held = len(batches), 0
                batches.append((topic.partitions[index], []))
            batches[number][1].append(record)
            current[index] = number, held + size
            self._places.append((number, len(batches[number][1]) - 1))
        return batches

    async def published(self) -> Published:
        """Return where the messages lie once they are committed; raise if none could be."""
        results = await asyncio.gather(*self._offsets, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        refusals = [failure for failure in failures if isinstance(failure, ChordMQError)]
        if failures and (len(failures) == len(results) or len(refusals) < len(failures)):
            raise next((one for one in failures if one not in refusals), failures[0])
        self._audit(results)
        offsets = [
            NOT_STORED if isinstance(first := results[number], BaseException) else first + row
            for number, row in self._places
        ]
        partitions = [self._partitions[number] for number, _ in self._places]
        return Published(partitions, offsets, refusals[0] if refusals else None)

    def _audit(self, results: Sequence[int | BaseException]) -> None:
        audit = self._session.broker.audit
        for partition, offset in zip(self._partitions, results, strict=True):
            if audit.sample and isinstance(offset, int) and audit.is_sampled():
                place = f"{self._target.topic.name}-{partition} offset {offset}"
                self._session.audit("publish", place)


def _looked_at(offset: asyncio.Future[int]) -> None:
    """Take note of a fault, for the client may have gone who would hear of it."""
    if not offset.cancelled():
        offset.exception()


async def target_of(session: Session, name: str) -> Target:
    """Return where messages of a name go, if the client may write there."""
    topic, key = session.front.names.destination(name)
    return Target(name, await session.topic_to_write(topic), key)


async def publish(session: Session, name: str, messages: Sequence[Addressed]) -> Published:
    """Store messages, and return when they are as durable as the topic's settings ask."""
    appending = Appending(session, await target_of(session, name), messages)
    published = await appending.published()
    await session.charge(produced=appending.size)
    return published


def partition_of(topic: Topic, asked: int, key: bytes | None, turn: int) -> int:
    """Return the partition asked for, or that of the key as Kafka's clients choose it."""
    count = len(topic.partitions)
    if asked == ANY_PARTITION:
        if count == 1:
            return 0
        return turn if key is None else partition_for_key(key, count)
    if not 0 <= asked < count:
        raise InvalidRequest(f"{topic.name} has {count} partitions, not {asked}")
    return asked


class Producer:
    """A stream of messages to one name; the first fault ends it."""

    def __init__(self, session: Session, target: Target) -> None:
        self._session = session
        self._target = target
        self._unstored = 0
        self._uncharged = 0
        self._changed = asyncio.Event()
        self.stored = 0
        self.fault: ChordMQError | None = None

    def push(self, messages: Sequence[Addressed]) -> None:
        """Begin to append messages; `room` and `flush` tell what came of it."""
        if self.fault is not None:
            return
        try:
            appending = self._begin(messages)
        except ChordMQError as error:
            self.fault = error
            return
        self._unstored += appending.size
        self._uncharged += appending.size
        self._session.front.listener.tasks.create_task(self._store(appending))

    def _begin(self, messages: Sequence[Addressed]) -> Appending:
        session, topic = self._session, self._target.topic
        session.check_write(topic)
        return Appending(session, self._target, messages)

    async def _store(self, appending: Appending) -> None:
        """Wait for messages to be stored; one client's fault must not end the listener."""
        try:
            failure = (await appending.published()).failure
        except ChordMQError as error:
            failure = error
        if failure is None:
            self.stored += appending.count
        self.fault = self.fault or failure
        self._unstored -= appending.size
        self._changed.set()

    async def room(self) -> None:
        """Wait until more may be pushed; raise the fault that has ended the stream."""
        size, self._uncharged = self._uncharged, 0
        await self._session.charge(produced=size)
        await self._until(self._session.front.settings.window_bytes // 2)

    async def flush(self) -> int:
        """Wait until all is stored, and return how many messages were; or raise the fault."""
        await self.room()
        await self._until(0)
        return self.stored

    async def _until(self, unstored: int) -> None:
        while self._unstored > unstored and self.fault is None:
            self._changed.clear()
            await self._changed.wait()
        if self.fault is not None:
            raise self.fault

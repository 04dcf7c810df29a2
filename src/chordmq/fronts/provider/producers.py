"""Messages that clients of the provider's protocol publish, and the markers of data sets."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from chordmq.broker.appends import Appends
from chordmq.broker.decoded import one_by_one
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.topic import Topic
from chordmq.client.partitioner import partition_for_key
from chordmq.codecs.provider.frames import HEAD, Type, accepted, read_run, refused, stored
from chordmq.codecs.provider.messages import Marker, marker_record, read
from chordmq.errors import ChordMQError, DecodeError, InvalidRequest, PolicyViolation, UnknownTopic
from chordmq.fronts.provider.access import Access
from chordmq.fronts.provider.errors import status_of
from chordmq.fronts.provider.front import ProviderFront
from chordmq.records.record import NewRecord, RecordRun

BATCH_BYTES = 256 * 1024
"""Bytes of one client that share a batch; a larger message goes alone."""
ANY_PARTITION = -1


class Batch:
    """Messages that go to one partition together."""

    __slots__ = ("ids", "parts", "size")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parts: list[NewRecord | RecordRun] = []
        self.size = 0

    def append(self, to: Partition, appends: Appends) -> asyncio.Future[int]:
        """Append all messages; as runs they are less work only if these are not too short."""
        if 2 * len(self.parts) <= len(self.ids) + 1:
            return appends.append(to, [_as_run(part) for part in self.parts])
        if len(self.parts) == len(self.ids):
            return appends.append(to, cast(list[NewRecord], self.parts))
        return appends.append(to, one_by_one([_as_run(part) for part in self.parts]))


class Producer:
    """What one client publishes; answered when it is safe, while more is being read."""

    def __init__(
        self, front: ProviderFront, access: Access, write: Callable[[bytes], None]
    ) -> None:
        self._front = front
        self._access = access
        self._write = write
        self._turns = itertools.count()
        self._unanswered = 0
        """Bytes of messages that are being stored."""
        self._answered = asyncio.Event()

    async def unanswered_below(self, size: int) -> None:
        """Wait until fewer bytes are without an answer."""
        while self._unanswered >= size:
            self._answered.clear()
            await self._answered.wait()

    async def publish(self, frames: Sequence[bytes]) -> None:
        """Append the messages of one read: one batch for each partition."""
        topics: dict[str, Topic] = {}
        batches: dict[Partition, Batch] = {}
        now_ms = self._front.listener.clock.now_ms()
        turn = next(self._turns)
        at = 0
        while at < len(frames):
            ids: Sequence[int] = ()
            try:
                name, asked, part, ids, size = read_run(frames, at, now_ms, BATCH_BYTES)
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = await self._topic(name)
                to = _partition_of(topic, asked, part.key, turn)
            except (ChordMQError, DecodeError) as error:
                ids = ids or [HEAD.unpack_from(frames[at])[1]]
                self._refuse(ids, error)
            else:
                batch = batches.get(to)
                if batch is None:
                    batch = batches[to] = Batch()
                elif batch.size + size > BATCH_BYTES:
                    self._append(to, batch)
                    batch = batches[to] = Batch()
                batch.ids += ids
                batch.parts.append(part)
                batch.size += size
            at += len(ids)
        for to, batch in batches.items():
            self._append(to, batch)

    def _append(self, to: Partition, batch: Batch) -> None:
        self._unanswered += batch.size
        self._front.messages_in += len(batch.ids)
        appended = batch.append(to, self._front.appends)
        appended.add_done_callback(partial(self._appended, to, batch))

    def _appended(self, to: Partition, batch: Batch, appended: asyncio.Future[int]) -> None:
        self._unanswered -= batch.size
        self._answered.set()
        if appended.cancelled():
            return
        error = appended.exception()
        if error is None:
            offset = appended.result()
            self._write(stored(batch.ids, to.index, offset))
            self._access.audit("publish", f"{to.topic}-{to.index} offset {offset}")
        else:
            self._refuse(batch.ids, error)

    def _refuse(self, ids: Sequence[int], error: BaseException) -> None:
        if not isinstance(error, ChordMQError | DecodeError):
            raise error
        self._write(refused(ids, status_of(error), str(error)))

    async def mark(self, frame: bytes) -> None:
        """Write that a data set begins or is complete, after all that came before it."""
        kind, message_id, _ = HEAD.unpack_from(frame)
        wanted = read(Marker, frame)
        topic = await self._topic(wanted.topic)
        marker = Marker(topic.name, wanted.data_set, wanted.refresh, len(topic.partitions))
        record = marker_record(Type(kind), marker, self._front.listener.clock.now_ms())
        appends = self._front.appends
        everywhere: list[Any] = [appends.append(one, [record]) for one in topic.partitions]
        marked = asyncio.gather(*everywhere)
        marked.add_done_callback(partial(self._marked, message_id))

    def _marked(self, message_id: int, marked: asyncio.Future[list[int]]) -> None:
        if marked.cancelled():
            return
        error = marked.exception()
        if error is None:
            self._write(accepted(message_id))
        else:
            self._refuse([message_id], error)

    async def _topic(self, name: str) -> Topic:
        """Return a topic that the client may write to; made on first use where that is allowed."""
        broker, access = self._front.broker, self._access
        access.check(Operation.WRITE, Kind.TOPIC, name)
        topic = broker.topics.find(name)
        if topic is None:
            if not broker.settings.auto_create_topics_enable:
                raise UnknownTopic(f"no topic {name}; create it first")
            if not access.allows(Operation.CREATE, Kind.CLUSTER, CLUSTER_NAME):
                access.check(Operation.CREATE, Kind.TOPIC, name)
            topic = await broker.topics.ensure(name)
        if topic.is_internal:
            raise PolicyViolation(f"{name} is the broker's own; clients may only read it")
        return topic


def _as_run(part: NewRecord | RecordRun) -> RecordRun:
    if isinstance(part, RecordRun):
        return part
    return RecordRun(part.timestamp, part.key, part.headers, [part.value])


def _partition_of(topic: Topic, asked: int, key: bytes | None, turn: int) -> Partition:
    """Return the partition asked for, else the key's, else another one for each read."""
    count = len(topic.partitions)
    if asked == ANY_PARTITION:
        asked = turn % count if key is None else partition_for_key(key, count) if count > 1 else 0
    if not 0 <= asked < count:
        raise InvalidRequest(f"{topic.name} has {count} partitions, not {asked}")
    return topic.partitions[asked]

"""Consumers of the plain length-prefixed protocol: each gets all messages, or they share them."""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence

from chordmq.broker.cursors.cursor import Policy
from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.cursors.index import GroupIndex
from chordmq.broker.cursors.shared_cursor import Limits, Outcome
from chordmq.broker.feed import Feed, Offsets
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.presence import ConsumerFacts
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.framed.messages import ACK, Hello, join_frames
from chordmq.errors import DecodeError
from chordmq.fronts.framed.front import FramedFront, Visitor
from chordmq.fronts.stream import Stream
from chordmq.logs import get_logger

log = get_logger(__name__)

BYTES_AT_ONCE = 256 * 1024
MESSAGES_AT_ONCE = 1_000
WAIT_S = 60.0
LOCK_MS = 60_000


Sent = tuple[int, int]
"""Partition and offset of a message that the consumer has and has not acknowledged."""


class Consumer:
    """What both kinds share: a sender, and a reader of acknowledgements beside it."""

    index = ""

    def __init__(
        self, front: FramedFront, stream: Stream, hello: Hello, topic: str, visitor: Visitor
    ) -> None:
        self._front = front
        self._stream = stream
        self._topic = topic
        self._visitor = visitor
        self._group = front.group_of(hello, topic)
        self._acknowledges = hello.ack != "auto"
        self._start = EARLIEST if hello.start == "earliest" else LATEST
        self._number = uuid.uuid4().hex
        self._name = hello.name
        self._delivered = 0
        self._unacknowledged: deque[Sent] = deque()
        self._room = asyncio.Event()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Take note that there may be more to send."""
        self._woken.set()

    async def serve(self, frames: list[bytes]) -> None:
        """Send messages until the client leaves."""
        self._stream.is_waiting = True
        self._front.broker.presence.subscribe(self)
        try:
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._visitor.meter.working(self._send()))
                try:
                    await self._acknowledgements(frames)
                finally:
                    sending.cancel()
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        finally:
            self._front.broker.presence.unsubscribe(self)

    def consumption(self) -> ConsumerFacts:
        """Return what the client consumes now, and how far it is."""
        offsets = self._place()
        partitions = self._front.broker.topics.get(self._topic).partitions
        ends = {one.index: one.high_watermark for one in partitions}
        return ConsumerFacts(
            client=self._number,
            name=self._name,
            protocol="framed",
            user=self._visitor.principal.name,
            host=self._stream.host,
            topic=self._topic,
            group=self._group,
            index=self.index,
            credit=self._front.settings.consumer_buffer_size if self._acknowledges else 0,
            unacknowledged=len(self._unacknowledged),
            delivered=self._delivered,
            lag=sum(max(ends[index] - offset, 0) for index, offset in offsets.items()),
            offsets={str(index): offset for index, offset in offsets.items()},
        )

    def _place(self) -> Offsets:
        """Return the next offset, by partition."""
        raise AssertionError("each kind keeps its own place")

    async def _send(self) -> None:
        raise AssertionError("each kind sends in its own way")

    async def _settle(self, sent: list[Sent]) -> None:
        raise AssertionError("each kind keeps its own place")

    async def _acknowledgements(self, frames: list[bytes]) -> None:
        """Take the client's acknowledgements: each is for the oldest message not acknowledged."""
        while frames or (frames := await self._stream.frames()):
            if frames.count(ACK) != len(frames):
                raise DecodeError("a consumer sends nothing but ACK")
            if len(frames) > len(self._unacknowledged):
                raise DecodeError("more was acknowledged than was sent")
            await self._settle([self._unacknowledged.popleft() for _ in frames])
            self._room.set()
            frames = []

    async def _sent(self, sent: list[Sent], values: list[bytes]) -> None:
        """Send messages in one write, and wait until the client has room for more."""
        self._visitor.check(Operation.READ, Kind.TOPIC, self._topic)
        data = join_frames(values)
        self._stream.write(data)
        self._front.messages_out += len(values)
        self._delivered += len(values)
        if self._acknowledges:
            self._unacknowledged += sent
        await self._stream.room()
        if not self._acknowledges:
            await self._settle(sent)
        self._visitor.meter.fetched += len(data)
        await self._visitor.meter.pause()

    @property
    def _window(self) -> int:
        """Return how many messages the client may still get before it acknowledges some."""
        return self._front.settings.consumer_buffer_size - len(self._unacknowledged)

    async def _wait_for_room(self) -> None:
        while self._window <= 0:
            self._room.clear()
            await self._room.wait()


class Broadcast(Consumer):
    """Gets every message; a name keeps its place as a committed offset of its own group."""

    index = "own"
    _feed: Feed | None = None

    async def _send(self) -> None:
        partitions = dict(enumerate(self._front.broker.topics.get(self._topic).partitions))
        self._feed = feed = Feed(partitions, await self._offsets(), is_patient=True)
        try:
            while True:
                if self._front.settings.when_full == "drop":
                    await self._drop_until_room(feed)
                await self._wait_for_room()
                feed.skip_gaps()
                found = feed.take(min(self._window, MESSAGES_AT_ONCE), BYTES_AT_ONCE)
                if found:
                    sent = [(index, record.offset) for index, record in found]
                    await self._sent(sent, [record.value or b"" for _, record in found])
                else:
                    await feed.more(WAIT_S)
        finally:
            feed.close()

    def _place(self) -> Offsets:
        return {} if self._feed is None else self._feed.offsets

    async def _offsets(self) -> Offsets:
        """Return where to begin: where the name stopped, else as asked."""
        partitions = self._front.broker.topics.get(self._topic).partitions
        begin = await self._front.broker.bounds.starts(partitions, self._start)
        if self._group:
            kept = await self._front.broker.group_reach.committed(self._group)
            for (topic, index), offset in kept.items():
                if topic == self._topic and index in begin:
                    begin[index] = offset
        return begin

    async def _drop_until_room(self, feed: Feed) -> None:
        """Skip what the client has no room for; only where the operator chose so."""
        while self._window <= 0:
            self._drop(feed)
            await first_of(feed.more(WAIT_S), self._acknowledged())
        self._room.clear()

    async def _acknowledged(self) -> None:
        self._room.clear()
        await self._room.wait()

    def _drop(self, feed: Feed) -> None:
        dropped = 0
        for index, partition in feed.partitions.items():
            end = max(partition.stable_offset, feed.offsets[index])
            dropped += end - feed.offsets[index]
            feed.offsets[index] = end
        if dropped:
            self._front.dropped += dropped
            log.warning("messages dropped for a slow consumer", topic=self._topic, count=dropped)

    async def _settle(self, sent: list[Sent]) -> None:
        if self._group:
            last = dict(sent)
            commits = [Commit(self._topic, index, offset + 1) for index, offset in last.items()]
            await self._front.broker.group_reach.commit(self._group, commits)


class Queue(Consumer):
    """Shares the messages with the other consumers of the queue; each goes to one of them."""

    index = "shared"
    _cursors: Sequence[GroupIndex] = ()

    async def _send(self) -> None:
        self._cursors = [cursor async for cursor in self._open()]
        try:
            while True:
                await self._wait_for_room()
                self._woken.clear()
                if not await self._send_available():
                    for cursor in self._cursors:
                        cursor.wait(self)
                    await self._woken.wait()
        finally:
            for cursor in self._cursors:
                cursor.forget(self)
                if not cursor.partition.is_closed:
                    cursor.leave(self._number)

    def _place(self) -> Offsets:
        return {one.partition.index: one.start for one in self._cursors}

    async def _open(self) -> AsyncIterator[GroupIndex]:
        policy = Policy(Limits(lock_ms=LOCK_MS, deliveries_max=2**15 - 1), only_stable=True)
        cursors = self._front.broker.cursors
        for partition in self._front.broker.topics.get(self._topic).partitions:
            yield await cursors.open(
                self._group, self._topic, partition.index, start_ms=EARLIEST, policy=policy
            )

    async def _send_available(self) -> bool:
        """Send what the cursors give; False if that is nothing."""
        has_sent = False
        for cursor in self._cursors:
            count = min(self._window, MESSAGES_AT_ONCE)
            if count <= 0:
                break
            delivery = cursor.take(self._number, count, BYTES_AT_ONCE)
            taken = [record for record, _ in delivery.records()]
            records = cursor.partition.delivered(taken)
            if records:
                has_sent = True
                sent = [(cursor.partition.index, record.offset) for record in records]
                await self._sent(sent, [record.value or b"" for record in records])
        return has_sent

    async def _settle(self, sent: list[Sent]) -> None:
        for index, first, last in _runs(sent):
            await self._cursors[index].settle(self._number, first, last, [Outcome.ACCEPT])


async def first_of(*works: Coroutine[None, None, object]) -> None:
    """Wait until one of these is done, and give the others up."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _runs(sent: list[Sent]) -> Iterator[tuple[int, int, int]]:
    """Yield (partition, first, last) of neighbouring offsets."""
    first = sent[0]
    previous = first
    for one in sent[1:]:
        if one != (previous[0], previous[1] + 1):
            yield *first, previous[1]
            first = one
        previous = one
    yield *first, previous[1]

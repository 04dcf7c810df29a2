"""Shared subscriptions: the clients of a group read with one durable index."""

import asyncio
from typing import TYPE_CHECKING

from chordmq.broker.cursors.cursor import Cursor, Policy
from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.cursors.shared_cursor import NO_LIMIT, Limits, Outcome
from chordmq.broker.partition import Partition
from chordmq.broker.subscriptions import matches
from chordmq.broker.topics import Topic
from chordmq.errors import ChordMQError, InvalidRecordState
from chordmq.fronts.mqtt.mapping import parcel_of
from chordmq.fronts.mqtt.subscriptions import Subscription, Target, target_of

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import MqttFront

BYTES_AT_ONCE = 128 * 1024
TAKEN_MAX = 1_000
"""Messages that one client of a group takes at once."""
POLICY = Policy(Limits(lock_ms=NO_LIMIT, deliveries_max=NO_LIMIT), only_stable=True)
"""A client keeps a message until it answers or goes; nothing is given up."""


class SharedSource:
    """One partition that a client reads together with others."""

    def __init__(self, reader: "SharedReader", cursor: Cursor) -> None:
        self.partition: Partition = cursor.partition
        self.cursor = cursor
        self._reader = reader
        self._accepted: list[int] = []
        self._released: list[int] = []

    def settled(self, offset: int, *, is_taken: bool = True) -> None:
        """Tell the group, once for all that is answered in this turn."""
        if not self._accepted and not self._released:
            asyncio.get_running_loop().call_soon(self._settle)
        (self._accepted if is_taken else self._released).append(offset)

    def _settle(self) -> None:
        accepted, released = sorted(self._accepted), sorted(self._released)
        self._accepted, self._released = [], []
        for offsets, outcome in ((accepted, Outcome.ACCEPT), (released, Outcome.RELEASE)):
            for first, last in _spans(offsets):
                try:
                    stored = self.cursor.settle(self._reader.holder, first, last, [outcome])
                    stored.add_done_callback(_let_be)
                except (InvalidRecordState, ChordMQError):
                    pass  # the group, its topic or the client's part in it is no more


class SharedReader:
    """One client's part in a group; the group goes on when all its clients are away."""

    def __init__(
        self, front: "MqttFront", subscription: Subscription, group: str, name: str
    ) -> None:
        self._front = front
        self.subscription = subscription
        self.group = group
        self.name = name
        """The filter of the names that are wanted."""
        self.holder = f"{subscription.session.client_id}#{id(self):x}"
        self._sources: dict[Partition, SharedSource] = {}
        self._target: Target = target_of(subscription.session, [subscription])
        self._is_scheduled = False
        self.is_closed = False

    async def open(self, start_ms: int = LATEST) -> None:
        """Join the group in all log topics that the filter may find something in."""
        broker = self._front.broker
        known = [topic.name for topic in broker.topics if not topic.is_internal]
        for name in list(self._front.names.topics(self.name, known)):
            await self._join(broker.topics.get(name), start_ms)
        self.wake()

    async def _join(self, topic: Topic, start_ms: int) -> None:
        session = self.subscription.session
        if not self.subscription.is_granted and not session.may_read(topic.name):
            return
        for partition in list(topic.partitions):
            if partition in self._sources:
                continue
            cursor = await self._front.broker.cursors.open(
                self.group, topic.name, partition.index, start_ms=start_ms, policy=POLICY
            )
            if partition not in self._sources and not self.is_closed:
                self._sources[partition] = SharedSource(self, cursor)

    def look_again(self) -> None:
        """Join the group in log topics that were made since, from their beginning."""
        if not self.is_closed:
            self._front.tasks.create_task(self._grow())

    async def _grow(self) -> None:
        for partition in [one for one in self._sources if one.is_closed]:
            del self._sources[partition]
        try:
            await self.open(EARLIEST)
        except ChordMQError:
            pass  # another change of topics follows

    def wake(self) -> None:
        """Take messages at the end of this turn."""
        if not self._is_scheduled and not self.is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._is_scheduled = False
        outbox = self.subscription.session.outbox
        connection = outbox.connection
        if self.is_closed or connection is None:
            return
        for source in list(self._sources.values()):
            room = min(connection.window - len(outbox.flights), TAKEN_MAX)
            if room <= 0 or outbox.pending or not connection.has_room:
                outbox.when_free(self.wake)
                return
            if source.partition.is_closed:
                continue
            self._take(source, room)

    def _take(self, source: SharedSource, room: int) -> None:
        delivery = source.cursor.take(self.holder, room, BYTES_AT_ONCE)
        found = 0
        for record, _ in delivery.records():
            found += 1
            for one in source.partition.delivered([record]):
                parcel = parcel_of(source.partition.topic, one)
                parcel.source = source
                if matches(self.name, parcel.name):
                    self.subscription.session.outbox.offer(parcel, self._target)
                else:
                    source.settled(record.offset)
        if found:
            self.wake()
        else:
            source.cursor.wait(self)

    def pause(self) -> None:
        """Take no more while the client is away, and leave to others what it has not answered."""
        for source in self._sources.values():
            source.cursor.forget(self)

    def close(self) -> None:
        """Leave the group."""
        self.is_closed = True
        for source in self._sources.values():
            source.cursor.forget(self)
            if not source.partition.is_closed:
                source.cursor.leave(self.holder)


def _spans(offsets: list[int]) -> list[tuple[int, int]]:
    """Return sorted offsets as ranges without gaps."""
    spans: list[tuple[int, int]] = []
    for offset in offsets:
        if spans and spans[-1][1] + 1 == offset:
            spans[-1] = (spans[-1][0], offset)
        else:
            spans.append((offset, offset))
    return spans


def _let_be(stored: asyncio.Future[None]) -> None:
    """Take note of a failure: what was not stored is given again."""
    if not stored.cancelled():
        stored.exception()

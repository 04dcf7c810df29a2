"""What reads the log for one subscription by itself: a part in a group, or a stream."""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.partition import Partition
from chordmq.broker.subscriptions import matches
from chordmq.broker.topic import Topic
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt.groups import RETRY_S
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.outbox import Outbox
from chordmq.fronts.mqtt.subscriptions import Subscription, Target, target_of
from chordmq.fronts.mqtt.tails import Source

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import MqttFront

TAKEN_MAX = 1_000
"""Messages that a client takes at once."""

OneSource = TypeVar("OneSource", bound=Source)


class Reader(ABC, Generic[OneSource]):
    """Reads as much as its client takes, from all log topics that hold what is wanted."""

    def __init__(
        self, front: "MqttFront", subscription: Subscription, log_topic: str, wanted: str
    ) -> None:
        self.front = front
        self.subscription = subscription
        self._log_topic = log_topic
        """The one log topic to read; empty for all that the filter may find something in."""
        self._wanted = wanted
        """The filter of the names that are wanted; empty for all of the log topic."""
        self.sources: dict[Partition, OneSource] = {}
        self._target: Target = target_of(subscription.session, [subscription])
        self._is_scheduled = False
        self.is_closed = False

    @property
    def outbox(self) -> Outbox:
        """Return what goes to the client."""
        return self.subscription.session.outbox

    async def open(self, start_ms: int = LATEST) -> None:
        """Begin to read all log topics that hold what is wanted."""
        for topic in self._topics():
            session = self.subscription.session
            if self.subscription.is_granted or session.may_read(topic.name):
                for partition in list(topic.partitions):
                    if partition not in self.sources:
                        source = await self.source(topic, partition, start_ms)
                        self.sources.setdefault(partition, source)
        self.wake()

    def _topics(self) -> list[Topic]:
        topics = self.front.broker.topics
        if self._log_topic:
            topic = topics.find(self._log_topic)
            return [] if topic is None or topic.is_internal else [topic]
        return list(self.front.names.reach(self._wanted).among(topics))

    @abstractmethod
    async def source(self, topic: Topic, partition: Partition, start_ms: int) -> OneSource:
        """Return what one partition is read from."""

    @abstractmethod
    def take(self, source: OneSource, room: int) -> list[Parcel] | None:
        """Return the next messages of a partition; None, and be woken later, if there are none."""

    def place_in(self, source: OneSource) -> int:
        """Return the offset before which the client needs nothing any more."""
        raise AssertionError("the group keeps the place")

    def look_again(self) -> None:
        """Read log topics that were made since, from their beginning."""
        if not self.is_closed:
            self.front.tasks.create_task(self._grow())

    async def _grow(self) -> None:
        for partition in [one for one in self.sources if one.is_closed]:
            source = self.sources.pop(partition)
            if partition.moved_to is not None:
                source.partition = partition.moved_to
                self.sources[partition.moved_to] = source
        while not self.is_closed:
            try:
                await self.open(EARLIEST)
                break
            except ChordMQError:
                await asyncio.sleep(RETRY_S)

    def wake(self) -> None:
        """Take messages at the end of this turn."""
        if not self._is_scheduled and not self.is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._is_scheduled = False
        outbox = self.outbox
        connection = outbox.connection
        if self.is_closed or connection is None:
            return
        for source in self.turns():
            room = min(connection.window - len(outbox.flights), TAKEN_MAX)
            if room <= 0 or outbox.pending or not connection.has_room:
                outbox.when_free(self.wake)
                return
            if source.partition.is_closed:
                continue
            parcels = self.take(source, room)
            if parcels is not None:
                self._hand_on(parcels)
                self.wake()

    def turns(self) -> list[OneSource]:
        """Return which partitions to read now."""
        return list(self.sources.values())

    def _hand_on(self, parcels: list[Parcel]) -> None:
        session = self.subscription.session
        for parcel in parcels:
            is_wanted = not self._wanted or matches(self._wanted, parcel.name)
            # The log topic was looked at when its source was opened.
            if is_wanted and session.may_get(parcel.name, "", is_granted=True):
                self.outbox.offer(parcel, self._target)
            elif parcel.source is not None:
                parcel.source.settled(parcel.base_offset)

    def pause(self) -> None:
        """Take no more while the client is away."""
        for source in self.sources.values():
            self.forget(source)

    @abstractmethod
    def forget(self, source: OneSource) -> None:
        """Be woken no more for a partition."""

    def close(self) -> None:
        """Read no more."""
        self.is_closed = True
        self.pause()

"""Shared subscriptions and queues: the clients of a group read with one durable index."""

import asyncio
from typing import TYPE_CHECKING

from chordmq.broker.cursors.index import GroupIndex
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt.groups import POLICY
from chordmq.fronts.mqtt.mapping import Parcel, parcel_of
from chordmq.fronts.mqtt.readers import Reader
from chordmq.fronts.mqtt.subscriptions import Subscription

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import MqttFront

BYTES_AT_ONCE = 128 * 1024
AFFINITY = ("chordmq.affinity", "key")
"""A user property of SUBSCRIBE: what has the same key goes to the same client of the group."""


class SharedSource:
    """One partition that a client reads together with others."""

    is_own = False

    def __init__(self, cursor: GroupIndex, holder: str) -> None:
        self.partition: Partition = cursor.partition
        self.cursor = cursor
        self._holder = holder
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
            for first, last in spans(offsets):
                try:
                    stored = self.cursor.settle(self._holder, first, last, [outcome])
                    stored.add_done_callback(_let_be)
                except ChordMQError:
                    pass  # the group, its topic or the client's part in it is no more


class SharedReader(Reader[SharedSource]):
    """One client's part in a group; the group goes on when all its clients are away."""

    def __init__(
        self, front: "MqttFront", subscription: Subscription, group: str, what: tuple[str, str]
    ) -> None:
        super().__init__(front, subscription, *what)
        self._group = group
        self._holder = f"{subscription.session.client_id}#{id(self):x}"
        self._is_bound = AFFINITY in subscription.user
        if self._is_bound:
            front.groups.bind(group, self)

    @property
    def is_there(self) -> bool:
        """Return whether the client is connected."""
        return self.outbox.connection is not None and not self.is_closed

    def turns(self) -> list[SharedSource]:
        """Return which partitions to read: with affinity those that are this client's."""
        sources = list(self.sources.values())
        if not self._is_bound:
            return sources
        number, count = self.front.groups.share_of(self._group, self)
        if len(sources) < count:
            return sources
        sources.sort(key=lambda one: (one.partition.topic, one.partition.index))
        return sources[number::count]

    def pause(self) -> None:
        """Take no more while the client is away; others take its partitions."""
        super().pause()
        if self._is_bound:
            self.front.groups.divide(self._group)

    async def source(self, topic: Topic, partition: Partition, start_ms: int) -> SharedSource:
        """Join the group in one partition."""
        cursor = await self.front.broker.cursors.open(
            self._group, topic.name, partition.index, start_ms=start_ms, policy=POLICY
        )
        return SharedSource(cursor, self._holder)

    def take(self, source: SharedSource, room: int) -> list[Parcel] | None:
        """Return messages that nobody else of the group has."""
        delivery = source.cursor.take(self._holder, room, BYTES_AT_ONCE)
        records = [record for record, _ in delivery.records()]
        if not records:
            source.cursor.wait(self)
            return None
        parcels = []
        for record in source.partition.delivered(records):
            parcel = parcel_of(source.partition.topic, record)
            parcel.source = source
            parcels.append(parcel)
        return parcels

    def forget(self, source: SharedSource) -> None:
        """Be woken no more for a partition."""
        source.cursor.forget(self)

    def close(self) -> None:
        """Leave the group; others get what the client has not answered."""
        super().close()
        self.front.groups.unbind(self._group, self)
        for source in self.sources.values():
            if not source.partition.is_closed:
                source.cursor.leave(self._holder)


def spans(offsets: list[int]) -> list[tuple[int, int]]:
    """Return sorted offsets as ranges without gaps."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] + 1 == offset:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


def _let_be(stored: asyncio.Future[None]) -> None:
    """Take note of a failure: what was not stored is given again."""
    if not stored.cancelled():
        stored.exception()

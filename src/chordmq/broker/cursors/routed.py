"""A shared cursor of a cluster: kept here while this node leads its partition, else asked for."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Protocol

from chordmq.broker.audience import Audience, Reader
from chordmq.broker.cursors.cursor import Answer, Cursor, Delivery
from chordmq.broker.cursors.exchange import Exchange
from chordmq.broker.cursors.records import CursorKey
from chordmq.broker.cursors.shared_cursor import Outcome, Taken
from chordmq.broker.cursors.wishes import (
    Leaving,
    Place,
    Settled,
    Settling,
    Taking,
    read_given,
)
from chordmq.broker.partition import Partition
from chordmq.errors import ChordMQError, CoordinatorNotAvailable, UnknownTopic

RETRY_S = 0.2
"""Until consumers look again after the cursor's node could not be asked."""

Asking = tuple[str, bytes, str]
"""A consumer: its group, the id of its topic, its name."""


class Kept(Protocol):
    """The cursors of this node, and the way to those of others."""

    exchange: Exchange
    node_name: str
    """Tells this life of the node from all others."""
    asking: set[Asking]
    """For whom records are being taken elsewhere."""

    def here(self, key: CursorKey) -> Cursor | None:
        """Return a cursor if it is kept here now."""
        ...

    def leader_of(self, key: CursorKey) -> tuple[int, int]:
        """Return who keeps a cursor, and in which epoch, as far as is known."""
        ...

    def start(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Do some work in the background."""
        ...


class RoutedCursor(Audience):
    """Goes on with the next node that leads; what was given and not settled comes again then.

    One request for records is under way for a consumer at a time, over all partitions of its
    topic, so that it gets no more than it has asked for.
    """

    def __init__(
        self, key: CursorKey, partition: Partition, cursors: Kept, *, is_bound: bool = True
    ) -> None:
        super().__init__()
        self.key = key
        self._partition = partition
        self._cursors = cursors
        self._is_bound = is_bound
        self._leader = cursors.leader_of(key)
        self._come: dict[str, Delivery] = {}
        """What was taken elsewhere for a consumer that has not fetched it yet."""
        self._dry: set[str] = set()
        """Consumers for whom there was nothing; it is told when that may have changed."""
        self._gone: set[str] = set()
        """Consumers that have left, for whom something may still be on its way."""
        self._news = 0
        """Counts how often there may have been something again."""
        self._start = 0
        self._lag = 0

    @property
    def partition(self) -> Partition:
        """Return the partition, or what stands for it now."""
        while self._partition.is_closed and self._partition.moved_to is not None:
            self._partition = self._partition.moved_to
        return self._partition

    @property
    def start(self) -> int:
        """Return the first offset that is not done, as far as is known here."""
        here = self._cursors.here(self.key)
        return self._start if here is None else here.start

    @property
    def lag(self) -> int:
        """Return how many offsets are not done, as far as is known here."""
        here = self._cursors.here(self.key)
        return self._lag if here is None else here.lag

    def take(self, holder: str, count_max: int, max_bytes: int) -> Delivery:
        """Give a consumer what has come; ask for more if nothing has."""
        here = self._here()
        if here is not None:
            return here.take(holder, count_max, max_bytes)
        come = self._come.pop(holder, None)
        if come is not None:
            given, rest = _split(come, count_max)
            if rest is not None:
                self._come[holder] = rest
            return given
        self._gone.discard(holder)
        asking = self._asking(holder)
        if holder not in self._dry and asking not in self._cursors.asking:
            self._cursors.asking.add(asking)
            self._cursors.start(self._fetch(holder, count_max, max_bytes))
        return Delivery()

    async def take_now(self, holder: str, count_max: int, max_bytes: int) -> Delivery:
        """Give a consumer records from wherever they are."""
        here = self._here()
        if here is not None:
            return await here.take_now(holder, count_max, max_bytes)
        wish = Taking(Place(*self.key), self._name(holder), count_max, max_bytes, self._is_bound)
        body = await self._cursors.exchange.ask(self.partition, wish)
        given, delivery = read_given(body, self.partition)
        self._start, self._lag = given.start, given.lag
        return delivery

    async def _fetch(self, holder: str, count_max: int, max_bytes: int) -> None:
        leader, news = self._leader, self._news
        try:
            delivery = await self.take_now(holder, count_max, max_bytes)
        except ChordMQError:
            asyncio.get_running_loop().call_later(RETRY_S, self.wake)
            return
        finally:
            self._cursors.asking.discard(self._asking(holder))
        if holder in self._gone:
            self.leave(holder)
        elif leader == self._leader and delivery.taken:
            self._come[holder] = delivery
        elif news == self._news:
            self._dry.add(holder)
        self.wake()

    def settle(
        self, holder: str, first: int, last: int, outcomes: Sequence[Outcome]
    ) -> asyncio.Future[None]:
        """Take a consumer's answer; the future is done when it is in the log."""
        return self.settle_all(holder, [Answer(first, last, outcomes)])

    def settle_all(self, holder: str, answers: Sequence[Answer]) -> asyncio.Future[None]:
        """Take several answers about offsets that do not overlap, all or none."""
        here = self._here()
        if here is not None:
            return here.settle_all(holder, answers)
        settled = tuple(Settled(one.first, one.last, tuple(one.outcomes)) for one in answers)
        wish = Settling(Place(*self.key), self._name(holder), settled)
        return self._cursors.start(self._settle(wish))

    async def _settle(self, wish: Settling) -> None:
        await self._cursors.exchange.ask(self.partition, wish)

    def leave(self, holder: str) -> None:
        """Give a consumer's records to others."""
        self._come.pop(holder, None)
        self._dry.discard(holder)
        self._gone.add(holder)
        here = self._cursors.here(self.key)
        if here is not None:
            here.leave(holder)
        else:
            wish = Leaving(Place(*self.key), self._name(holder))
            self._cursors.start(self._leave(wish))

    async def _leave(self, wish: Leaving) -> None:
        """Tell the cursor's node, until it knows or has led the partition long enough."""
        leader = self._leader
        while leader == self._cursors.leader_of(self.key):
            try:
                await self._cursors.exchange.ask(self.partition, wish)
            except CoordinatorNotAvailable:
                await asyncio.sleep(RETRY_S)
            except ChordMQError:
                return
            else:
                return

    def wait(self, reader: Reader) -> None:
        """Have `reader` woken once when there may be something to take."""
        super().wait(reader)
        here = self._cursors.here(self.key)
        if here is not None:
            here.wait(reader)

    def forget(self, reader: Reader) -> None:
        """Do not wake `reader` any more."""
        super().forget(reader)
        here = self._cursors.here(self.key)
        if here is not None:
            here.forget(reader)

    def look_again(self) -> None:
        """Take note that there may be something, or that another node keeps the cursor."""
        leader = self._cursors.leader_of(self.key)
        if leader != self._leader:
            self._leader = leader
            self._come.clear()
        self._news += 1
        self._dry.clear()
        self.wake()

    def _here(self) -> Cursor | None:
        if self.partition.is_closed:
            raise UnknownTopic(f"{self.partition.topic} was deleted")
        return self._cursors.here(self.key)

    def _asking(self, holder: str) -> Asking:
        return self.key.group, self.key.topic_id, holder

    def _name(self, holder: str) -> str:
        """Return a consumer's name as other nodes know it."""
        return f"{self._cursors.node_name}/{holder}" if self._is_bound else holder


def _split(delivery: Delivery, count_max: int) -> tuple[Delivery, Delivery | None]:
    """Return so many records of a delivery, and the rest."""
    given: list[Taken] = []
    for number, (first, last, deliveries) in enumerate(delivery.taken):
        count = last - first + 1
        if count > count_max:
            rest = [Taken(first + count_max, last, deliveries), *delivery.taken[number + 1 :]]
            if count_max:
                given.append(Taken(first, first + count_max - 1, deliveries))
            return (
                Delivery(delivery.batches, given, delivery.partition),
                Delivery(delivery.batches, rest, delivery.partition),
            )
        given.append(Taken(first, last, deliveries))
        count_max -= count
    return delivery, None

"""Consumers of the provider's protocol: each has an index of its own, or shares one."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import Protocol

from chordmq.broker.cursors.cursor import Answer, Policy
from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.cursors.index import GroupIndex
from chordmq.broker.cursors.shared_cursor import Limits, Outcome
from chordmq.broker.feed import Feed, Offsets
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.topic import Topic
from chordmq.codecs.provider.frames import Acknowledgement, frame, message_id, write_push
from chordmq.codecs.provider.messages import Subscribe, marker_of
from chordmq.errors import InvalidRecordState, InvalidRequest, UnknownTopic
from chordmq.fronts.provider.front import ProviderFront
from chordmq.fronts.provider.window import Window
from chordmq.records.record import Record

BYTES_AT_ONCE = 256 * 1024
MESSAGES_AT_ONCE = 1_000
IN_FLIGHT_MAX = 20_000
"""Messages that all consumers of a shared index together have without acknowledgement."""

Place = tuple[int, int]
"""A partition and an offset."""


Push = tuple[int, Record, int]
"""A partition, a record of it to send, and for the how-manieth time."""


class Consumer(Protocol):
    """One subscription: what it sends, and what it makes of the client's answers."""

    wanted: Subscribe
    window: Window
    delivered: int

    async def open(self) -> Offsets:
        """Find the place to begin at, and return it by partition."""
        ...

    def take(self, count_max: int, now_s: float) -> list[Push]:
        """Return what is to be sent next; nothing if `wake` is called when there is more."""
        ...

    def acknowledge(self, answers: Iterable[Acknowledgement]) -> list[int]:
        """Take the client's answers, and return the ids of those it does not hold."""
        ...

    async def commit(self, commits: Sequence[Place]) -> None:
        """Keep the client's place."""
        ...

    def late(self, now_s: float) -> None:
        """Have messages delivered again whose time to be acknowledged is over."""
        ...

    def grow(self) -> None:
        """Follow partitions that were added."""
        ...

    def place(self) -> Offsets:
        """Return the next offset, by partition."""
        ...

    def lag(self) -> int:
        """Return how many messages wait for this consumer, or for all who share its index."""
        ...

    def wake(self) -> None:
        """Take note that there may be more to send."""
        ...

    def close(self) -> None:
        """Wait no more, and give back what is not acknowledged."""
        ...


class OwnIndex:
    """Gets every message; its place is what its group has committed, or what it asks for."""

    def __init__(self, front: ProviderFront, wanted: Subscribe, woken: asyncio.Event) -> None:
        self.wanted = wanted
        self.window = Window(wanted.credit or MESSAGES_AT_ONCE, wanted.ack_timeout_ms / 1000)
        self.delivered = 0
        self._broker = front.broker
        self._woken = woken
        self._topic: Topic = front.broker.topics.get(wanted.topic)
        self._late: dict[Place, None] = {}
        """What is to be sent again."""
        self._tries: dict[Place, int] = {}
        """How often those were sent that were sent more than once."""
        self._feed: Feed

    async def open(self) -> Offsets:
        """Find the place to begin at, and return it by partition."""
        self._follow(await self._begin())
        return dict(self._feed.offsets)

    def _follow(self, offsets: Offsets) -> None:
        self._feed = Feed(dict(enumerate(self._topic.partitions)), offsets, is_patient=True)

    async def _begin(self) -> Offsets:
        wanted, partitions = self.wanted, self._topic.partitions
        bounds, start = self._broker.bounds, wanted.start
        if wanted.since_ms is not None:
            return await bounds.starts(partitions, wanted.since_ms)
        if start == "latest":
            return await bounds.starts(partitions, LATEST)
        begin = await bounds.starts(partitions, EARLIEST)
        if isinstance(start, int):
            return dict.fromkeys(begin, start)
        if isinstance(start, dict):
            if unknown := set(start) - set(begin):
                raise UnknownTopic(f"{wanted.topic} has no partition {min(unknown)}")
            return begin | start
        if start == "committed" and wanted.group:
            committed = await self._broker.group_reach.committed(wanted.group)
            for (topic, index), offset in committed.items():
                if topic == wanted.topic and index in begin:
                    begin[index] = offset
        return begin

    def take(self, count_max: int, now_s: float) -> list[Push]:
        """Return what is to be sent next; nothing if `wake` is called when there is more."""
        self._feed.check_open()
        if self._late:
            pushes = self._take_late(count_max)
        else:
            self._feed.skip_gaps()
            found = self._feed.take(count_max, BYTES_AT_ONCE)
            pushes = [(partition, record, 1) for partition, record in found]
        if not pushes and not self._late:
            self._feed.wait(self)
        elif self.wanted.credit:
            self.window.sent([(index, record.offset) for index, record, _ in pushes], now_s)
        return pushes

    def _take_late(self, count_max: int) -> list[Push]:
        """Read again what was not acknowledged; what retention took away meanwhile is let go."""
        pushes: list[Push] = []
        while self._late and not pushes:
            partition, first = next(iter(self._late))
            feed = Feed({partition: self._feed.partitions[partition]}, {partition: first})
            feed.skip_gaps()
            if feed.is_at_end:  # another node has it, and sends it
                feed.wait(self)
                break
            for _, record in feed.take(count_max, BYTES_AT_ONCE):
                place = (partition, record.offset)
                if place in self._late:
                    del self._late[place]
                    self._tries[place] = self._tries.get(place, 1) + 1
                    pushes.append((partition, record, self._tries[place]))
            self._late.pop((partition, first), None)
        return pushes

    def acknowledge(self, answers: Iterable[Acknowledgement]) -> list[int]:
        """Take the client's answers, and return the ids of those it does not hold."""
        strange = []
        for answer in answers:
            partition, first, last, outcome = answer
            offsets = self.window.acknowledged(partition, first, last)
            if self._late:
                offsets += self._no_more_late(answer)
            places = [(partition, offset) for offset in offsets]
            if not places:
                strange.append(message_id(partition, first))
            elif outcome == Outcome.RELEASE:
                self._late |= dict.fromkeys(places)
            elif outcome == Outcome.RENEW:
                self.window.sent(places, asyncio.get_running_loop().time())
            elif self._tries:
                for place in places:
                    self._tries.pop(place, None)
        self.wake()
        return strange

    def _no_more_late(self, answer: Acknowledgement) -> list[int]:
        """Return which offsets were to be sent again and need not, for an answer came late."""
        partition, first, last, _ = answer
        found = [o for index, o in self._late if index == partition and first <= o <= last]
        for offset in found:
            del self._late[partition, offset]
        return found

    async def commit(self, commits: Sequence[Place]) -> None:
        """Keep the client's place."""
        wanted = self.wanted
        if not wanted.group:
            raise InvalidRequest("a consumer without a group has no place to keep")
        for index, offset in commits:
            partition = self._broker.partition(wanted.topic, index)
            if offset < 0 or (partition.is_leader and offset > partition.log.end_offset):
                raise InvalidRequest(f"partition {index} ends at {partition.log.end_offset}")
        named = [Commit(wanted.topic, index, offset) for index, offset in commits]
        await self._broker.group_reach.commit(wanted.group, named)

    def late(self, now_s: float) -> None:
        """Have messages delivered again whose time to be acknowledged is over."""
        if places := self.window.late(now_s):
            self._late |= dict.fromkeys(places)
            self.wake()

    def grow(self) -> None:
        """Follow partitions that were added."""
        if len(self._topic.partitions) > len(self._feed.partitions):
            self._follow(self._feed.offsets)
            self.wake()

    def place(self) -> Offsets:
        """Return the next offset, by partition."""
        return self._feed.offsets

    def lag(self) -> int:
        """Return how many messages wait for this consumer."""
        offsets = self._feed.offsets
        partitions = self._feed.partitions
        return sum(max(p.high_watermark - offsets[i], 0) for i, p in partitions.items())

    def wake(self) -> None:
        """Take note that there may be more to send."""
        self._woken.set()

    def close(self) -> None:
        """Wait no more; what is not acknowledged comes again from the committed place on."""
        self._feed.forget(self)


class SharedIndex:
    """Shares one durable index with others of its group: each message goes to one of them."""

    def __init__(
        self, front: ProviderFront, wanted: Subscribe, woken: asyncio.Event, holder: str
    ) -> None:
        self.wanted = wanted
        self.window = Window(wanted.credit, wanted.ack_timeout_ms / 1000)
        self.delivered = 0
        self._broker = front.broker
        self._woken = woken
        self._holder = holder
        self._cursors: dict[int, GroupIndex] = {}

    async def open(self) -> Offsets:
        """Find the place to begin at, and return it by partition."""
        self._cursors = {cursor.partition.index: cursor async for cursor in self._open()}
        return self.place()

    async def _open(self) -> AsyncIterator[GroupIndex]:
        wanted = self.wanted
        start_ms = LATEST if wanted.start == "latest" else EARLIEST
        if wanted.since_ms is not None:
            start_ms = wanted.since_ms
        limits = Limits(
            lock_ms=wanted.ack_timeout_ms,
            deliveries_max=wanted.deliveries_max,
            in_flight_max=IN_FLIGHT_MAX,
        )
        policy = Policy(limits, only_stable=True, dead_letter=wanted.dead_letter)
        for partition in self._broker.topics.get(wanted.topic).partitions:
            yield await self._broker.cursors.open(
                wanted.group, wanted.topic, partition.index, start_ms=start_ms, policy=policy
            )

    def take(self, count_max: int, now_s: float) -> list[Push]:
        """Return what is to be sent next; nothing if `wake` is called when there is more."""
        pushes: list[Push] = []
        for index, cursor in self._cursors.items():
            room = count_max - len(pushes)
            if room <= 0:
                break
            delivery = cursor.take(self._holder, room, BYTES_AT_ONCE)
            taken = list(delivery.records())
            counts = {record.offset: deliveries for record, deliveries in taken}
            records = cursor.partition.delivered([record for record, _ in taken])
            pushes += [(index, record, counts.get(record.offset, 1)) for record in records]
        if pushes:
            self.window.sent([(index, record.offset) for index, record, _ in pushes], now_s)
        else:
            for cursor in self._cursors.values():
                cursor.wait(self)
        return pushes

    def acknowledge(self, answers: Iterable[Acknowledgement]) -> list[int]:
        """Take the client's answers, and return the ids of those it does not hold."""
        strange: list[int] = []
        for (partition, outcome), group in groupby(answers, lambda one: (one[0], one[3])):
            offsets: list[int] = []
            for _, first, last, _ in group:
                found = self.window.acknowledged(partition, first, last)
                if not found:
                    strange.append(message_id(partition, first))
                offsets += found
            if offsets:
                strange += self._settle(partition, sorted(offsets), Outcome(outcome))
        self.wake()
        return strange

    def _settle(self, partition: int, offsets: list[int], outcome: Outcome) -> list[int]:
        """Settle offsets; the cursor stores them with all others of this turn."""
        cursor = self._cursors[partition]
        if outcome == Outcome.RENEW:
            self.window.sent([(partition, o) for o in offsets], asyncio.get_running_loop().time())
        answers = [Answer(first, last, [outcome]) for first, last in runs(offsets)]
        try:
            cursor.settle_all(self._holder, answers).add_done_callback(_stored)
        except InvalidRecordState:
            if len(offsets) == 1:  # its time was over, and somebody else has it
                return [message_id(partition, offsets[0])]
            return [o for one in offsets for o in self._settle(partition, [one], outcome)]
        return []

    async def commit(self, commits: Sequence[Place]) -> None:
        """Refuse: a shared index moves by acknowledgements."""
        raise InvalidRequest("a shared index has no offset to commit; acknowledge its messages")

    def late(self, now_s: float) -> None:
        """Free the credit of messages whose time is over; the cursor gives them to anybody."""
        if self.window.late(now_s):
            self.wake()

    def grow(self) -> None:
        """Go on with the partitions there were: new ones are shared by those who come next."""

    def place(self) -> Offsets:
        """Return the first offset that is not done, by partition."""
        return {index: cursor.start for index, cursor in self._cursors.items()}

    def lag(self) -> int:
        """Return how many messages wait for all who share the index."""
        return sum(cursor.lag for cursor in self._cursors.values())

    def wake(self) -> None:
        """Take note that there may be more to send."""
        self._woken.set()

    def close(self) -> None:
        """Wait no more, and give what the client holds to others of the group."""
        for cursor in self._cursors.values():
            cursor.forget(self)
            if not cursor.partition.is_closed:
                cursor.leave(self._holder)


def _stored(stored: asyncio.Future[None]) -> None:
    """Look at a failure, so that nobody warns of it: the cursor delivers again what it undid."""
    if not stored.cancelled():
        stored.exception()


def runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return neighbouring offsets as (first, last)."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] + 1 == offset:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


def write_pushes(pushes: Sequence[Push]) -> bytes:
    """Return the frames of many messages as one piece; markers as RESET and READY."""
    out: list[bytes] = []
    for partition, record, deliveries in pushes:
        kind = marker_of(record) if record.headers else None
        if kind is None:
            write_push(out, partition, record, deliveries)
        else:
            out.append(frame(kind, message_id(partition, record.offset), record.value or b""))
    return b"".join(out)

"""Subscriptions of procedure-call clients: pages of records, taken at the client's pace."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from chordmq.broker.cursors.cursors import EARLIEST
from chordmq.broker.cursors.index import GroupIndex
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.feed import Feed, Gap, Offsets, read_position, write_position
from chordmq.broker.names import NAME_HEADER, is_filter, is_wanted, name_of, without_name
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.subscriptions import check_filter
from chordmq.broker.topic import Topic
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ChordMQError,
    InvalidRecordState,
    InvalidRequest,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownTopic,
)
from chordmq.records.record import Record

if TYPE_CHECKING:
    from chordmq.fronts.rpc.session import Session

RECORDS_AT_ONCE = 1_000
BYTES_AT_ONCE = 128 * 1024
HELD_MAX = 1_000
"""Messages that a member of a group holds if it asks for no other number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a client asks for."""

    topic: str
    """A log topic, or a filter over names with levels."""
    own: str = ""
    """The name of an index of one's own, which keeps what is committed."""
    shared: str = ""
    """The group whose index is shared."""
    start_ms: int = EARLIEST
    """Where an index begins that has no place yet: a time, EARLIEST or LATEST."""
    positions: Mapping[str, str] = field(default_factory=dict)
    """Where to go on, by log topic."""
    credit: int = 0
    """Messages that may come before more credit is given; 0 for any number."""


class Delivered(NamedTuple):
    """A record for the client."""

    partition: int
    record: Record
    name: str = ""
    """The name with levels that it was published under, if any."""
    deliveries: int = 0
    """Of a shared index: for the how-manieth time."""


@dataclass(frozen=True, slots=True)
class Page:
    """The next records of a log topic."""

    topic: str
    rows: Sequence[Delivered]
    position: str = ""
    """Of an index of one's own: where to go on."""
    gaps: Sequence[Gap] = ()


class Subscription(Protocol):
    """What fronts do with a subscription."""

    topic: str
    """What the client asked for."""

    async def next(self) -> Page:
        """Wait for records and for credit, and return a page; raise why there will be none."""
        ...

    def positions(self) -> dict[str, str]:
        """Return where each log topic is read on; nothing if the group knows."""
        ...

    def add_credit(self, count: int) -> None:
        """Let more messages come."""
        ...

    async def acknowledge(
        self, topic: str, partition: int, first: int, last: int, outcome: Outcome
    ) -> None:
        """Take the client's word on messages; return when it would survive a crash."""
        ...

    async def commit(self, topic: str, position: str) -> None:
        """Keep the client's place; return when it would survive a crash."""
        ...

    def look_again(self) -> None:
        """Follow a change of topics or permissions."""
        ...

    def end(self, fault: ChordMQError) -> None:
        """Have `next` raise a fault."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Pace:
    """How much may be sent, and who wakes the one that waits to send more."""

    def __init__(self, session: "Session", credit: int) -> None:
        self.session = session
        self._credit: int | None = credit or None
        self._woken = asyncio.Event()
        self._fault: ChordMQError | None = None

    @property
    def allowance(self) -> int:
        """Return how many messages may be sent now."""
        return RECORDS_AT_ONCE if self._credit is None else min(self._credit, RECORDS_AT_ONCE)

    def add_credit(self, count: int) -> None:
        """Let more messages come."""
        if self._credit is not None:
            self._credit += count
        self.wake()

    def wake(self) -> None:
        """Take note that there may be more to send."""
        self._woken.set()

    def end(self, fault: ChordMQError) -> None:
        """Have `next` raise a fault."""
        self._fault = fault
        self.wake()

    def check(self) -> None:
        """Raise the fault that has ended the subscription."""
        if self._fault is not None:
            raise self._fault

    async def wait(self) -> None:
        """Wait until woken."""
        self._woken.clear()
        await self._woken.wait()

    async def sent(self, page: Page) -> None:
        """Count a page against the client's credit and quota."""
        if self._credit is not None:
            self._credit -= len(page.rows)
        self.session.front.messages_out += len(page.rows)
        size = sum(len(row.record.value or b"") + len(row.record.key or b"") for row in page.rows)
        await self.session.charge(fetched=size)


class Followed:
    """One log topic that is read with an index of one's own."""

    def __init__(self, topic: Topic, wanted: str, offsets: Mapping[int, int]) -> None:
        """Begin at the offsets; a partition that is not in them is read whole."""
        self.topic = topic
        self._filter = wanted
        self._read(offsets)

    def _read(self, offsets: Mapping[int, int]) -> None:
        self.feed = Feed(dict(enumerate(self.topic.partitions)), offsets, is_patient=True)

    def grow(self) -> None:
        """Read partitions that were added."""
        if len(self.topic.partitions) > len(self.feed.partitions):
            self._read(self.feed.offsets)

    @property
    def is_gone(self) -> bool:
        """Return whether the topic was deleted."""
        try:
            self.feed.check_open()
        except UnknownTopic:
            return True
        return False

    def page(self, count_max: int) -> Page:
        """Return the next records that are wanted, which may be none, and move past them."""
        name = self.topic.name
        try:
            found = self.feed.take(count_max, BYTES_AT_ONCE)
        except OffsetOutOfRange:
            gaps = self.feed.skip_gaps()
            return Page(name, (), write_position(self.feed.offsets), gaps)
        rows = [
            shown(name, partition, record)
            for partition, record in found
            if not self._filter or is_wanted(self._filter, name, record)
        ]
        return Page(name, rows, write_position(self.feed.offsets))


class OwnSubscription:
    """Has an index of its own: it gets everything."""

    def __init__(self, session: "Session", wanted: Wanted) -> None:
        self._session = session
        self.topic = wanted.topic
        self._wanted = wanted
        self._pace = Pace(session, wanted.credit)
        self._followed: dict[str, Followed] = {}
        self._seen: set[bytes] = set()
        """Ids of the log topics that were there when it was looked last."""
        self._allowed: dict[str, Topic] = {}
        """Topics that were there, and that the client may read since; where is to be found out."""

    async def open(self) -> None:
        """Find out where to begin."""
        session, wanted = self._session, self._wanted
        if wanted.own:
            session.check(Operation.READ, Kind.GROUP, wanted.own)
        if is_filter(wanted.topic):
            check_filter(wanted.topic)
            self._follow_matching(is_new=False)
            await self._follow_allowed()
        else:
            session.check(Operation.READ, Kind.TOPIC, wanted.topic)
            topic = session.broker.topics.get(wanted.topic)
            self._followed[topic.name] = Followed(topic, "", await self._starts(topic))

    async def next(self) -> Page:
        """Wait for records and for credit, and return a page; raise why there will be none."""
        pace = self._pace
        while True:
            pace.check()
            if self._allowed:
                await self._follow_allowed()
            self._forget_deleted()
            followed = self._with_more() if pace.allowance else None
            if followed is None:
                self._wait_for_more()
                await pace.wait()
                continue
            page = followed.page(pace.allowance)
            # Another topic comes first the next time, so that none is starved by a busy one.
            self._followed[page.topic] = self._followed.pop(page.topic)
            if page.rows or page.gaps:
                await pace.sent(page)
                return page
            await asyncio.sleep(0)  # much may be read that a filter does not want

    def positions(self) -> dict[str, str]:
        """Return where each log topic is read on."""
        return {name: write_position(one.feed.offsets) for name, one in self._followed.items()}

    def add_credit(self, count: int) -> None:
        """Let more messages come."""
        self._pace.add_credit(count)

    async def acknowledge(
        self, topic: str, partition: int, first: int, last: int, outcome: Outcome
    ) -> None:
        """Refuse: each has its own place."""
        raise InvalidRequest("only what a group shares is acknowledged; commit the position")

    async def commit(self, topic: str, position: str) -> None:
        """Keep the client's place; return when it would survive a crash."""
        await self._session.commit(self._wanted.own, topic, position)

    def wake(self) -> None:
        """Take note that there is more to read."""
        self._pace.wake()

    def look_again(self) -> None:
        """Read what was made or allowed since, and no more what is forbidden."""
        for name, followed in list(self._followed.items()):
            try:
                self._session.check(Operation.READ, Kind.TOPIC, name)
            except ChordMQError as error:
                if not is_filter(self._wanted.topic):
                    self.end(error)
                    return
                self._forget(name)
            else:
                followed.grow()
        if is_filter(self._wanted.topic):
            self._follow_matching(is_new=True)
        self.wake()

    def end(self, fault: ChordMQError) -> None:
        """Have `next` raise a fault."""
        self._pace.end(fault)

    def close(self) -> None:
        """Wait no more."""
        for name in list(self._followed):
            self._forget(name)

    def _forget_deleted(self) -> None:
        for name, followed in list(self._followed.items()):
            if followed.is_gone:
                if not is_filter(self._wanted.topic):
                    raise UnknownTopic(f"{name} was deleted")
                self._forget(name)

    def _forget(self, name: str) -> None:
        self._followed.pop(name).feed.forget(self)

    def _with_more(self) -> Followed | None:
        return next((one for one in self._followed.values() if not one.feed.is_at_end), None)

    def _wait_for_more(self) -> None:
        for followed in self._followed.values():
            followed.feed.wait(self)

    def _follow_matching(self, *, is_new: bool) -> None:
        """Read all log topics that may hold what is wanted; new ones from their beginning."""
        session, wanted = self._session, self._wanted.topic
        for topic in session.front.names.reach(wanted).among(session.broker.topics):
            name = topic.name
            if name not in self._followed and session.allows(Operation.READ, Kind.TOPIC, name):
                if is_new and topic.id not in self._seen:
                    self._followed[name] = Followed(topic, wanted, {})
                else:
                    self._allowed[name] = topic
            self._seen.add(topic.id)

    async def _follow_allowed(self) -> None:
        """Read topics on which the client has a claim, from where it wants to begin."""
        while self._allowed:
            name, topic = self._allowed.popitem()
            self._followed[name] = Followed(topic, self._wanted.topic, await self._starts(topic))

    async def _starts(self, topic: Topic) -> Offsets:
        """Return where to begin: as asked, else where the index is, else where a new one begins."""
        wanted = self._wanted
        if wanted.positions:
            position = wanted.positions.get(topic.name)
            return read_position(position) if position else {}
        found = await self._session.broker.bounds.starts(topic.partitions, wanted.start_ms)
        if wanted.own:
            committed = await self._session.broker.group_reach.committed(wanted.own)
            places = [(topic.name, index) for index in found]
            found |= {place[1]: committed[place] for place in places if place in committed}
        return found


class SharedSubscription:
    """Shares one durable index with others of its group: each message goes to one of them."""

    def __init__(
        self, session: "Session", wanted: Wanted, cursors: Sequence[GroupIndex], holder: str
    ) -> None:
        self._session = session
        self.topic = wanted.topic
        self._cursors = {cursor.partition.index: cursor for cursor in cursors}
        self._turn = 0
        self._holder = holder
        self._held: dict[int, set[int]] = {index: set() for index in self._cursors}
        self._pace = Pace(session, wanted.credit or HELD_MAX)

    async def next(self) -> Page:
        """Wait for records and for credit, and return a page; raise why there will be none."""
        pace = self._pace
        while True:
            pace.check()
            page = self._take(pace.allowance) if pace.allowance else None
            if page is not None:
                await pace.sent(page)
                return page
            for cursor in self._cursors.values():
                cursor.wait(self)
                cursor.partition.wait(self)  # which tells when the topic is deleted
            await pace.wait()

    def _take(self, count_max: int) -> Page | None:
        cursors = list(self._cursors.values())
        for _ in cursors:
            self._turn += 1
            cursor = cursors[self._turn % len(cursors)]
            partition = cursor.partition
            delivery = cursor.take(self._holder, count_max, BYTES_AT_ONCE)
            taken = list(delivery.records())
            if taken:
                deliveries = {record.offset: count for record, count in taken}
                self._held[partition.index].update(deliveries)
                rows = [
                    shown(self.topic, partition.index, record, deliveries[record.offset])
                    for record in partition.delivered([record for record, _ in taken])
                ]
                return Page(self.topic, rows)
        return None

    def positions(self) -> dict[str, str]:
        """Return nothing: the group knows its place."""
        return {}

    def add_credit(self, count: int) -> None:
        """Let more messages be held."""
        self._pace.add_credit(count)

    async def acknowledge(
        self, topic: str, partition: int, first: int, last: int, outcome: Outcome
    ) -> None:
        """Take the client's word on messages; return when it would survive a crash.

        A message whose time was over counts as answered: it is with somebody else by now.
        """
        held = self._held.get(partition, set())
        answered = {offset for offset in held if first <= offset <= last}
        if topic != self.topic or not answered or len(answered) != last - first + 1:
            raise InvalidRecordState("not all of these were sent and are without an answer")
        if outcome is not Outcome.RENEW:
            held -= answered
            self.add_credit(len(answered))
        await self._cursors[partition].settle(self._holder, first, last, [outcome])

    async def commit(self, topic: str, position: str) -> None:
        """Refuse: the group has its place."""
        raise InvalidRequest("what a group shares is acknowledged; it has no place to commit")

    def wake(self) -> None:
        """Take note that there may be more to take."""
        self._pace.wake()

    def look_again(self) -> None:
        """End if the topic may not be read any more; learn whether it is there."""
        try:
            self._session.check(Operation.READ, Kind.TOPIC, self.topic)
        except ChordMQError as error:
            self.end(error)
        self.wake()

    def end(self, fault: ChordMQError) -> None:
        """Have `next` raise a fault."""
        self._pace.end(fault)

    def close(self) -> None:
        """Wait no more, and give what the client holds to others of the group."""
        for cursor in self._cursors.values():
            cursor.forget(self)
            cursor.partition.forget(self)
            if not cursor.partition.is_closed:
                cursor.leave(self._holder)


async def subscribe(session: "Session", wanted: Wanted) -> Subscription:
    """Open a subscription; the session closes it if nobody else does."""
    subscription: Subscription
    if wanted.shared:
        subscription = await _join(session, wanted)
    else:
        subscription = OwnSubscription(session, wanted)
        await subscription.open()
    session.open(subscription)
    return subscription


async def _join(session: "Session", wanted: Wanted) -> SharedSubscription:
    if is_filter(wanted.topic):
        raise InvalidRequest("a group shares a log topic; it cannot share a filter")
    if wanted.positions:
        raise InvalidRequest("a group has its own place")
    session.check(Operation.READ, Kind.TOPIC, wanted.topic)
    session.check(Operation.READ, Kind.GROUP, wanted.shared)
    broker = session.broker
    if broker.groups.has(wanted.shared):
        raise PolicyViolation(f"{wanted.shared} is a group whose members own partitions")
    cursors = [
        await broker.cursors.open(wanted.shared, wanted.topic, index, start_ms=wanted.start_ms)
        for index in range(len(broker.topics.get(wanted.topic).partitions))
    ]
    return SharedSubscription(session, wanted, cursors, session.new_holder())


def shown(topic: str, partition: int, record: Record, deliveries: int = 0) -> Delivered:
    """Return a record as clients get it; its name is not among its headers."""
    if record.headers and any(header[0] == NAME_HEADER for header in record.headers):
        name = name_of(topic, record)
        bare = record._replace(headers=without_name(record.headers))
        return Delivered(partition, bare, name, deliveries)
    return Delivered(partition, record, "", deliveries)

"""Subscriptions of the gateway's clients: each reads the log at its own pace, or shares it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from chordmq.broker.cursors.index import GroupIndex
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.feed import Feed, Offsets, write_position
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.codecs.websocket.messages import Dropped, Gap, Subscribe, Told
from chordmq.errors import InvalidRecordState, OffsetOutOfRange
from chordmq.fronts.websocket.front import BYTES_AT_ONCE, RECORDS_AT_ONCE, View, WebSocketFront

HELD_MAX = 1_000
"""Messages that a member of a group holds if it asks for no other number."""


class Client(Protocol):
    """What a subscription needs of its connection."""

    front: WebSocketFront

    def ready(self, follower: "Follower") -> None:
        """Have the follower's `send` called soon, when there is room for more."""
        ...

    def forget(self, follower: "Follower") -> None:
        """Do not call the follower any more."""
        ...

    def answered(self) -> None:
        """Take note that a message of the client is stored, or cannot be."""
        ...

    def tell(self, told: Told) -> None:
        """Send a message."""
        ...

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send one message that is written already."""
        ...


class Subscription:
    """What a client has asked for, and how much of it may come."""

    def __init__(self, client: Client, wanted: Subscribe) -> None:
        self.client = client
        self.wanted = wanted
        self.followers: dict[str, Follower] = {}
        self.credit = wanted.credit
        """Messages that may still be sent; None for as many as there are."""
        self.seen: set[bytes] = set()
        """Ids of the log topics that were there when it was looked last."""
        self.kept: dict[bytes, Offsets] = {}
        """Where to go on in log topics that may not be read at present."""

    @property
    def is_dropping(self) -> bool:
        """Return whether messages may be skipped that the client has no room for."""
        return self.wanted.when_full == "drop"

    def allowance(self) -> int:
        """Return how many messages may be sent now."""
        return RECORDS_AT_ONCE if self.credit is None else min(self.credit, RECORDS_AT_ONCE)

    def spend(self, count: int) -> None:
        """Take note of messages that were sent."""
        if self.credit is not None:
            self.credit -= count

    def add_credit(self, count: int) -> None:
        """Let more messages come."""
        if self.credit is not None:
            self.credit += count
        self.wake()

    def wake(self) -> None:
        """Look for more to send."""
        for follower in self.followers.values():
            follower.wake()

    def positions(self) -> dict[str, str]:
        """Return where each log topic is read on."""
        return {topic: follower.position for topic, follower in self.followers.items()}

    def forget(self, topic: str) -> None:
        """Read a log topic no more."""
        self.followers.pop(topic).close()

    def close(self) -> None:
        """Read nothing any more."""
        for topic in list(self.followers):
            self.forget(topic)


class Follower(Protocol):
    """One log topic that is read for a subscription."""

    subscription: Subscription
    topic: str

    @property
    def position(self) -> str:
        """Return where to go on; empty if the group knows."""
        ...

    def wake(self) -> None:
        """Take note that there may be more to read."""
        ...

    def send(self) -> bool:
        """Send some, and return whether there is more; else be woken when there is."""
        ...

    def skip(self) -> None:
        """Give up what there is no room for, and be woken when there is more."""
        ...

    def close(self) -> None:
        """Wait no more."""
        ...


class OwnFollower:
    """Has an index of its own, which the client knows: it gets everything."""

    def __init__(
        self, subscription: Subscription, view: View, topic: Topic, offsets: Mapping[int, int]
    ) -> None:
        """Begin at the offsets; a partition that is not in them is read whole."""
        self.subscription = subscription
        self.topic = topic.name
        self._topic = topic
        self._view = view
        self._client = subscription.client
        self._head = view.subprotocol.records_head(subscription.wanted.id)
        self._dropped = 0
        self._is_whole = True
        self._read(topic.partitions, offsets)

    @classmethod
    def of_one_partition(
        cls, subscription: Subscription, view: View, topic: Topic, place: tuple[int, int]
    ) -> "OwnFollower":
        """Return a follower of one partition from one offset on."""
        follower = cls(subscription, view, topic, {})
        partition, offset = place
        follower._read([topic.partitions[partition]], {partition: offset})
        follower._is_whole = False
        return follower

    def _read(self, partitions: Sequence[Partition], offsets: Mapping[int, int]) -> None:
        by_index = {partition.index: partition for partition in partitions}
        self._feed = Feed(by_index, offsets, is_patient=True)

    def grow(self) -> None:
        """Read partitions that were added, if all are wanted."""
        if self._is_whole and len(self._topic.partitions) > len(self._feed.partitions):
            self._read(self._topic.partitions, self._feed.offsets)
            self.wake()

    @property
    def position(self) -> str:
        """Return where to go on."""
        return write_position(self._feed.offsets)

    def wake(self) -> None:
        """Take note that there may be more to read."""
        self._client.ready(self)

    def send(self) -> bool:
        """Send some, and return whether there is more; else be woken when there is."""
        self._feed.check_open()
        allowance = self.subscription.allowance()
        if not allowance:
            if self.subscription.is_dropping:
                self.skip()
            return False  # credit wakes it
        self._tell_dropped()
        if not self._feed.is_at_end:
            self._send_page(allowance)
        if self._feed.is_at_end:
            self._feed.wait(self)
            return False
        return True

    def skip(self) -> None:
        """Give up what there is no room for, and be woken when there is more."""
        feed, before = self._feed, sum(self._feed.offsets.values())
        for index, partition in feed.partitions.items():
            feed.offsets[index] = max(partition.stable_offset, feed.offsets[index])
        dropped = sum(feed.offsets.values()) - before
        self._dropped += dropped
        self._client.front.dropped += dropped
        feed.wait(self)

    def close(self) -> None:
        """Wait no more."""
        self._client.forget(self)
        self.subscription.kept[self._topic.id] = self._feed.offsets
        self._feed.forget(self)

    def _send_page(self, count_max: int) -> None:
        front = self._client.front
        try:
            page = front.page(self._feed, self._view, count_max)
        except OffsetOutOfRange:
            for gap in self._feed.skip_gaps():
                wanted = self.subscription.wanted.id
                partition, start, end = gap.partition, gap.wanted, gap.next
                self._client.tell(
                    Gap(id=wanted, topic=self.topic, partition=partition, wanted=start, next=end)
                )
            return
        if page.count:
            self.subscription.spend(page.count)
            front.messages_out += page.count
            self._client.send((self._head, page.tail))

    def _tell_dropped(self) -> None:
        if self._dropped:
            count, self._dropped = self._dropped, 0
            told = Dropped(
                id=self.subscription.wanted.id,
                topic=self.topic,
                count=count,
                position=self.position,
            )
            self._client.tell(told)


class SharedFollower:
    """Shares one durable index with others of its group: each message goes to one of them."""

    def __init__(
        self, subscription: Subscription, view: View, cursors: Sequence[GroupIndex], holder: str
    ) -> None:
        self.subscription = subscription
        self.topic = view.topic
        self._view = view
        self._cursors = {cursor.partition.index: cursor for cursor in cursors}
        self._holder = holder
        self._client = subscription.client
        self._head = view.subprotocol.records_head(subscription.wanted.id)
        self._held: dict[int, set[int]] = {index: set() for index in self._cursors}
        if subscription.credit is None:
            subscription.credit = HELD_MAX

    @property
    def position(self) -> str:
        """Return nothing: the group knows its place."""
        return ""

    def wake(self) -> None:
        """Take note that there may be more to read."""
        self._client.ready(self)

    def send(self) -> bool:
        """Send some, and return whether there is more; else be woken when there is."""
        sent = 0
        for index, cursor in self._cursors.items():
            allowance = self.subscription.allowance()
            if not allowance:
                return False  # an acknowledgement wakes it
            delivery = cursor.take(self._holder, allowance, BYTES_AT_ONCE)
            counts = {}
            records = []
            for record, deliveries in delivery.records():
                counts[record.offset] = deliveries
                records.append(record)
            self._held[index].update(counts)
            shown = [
                self._view.show(index, record, counts[record.offset])
                for record in (cursor.partition.delivered(records) if records else ())
            ]
            if shown:
                tail = self._view.subprotocol.records_tail(self.topic, "", shown)
                self._client.send((self._head, tail))
                self.subscription.spend(len(shown))
                sent += len(shown)
        self._client.front.messages_out += sent
        if not sent:
            for cursor in self._cursors.values():
                cursor.wait(self)
        return sent > 0

    def skip(self) -> None:
        """Wait for room: what a group shares is never skipped."""

    def settle(
        self, partition: int, first: int, last: int, outcome: Outcome
    ) -> asyncio.Future[None]:
        """Take the client's word on messages; the future is done when that is in the log.

        A message whose time was over counts as answered: it is with somebody else by now.
        """
        held = self._held.get(partition, set())
        answered = {offset for offset in held if first <= offset <= last}
        if not answered or len(answered) != last - first + 1:
            raise InvalidRecordState("not all of these were sent and are without an answer")
        held -= answered
        self.subscription.add_credit(len(answered))
        return self._cursors[partition].settle(self._holder, first, last, [outcome])

    def close(self) -> None:
        """Wait no more, and give what the client holds to others of the group."""
        self._client.forget(self)
        for cursor in self._cursors.values():
            cursor.forget(self)
            if not cursor.partition.is_closed:
                cursor.leave(self._holder)

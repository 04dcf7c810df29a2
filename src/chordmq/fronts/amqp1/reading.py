"""Links on which a topic's records go to a client that has a place of its own in it."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chordmq.broker.bounds import NO_TIME, Bounds, Extent
from chordmq.broker.feed import Feed, Offsets
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.groups.reach import GroupReach
from chordmq.broker.queues.translation import message_of_record
from chordmq.broker.topic import Topic
from chordmq.codecs.amqp1 import values
from chordmq.codecs.amqp1.composites import Error, Flow, Transfer
from chordmq.codecs.amqp1.sections import write_message
from chordmq.codecs.amqp1.values import Described, Timestamp
from chordmq.errors import ChordMQError, InvalidRequest
from chordmq.fronts.amqp1.errors import DELETED, NOT_ALLOWED, LinkFault
from chordmq.fronts.amqp1.sending import Credit
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.fronts.amqp1.session import Session

log = get_logger(__name__)

OFFSET_FILTER = "rabbitmq:stream-offset-spec"
MESSAGES_AT_ONCE = 1000
BYTES_AT_ONCE = 256 * 1024
COMMIT_DELAY_S = 0.05
_OFFSET = values.symbol("x-stream-offset")

Place = tuple[int, int]
"""Partition and offset."""


async def start_of(bounds: Bounds, topic: Topic, filters: Mapping[Any, Any] | None) -> Offsets:
    """Return where a client wants to begin: at the end, unless a filter says otherwise."""
    wanted = (filters or {}).get(OFFSET_FILTER, "next")
    if isinstance(wanted, Described):
        wanted = wanted.value
    time_ms = wanted if isinstance(wanted, Timestamp) else NO_TIME
    extents = await bounds.of(topic.partitions, time_ms)
    return {partition.index: _start(extent, wanted) for partition, extent in extents.items()}


def _start(extent: Extent, wanted: Any) -> int:
    first, end = extent.start, extent.end
    if isinstance(wanted, Timestamp):
        return extent.at
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        return min(max(wanted, first), end)
    places = {"first": first, "last": max(end - 1, first), "next": end}
    if wanted not in places:
        raise InvalidRequest(f"{wanted!r:.60}: an offset is first, last, next, a number or a time")
    return places[wanted]


class TopicLink:
    """A reader of a topic; what others read does not matter to it.

    A durable one keeps its place as the committed offsets of a group: that of the first message
    which the client has not settled.
    """

    def __init__(
        self, session: "Session", handle: int, topic: Topic, offsets: Offsets, *, settled: bool
    ) -> None:
        self.session = session
        self.handle = handle
        self.group = ""
        """Whose committed offsets are the client's place; empty if it keeps none."""
        self._topic = topic
        self._is_settled = settled
        self._feed = Feed(dict(enumerate(topic.partitions)), offsets, is_patient=True)
        self._held: dict[Place, None] = {}
        self._credit = Credit()
        self._is_scheduled = False
        self._is_closed = False
        self._commit_timer: asyncio.TimerHandle | None = None

    @property
    def queue_name(self) -> str | None:
        """Return the name of the topic."""
        return self._topic.name

    async def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Refuse messages: this link goes the other way."""
        raise LinkFault(NOT_ALLOWED, "the client is the receiver of this link")

    def flow(self, flow: Flow) -> None:
        """Take note of the client's credit, and use it."""
        self._credit.update(flow)
        self.thirst()
        if flow.echo and not flow.drain:
            self._tell()

    def wake(self) -> None:
        """Take note that the topic has more."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.thirst)

    def thirst(self) -> None:
        """Deliver what is there, and give up credit that the client does not want kept."""
        self._is_scheduled = False
        if self._is_closed:
            return
        try:
            self._pump()
        except ChordMQError as error:
            self._end(str(error))
            return
        if self._credit.left and self._feed.awaits_disk:
            return  # there is more, and it is woken then
        if self._credit.is_draining and (not self._credit.left or self.session.has_room):
            self._credit.give_up()
            self._tell(drain=True)

    def _pump(self) -> None:
        self._feed.check_open()
        while self._credit.left > 0 and self.session.has_room:
            self._feed.skip_gaps()
            found = self._feed.take(min(self._credit.left, MESSAGES_AT_ONCE), BYTES_AT_ONCE)
            for index, record in found:
                message = message_of_record(
                    self.session.connection.vhost.name, self._topic.name, record
                )
                offset = _OFFSET + values.ulong(record.offset)
                self._credit.spend()
                place = None if self._is_settled else (index, record.offset)
                if place is not None:
                    self._held[place] = None
                self.session.deliver(self, self.handle, write_message(message, offset), place)
            if not found:
                self._feed.wait(self)
                break
        self.session.wait_for_window(self)
        if self._is_settled:
            self._commit_soon()

    def _tell(self, *, drain: bool = False) -> None:
        flow = self.session.flow_state()
        flow.handle, flow.delivery_count = self.handle, self._credit.count
        flow.link_credit, flow.drain = self._credit.left, drain
        self.session.send(flow)

    def _end(self, reason: str) -> None:
        self.session.end_link(self.handle, Error(condition=DELETED, description=reason))

    def grow(self) -> None:
        """Follow partitions that were added."""
        if len(self._topic.partitions) > len(self._feed.partitions):
            self._feed.forget(self)
            partitions = dict(enumerate(self._topic.partitions))
            self._feed = Feed(partitions, self._feed.offsets, is_patient=True)
            self.wake()

    # The client's place.

    def settle(self, settled: list[tuple[int, Any]], state: Any) -> None:
        """Take note that the client is done with messages, whatever it says of them."""
        for _, place in settled:
            self._held.pop(place, None)
        self._commit_soon()
        if self._credit.left:
            self.wake()

    def _commit_soon(self) -> None:
        if self.group and self._commit_timer is None:
            loop = asyncio.get_running_loop()
            self._commit_timer = loop.call_later(COMMIT_DELAY_S, self._commit)

    def _commit(self) -> None:
        self._commit_timer = None
        self.session.connection.run(self.commit())

    async def commit(self) -> None:
        """Keep the client's place."""
        offsets = dict(self._feed.offsets)
        for index, offset in self._held:
            offsets[index] = min(offsets[index], offset)
        commits = [Commit(self._topic.name, index, offset) for index, offset in offsets.items()]
        try:
            await self.session.connection.front.broker.group_reach.commit(self.group, commits)
        except ChordMQError as error:
            log.warning("place not kept", group=self.group, error=str(error))

    def close(self, unsettled: list[Any]) -> None:
        """End; what the client has not settled is where a durable one begins again."""
        self._is_closed = True
        self._feed.forget(self)
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit()


class KeptPlace:
    """The place of a durable link that is away, looked at by its client, who may let go of it."""

    queue_name = None

    def __init__(self, groups: GroupReach, group: str) -> None:
        self._groups = groups
        self._group = group

    async def let_go(self) -> None:
        """Keep the place no more."""
        await self._groups.delete(self._group)

    async def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Refuse messages: this link goes the other way."""
        raise LinkFault(NOT_ALLOWED, "the client is the receiver of this link")

    def flow(self, flow: Flow) -> None:
        """Send nothing: who wants messages names the source."""

    def settle(self, settled: list[tuple[int, Any]], state: Any) -> None:
        """Let it be: nothing was sent."""

    def thirst(self) -> None:
        """Let it be: nothing is sent."""

    def close(self, unsettled: list[Any]) -> None:
        """Leave the place as it is."""

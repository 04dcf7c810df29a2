"""Shared cursors over several nodes: each is kept where its partition is led, its log anywhere."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

import msgspec

from chordmq import errors
from chordmq.broker.cursors.cursor import Answer, Cursor, Policy
from chordmq.broker.cursors.records import CursorKey
from chordmq.broker.cursors.wishes import (
    Leaving,
    Opening,
    Place,
    Reading,
    Rules,
    Settling,
    Taking,
    Wish,
    read_place,
    read_wish,
    write_given,
)
from chordmq.broker.partition import Partition
from chordmq.broker.topics import Topics
from chordmq.cluster.link import Caller, Handler, LinkDown, NoticeHandler, PeerRefused, Watcher
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import ChordMQError, CoordinatorNotAvailable

TIMEOUT_S = 5.0

Rows = list[tuple[bytes, bytes]]
"""Keys and values of records that hold cursors."""


class Nodes(Protocol):
    """The links to the other nodes."""

    on_lost: list[Watcher]

    def answer(self, kind: int, handler: Handler) -> None:
        """Have requests of this kind answered by a handler."""
        ...

    async def ask(
        self, broker: int, kind: int, body: Body = (), timeout_s: float = TIMEOUT_S
    ) -> memoryview:
        """Return a node's answer; raise PeerRefused, or LinkDown when none has come."""
        ...

    def on(self, kind: int, handler: NoticeHandler) -> None:
        """Have notices of this kind taken by a handler."""
        ...

    def send(self, broker: int, kind: int, body: Body) -> bool:
        """Send a notice; False if there is no link to the node now."""
        ...


class Keeper(Protocol):
    """The cursors that this node keeps."""

    async def open_for(self, wanted: Opening) -> None:
        """Open a cursor for another node."""
        ...

    async def read_log(self, log_partition: int) -> Rows:
        """Return the newest state of each cursor in a partition of the log."""
        ...

    def kept(self, key: CursorKey) -> Cursor:
        """Return a cursor that is kept here; raise why it is not."""
        ...

    def heard(self, key: CursorKey) -> None:
        """Take note that a cursor elsewhere may have something to take."""
        ...


class Watch:
    """Another node that wants to know when a cursor may have something to take."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.wake = tell


class Exchange:
    """Asks the nodes that keep cursors, and answers for those that are kept here."""

    def __init__(self, nodes: Nodes, topics: Topics, keeper: Keeper) -> None:
        self._nodes = nodes
        self._topics = topics
        self._keeper = keeper
        self._watches: dict[tuple[int, CursorKey], tuple[Cursor, Watch]] = {}
        self._bound: dict[Caller, dict[tuple[CursorKey, str], None]] = {}
        """Consumers that leave with their node, by its life."""
        self._answers: dict[type, Callable[..., Awaitable[Body]]] = {
            Opening: self._open,
            Reading: self._read,
            Taking: self._take,
            Settling: self._settle,
            Leaving: self._leave,
        }
        nodes.answer(Kind.CURSOR, self._serve)
        nodes.on(Kind.CURSOR, self._on_news)
        nodes.on_lost.append(self._on_lost)

    # What this node asks.

    async def open(self, wanted: Opening) -> None:
        """Have a cursor opened by whoever leads its partition."""
        await self.ask(self._topics.get(wanted.topic).partitions[wanted.partition], wanted)

    async def read(self, log: Partition) -> Rows:
        """Return what a partition of the log holds, from whoever leads it."""
        if log.is_leader:
            return await self._keeper.read_log(log.index)
        return msgspec.msgpack.decode(await self.ask(log, Reading(log.index)), type=Rows)

    async def ask(self, partition: Partition, wish: Wish) -> memoryview:
        """Ask whoever leads a partition."""
        leader = NO_LEADER if partition.replica is None else partition.replica.leader_hint[0]
        if leader == NO_LEADER:
            raise CoordinatorNotAvailable(f"nobody leads {partition.topic}-{partition.index} now")
        try:
            body = msgspec.msgpack.encode(wish)
            return await self._nodes.ask(leader, Kind.CURSOR, [body], TIMEOUT_S)
        except PeerRefused as refusal:
            raise _error(refusal) from None
        except LinkDown as fault:
            raise CoordinatorNotAvailable(f"node {leader} does not answer: {fault}") from None

    def _on_news(self, caller: Caller, body: memoryview) -> None:
        place = read_place(body)
        self._keeper.heard(CursorKey(place.group, place.topic_id, place.partition))

    # What others ask.

    async def _serve(self, caller: Caller, body: memoryview) -> Body:
        wish = read_wish(body)
        return await self._answers[type(wish)](caller, wish)

    async def _open(self, _: Caller, wish: Opening) -> Body:
        await self._keeper.open_for(wish)
        return ()

    async def _read(self, _: Caller, wish: Reading) -> Body:
        return [msgspec.msgpack.encode(await self._keeper.read_log(wish.log_partition))]

    async def _take(self, caller: Caller, wish: Taking) -> Body:
        key = _key(wish.place)
        cursor = self._keeper.kept(key)
        delivery = cursor.take(wish.holder, wish.count_max, wish.max_bytes)
        if not delivery.taken:
            self._watch(caller.broker, key, cursor)
        elif wish.is_bound:
            self._bound.setdefault(caller, {})[key, wish.holder] = None
        return write_given(delivery, cursor.start, cursor.lag)

    async def _settle(self, _: Caller, wish: Settling) -> Body:
        answers = [Answer(one.first, one.last, one.outcomes) for one in wish.answers]
        await self._keeper.kept(_key(wish.place)).settle_all(wish.holder, answers)
        return ()

    async def _leave(self, caller: Caller, wish: Leaving) -> Body:
        self._bound.get(caller, {}).pop((_key(wish.place), wish.holder), None)
        self._keeper.kept(_key(wish.place)).leave(wish.holder)
        return ()

    def _watch(self, broker: int, key: CursorKey, cursor: Cursor) -> None:
        known = self._watches.get((broker, key))
        watch = Watch(partial(self._tell, broker, key)) if known is None else known[1]
        self._watches[broker, key] = cursor, watch
        cursor.wait(watch)

    def _tell(self, broker: int, key: CursorKey) -> None:
        self._watches.pop((broker, key), None)
        body = msgspec.msgpack.encode(Place(*key))
        self._nodes.send(broker, Kind.CURSOR, [body])

    def _on_lost(self, broker: int) -> None:
        for place, (cursor, watch) in list(self._watches.items()):
            if place[0] == broker:
                del self._watches[place]
                cursor.forget(watch)

    def look_who_lives(self, epochs: Mapping[int, int]) -> None:
        """Have consumers leave whose node is not among these, or lives in a later epoch."""
        for caller in list(self._bound):
            if caller.broker in epochs and epochs[caller.broker] <= caller.epoch:
                continue
            for key, holder in self._bound.pop(caller):
                try:
                    self._keeper.kept(key).leave(holder)
                except ChordMQError:
                    continue  # who leads it now knows of no consumer


def rules_of(policy: Policy | None) -> Rules | None:
    """Return a policy as it goes to another node."""
    if policy is None:
        return None
    limits = policy.limits
    return Rules(
        lock_ms=limits.lock_ms,
        deliveries_max=limits.deliveries_max,
        in_flight_max=limits.in_flight_max,
        only_stable=policy.only_stable,
        dead_letter=policy.dead_letter,
    )


def _key(place: Place) -> CursorKey:
    return CursorKey(place.group, place.topic_id, place.partition)


def _error(refusal: PeerRefused) -> ChordMQError:
    """Return another node's refusal: some stay so, the rest may be tried again."""
    kind = _LASTING.get(refusal.name, CoordinatorNotAvailable)
    return kind(refusal.text)


_LASTING: dict[str, type[ChordMQError]] = {
    kind.__name__: kind
    for kind in (errors.UnknownTopic, errors.UnknownTopicId, errors.InvalidRecordState)
}

"""Where partitions begin and end, wherever they are: what this node does not lead, it asks for."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

import msgspec

from chordmq.broker.absent import AbsentPartition
from chordmq.broker.cursors.cursors import EARLIEST
from chordmq.broker.partition import Partition
from chordmq.broker.topics import Topics
from chordmq.cluster.link import Caller, Handler, LinkDown, PeerRefused
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import DecodeError, NotLeader

TIMEOUT_S = 2.0
PATIENCE_S = 5.0
"""How long a new leader is waited for."""
LOOK_INTERVAL_S = 0.05

NO_TIME = -1

Offsets = dict[int, int]


class Question(msgspec.Struct, frozen=True, array_like=True):
    """Where does a partition begin and end, and where is the first record not older than this?"""

    topic_id: bytes
    partition: int
    timestamp_ms: int = NO_TIME


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """Where a partition begins and ends for readers."""

    start: int
    end: int
    """Of what is decided."""
    at: int
    """The offset of the time that was asked for; the end without one."""
    watermark: int
    """The end of what is committed, also of transactions that are not decided."""
    size: int
    """Of the log, in bytes."""


class Nodes(Protocol):
    """The links to the other nodes."""

    def answer(self, kind: int, handler: Handler) -> None:
        """Have requests of this kind answered by a handler."""
        ...

    def ask(
        self, broker: int, kind: int, body: Body = (), timeout_s: float = TIMEOUT_S
    ) -> Awaitable[memoryview]:
        """Return a node's answer; raise PeerRefused, or LinkDown when none has come."""
        ...


class Bounds:
    """Asks the leaders of partitions, one request for all that a node leads."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._nodes: Nodes | None = None

    def join(self, nodes: Nodes) -> None:
        """Be part of a cluster."""
        self._nodes = nodes
        nodes.answer(Kind.EXTENT, self._serve)

    async def of(
        self,
        partitions: Iterable[Partition],
        timestamp_ms: int = NO_TIME,
        patience_s: float = PATIENCE_S,
    ) -> dict[Partition, Extent]:
        """Return where partitions begin and end now, and where a time is; raise NotLeader.

        The end is that of what readers of committed transactions may see.
        """
        wanted = list(partitions)
        found = {one: extent_of(one, timestamp_ms) for one in wanted if one.is_leader}
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        while missing := [one for one in wanted if one not in found]:
            found |= await self._ask_leaders(missing, timestamp_ms)
            if len(found) < len(wanted) and loop.time() >= deadline_s:
                topic, index = missing[0].topic, missing[0].index
                raise NotLeader(f"nobody says now where {topic}-{index} begins and ends")
            if len(found) < len(wanted):
                await asyncio.sleep(LOOK_INTERVAL_S)
        return {one: found[one] for one in wanted}

    async def known(self, partitions: Iterable[Partition]) -> dict[Partition, Extent]:
        """Return where partitions begin and end, or what is known here where nobody leads now."""
        wanted = list(partitions)
        found = {one: extent_of(one) for one in wanted}
        asked = [one for one in wanted if not one.is_leader]
        return found | await self._ask_leaders(asked, NO_TIME) if asked else found

    async def starts(self, partitions: Iterable[Partition], start_ms: int) -> Offsets:
        """Return where an index begins in each partition: EARLIEST, LATEST or at a time."""
        found = await self.of(partitions, start_ms if start_ms >= 0 else NO_TIME)
        if start_ms == EARLIEST:
            return {partition.index: extent.start for partition, extent in found.items()}
        return {partition.index: extent.at for partition, extent in found.items()}

    async def _ask_leaders(
        self, partitions: Sequence[Partition], timestamp_ms: int
    ) -> dict[Partition, Extent]:
        by_leader: dict[int, list[Partition]] = {}
        found: dict[Partition, Extent] = {}
        for partition in partitions:
            if partition.is_leader:  # by now
                found[partition] = extent_of(partition, timestamp_ms)
            elif partition.replica is not None:
                by_leader.setdefault(partition.replica.leader_hint[0], []).append(partition)
        by_leader.pop(NO_LEADER, None)
        asked = (self._ask(leader, led, timestamp_ms) for leader, led in by_leader.items())
        for answers in await asyncio.gather(*asked):
            found |= answers
        return found

    async def _ask(
        self, leader: int, partitions: Sequence[Partition], timestamp_ms: int
    ) -> dict[Partition, Extent]:
        assert self._nodes is not None
        assert all(one.replica is not None for one in partitions)
        questions = [
            Question(*one.replica.place, timestamp_ms) for one in partitions if one.replica
        ]
        try:
            body = await self._nodes.ask(leader, Kind.EXTENT, [msgspec.msgpack.encode(questions)])
        except (LinkDown, PeerRefused):
            return {}
        found = {}
        for partition, extent in zip(partitions, _extents.decode(body), strict=False):
            if extent is not None:
                found[partition] = extent
                if isinstance(partition, AbsentPartition):
                    partition.learn(extent.start, extent.end)
        return found

    async def _serve(self, _: Caller, body: memoryview) -> Body:
        try:
            questions = _questions.decode(body)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"no questions about partitions: {error}") from None
        extents: list[Extent | None] = []
        for question in questions:
            partition = self._topics.partition(question.topic_id, question.partition)
            is_led = partition is not None and partition.is_leader and not partition.is_closed
            extents.append(
                extent_of(partition, question.timestamp_ms) if partition and is_led else None
            )
        return [msgspec.msgpack.encode(extents)]


def extent_of(partition: Partition, timestamp_ms: int = NO_TIME) -> Extent:
    """Return where a partition of this node begins and ends, and where a time is."""
    end = partition.stable_offset
    at = end
    if timestamp_ms != NO_TIME:
        found = partition.log.offset_for_time(timestamp_ms)
        at = end if found is None else min(found[0], end)
    log = partition.log
    return Extent(log.start_offset, end, at, partition.high_watermark, log.size)


_questions = msgspec.msgpack.Decoder(list[Question])
_extents = msgspec.msgpack.Decoder(list[Extent | None])

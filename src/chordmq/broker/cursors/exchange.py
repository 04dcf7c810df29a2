"""Shared cursors over several nodes: each is kept where its partition is led, its log anywhere."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from chordmq.broker.partition import Partition
from chordmq.broker.topics import Topics
from chordmq.cluster.link import Caller, LinkDown, PeerRefused
from chordmq.cluster.links import Handler
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import ChordMQError, CoordinatorNotAvailable, DecodeError, UnknownTopic

TIMEOUT_S = 5.0

Rows = list[tuple[bytes, bytes]]
"""Keys and values of records that hold cursors."""


class Nodes(Protocol):
    """The links to the other nodes."""

    def answer(self, kind: int, handler: Handler) -> None:
        """Have requests of this kind answered by a handler."""
        ...

    async def ask(
        self, broker: int, kind: int, body: Body = (), timeout_s: float = TIMEOUT_S
    ) -> memoryview:
        """Return a node's answer; raise PeerRefused, or LinkDown when none has come."""
        ...


class Opening(msgspec.Struct, frozen=True, tag=True):
    """A cursor that is to be there, on the node that leads its partition."""

    group: str
    topic: str
    partition: int
    start_ms: int


class Reading(msgspec.Struct, frozen=True, tag=True):
    """The cursors in one partition of the log, which the node leads."""

    log_partition: int


class Exchange:
    """Asks the leaders of partitions to open cursors, and the leaders of the log what it holds."""

    def __init__(
        self,
        nodes: Nodes,
        topics: Topics,
        open_here: Callable[[Opening], Awaitable[object]],
        read_here: Callable[[int], Awaitable[Rows]],
    ) -> None:
        self._nodes = nodes
        self._topics = topics
        self._open_here = open_here
        self._read_here = read_here
        nodes.answer(Kind.CURSOR, self._serve)

    async def open(self, wanted: Opening) -> None:
        """Have a cursor opened by whoever leads its partition."""
        await self._ask(self._topics.get(wanted.topic).partitions[wanted.partition], wanted)

    async def read(self, log: Partition) -> Rows:
        """Return what a partition of the log holds, from whoever leads it."""
        if log.is_leader:
            return await self._read_here(log.index)
        return msgspec.msgpack.decode(await self._ask(log, Reading(log.index)), type=Rows)

    async def _ask(self, partition: Partition, wish: Opening | Reading) -> memoryview:
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

    async def _serve(self, _: Caller, body: memoryview) -> Body:
        try:
            wish = msgspec.msgpack.decode(body, type=Opening | Reading)
        except msgspec.DecodeError as error:
            raise DecodeError(f"no wish about a cursor: {error}") from None
        if isinstance(wish, Reading):
            return [msgspec.msgpack.encode(await self._read_here(wish.log_partition))]
        await self._open_here(wish)
        return ()


def _error(refusal: PeerRefused) -> ChordMQError:
    """Return another node's refusal: a topic that is gone stays so, the rest may be tried again."""
    if refusal.name == UnknownTopic.__name__:
        return UnknownTopic(refusal.text)
    return CoordinatorNotAvailable(str(refusal))

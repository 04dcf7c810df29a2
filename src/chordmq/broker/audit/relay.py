"""The audit trail of a cluster: one chain, written by whoever leads it, told by all nodes."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Protocol

import msgspec

from chordmq.broker.audit.chain import Event
from chordmq.broker.audit.files import TOPIC
from chordmq.broker.topics import Topics
from chordmq.cluster.link import Caller, Handler, LinkDown, PeerRefused
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import DecodeError, NotLeader

TIMEOUT_S = 10.0


class Trail(Protocol):
    """The auditor of this node."""

    name: str

    async def write(self, events: Sequence[Event]) -> None:
        """Append events to the chain."""
        ...


class Nodes(Protocol):
    """The links to the other nodes."""

    @property
    def broker(self) -> int:
        """Return this node's number."""
        ...

    def answer(self, kind: int, handler: Handler) -> None:
        """Have requests of this kind answered by a handler."""
        ...

    async def ask(
        self, broker: int, kind: int, body: Body = (), timeout_s: float = TIMEOUT_S
    ) -> memoryview:
        """Return a node's answer; raise PeerRefused, or LinkDown when none has come."""
        ...


class AuditRelay:
    """Hands events to the node that leads the trail, and writes what other nodes hand over.

    Events whose outcome is not known are handed over again: rather twice than never.
    """

    def __init__(self, nodes: Nodes, topics: Topics, trail: Trail) -> None:
        self._nodes = nodes
        self._topics = topics
        self._trail = trail
        trail.name = f"node {nodes.broker}"
        nodes.answer(Kind.AUDIT, self._serve)

    async def relay(self, events: Sequence[Event]) -> None:
        """Return once the leader has written the events; raise NotLeader if it has not."""
        partition = self._topics.get(TOPIC).partitions[0]
        leader = NO_LEADER if partition.replica is None else partition.replica.leader_hint[0]
        if leader == NO_LEADER:
            raise NotLeader("nobody leads the audit trail now")
        body = msgspec.json.encode([asdict(event) for event in events])
        try:
            await self._nodes.ask(leader, Kind.AUDIT, [body], TIMEOUT_S)
        except (PeerRefused, LinkDown) as fault:
            raise NotLeader(f"node {leader} has not written the audit trail: {fault}") from None

    async def _serve(self, _: Caller, body: memoryview) -> Body:
        try:
            events = msgspec.json.decode(body, type=list[Event])
        except msgspec.DecodeError as error:
            raise DecodeError(f"no events of an audit trail: {error}") from None
        await self._trail.write(events)
        return ()

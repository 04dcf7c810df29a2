"""Transactions over several nodes: asks whoever looks after an id, or leads a partition."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from chordmq import errors
from chordmq.broker.groups.offsets import Place
from chordmq.broker.producers import Incarnation
from chordmq.broker.topics import Topics
from chordmq.broker.transactions.coordinator import Delegate
from chordmq.cluster.link import Caller, Handler, LinkDown, PeerRefused
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import ChordMQError, CoordinatorNotAvailable, DecodeError, NotLeader
from chordmq.records.marker import Marker

TIMEOUT_S = 5.0


class Coordinator(Protocol):
    """The transaction coordinator of this node."""

    delegate: Delegate | None

    async def add(
        self, transactional_id: str, producer: Incarnation, places: Collection[Place]
    ) -> None:
        """Let partitions join a producer's transaction."""
        ...

    def check_member(self, transactional_id: str, producer: Incarnation, place: Place) -> None:
        """Refuse unless the partition is part of the producer's open transaction."""
        ...

    def place_of(self, transactional_id: str) -> Place:
        """Return the partition whose leader looks after an id."""
        ...

    async def write_marker(self, place: Place, marker: Marker) -> None:
        """End a transaction in a partition that this node leads."""
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


class Joining(msgspec.Struct, frozen=True, tag=True):
    """Partitions that are to join a transaction, or must be part of it already."""

    transactional_id: str
    producer: tuple[int, int]
    places: list[tuple[str, int]]
    is_check: bool


class Ending(msgspec.Struct, frozen=True, tag=True):
    """The end of a transaction in a partition."""

    place: tuple[str, int]
    producer: tuple[int, int]
    is_commit: bool


class Delegation:
    """Does here what concerns this node, and asks the right one for the rest."""

    def __init__(self, nodes: Nodes, topics: Topics, coordinator: Coordinator) -> None:
        self._nodes = nodes
        self._topics = topics
        self._coordinator = coordinator
        coordinator.delegate = self
        nodes.answer(Kind.TRANSACTION, self._serve)

    async def add(
        self, transactional_id: str, producer: Incarnation, places: Collection[Place]
    ) -> None:
        """Let partitions join a producer's transaction; return once that is safe."""
        await self._join(transactional_id, producer, places, is_check=False)

    async def check(
        self, transactional_id: str, producer: Incarnation, places: Collection[Place]
    ) -> None:
        """Refuse unless the partitions are part of the producer's open transaction."""
        await self._join(transactional_id, producer, places, is_check=True)

    async def mark(self, place: Place, marker: Marker) -> None:
        """End a transaction in a partition, whoever leads it; return once that is committed."""
        producer = (marker.producer_id, marker.epoch)
        await self._ask(place, Ending(place, producer, marker.is_commit))

    async def _join(
        self,
        transactional_id: str,
        producer: Incarnation,
        places: Collection[Place],
        *,
        is_check: bool,
    ) -> None:
        producer_id, epoch = producer
        wish = Joining(transactional_id, (producer_id, epoch), sorted(places), is_check)
        await self._ask(self._coordinator.place_of(transactional_id), wish)

    async def _ask(self, place: Place, wish: Joining | Ending) -> None:
        """Have the leader of a partition do something."""
        leader = self._leader(place)
        if leader == self._nodes.broker:
            await self._do(wish)
            return
        try:
            await self._nodes.ask(leader, Kind.TRANSACTION, [_ENCODER.encode(wish)], TIMEOUT_S)
        except PeerRefused as refusal:
            raise _error(refusal) from None
        except LinkDown as fault:
            raise CoordinatorNotAvailable(f"node {leader} does not answer: {fault}") from None

    def _leader(self, place: Place) -> int:
        topic, index = place
        partition = self._topics.get(topic).partitions[index]
        if partition.is_leader or partition.replica is None:
            return self._nodes.broker
        leader, _ = partition.replica.leader_hint
        if leader == NO_LEADER:
            raise CoordinatorNotAvailable(f"nobody leads {topic}-{index} now")
        return leader

    async def _serve(self, _: Caller, body: memoryview) -> Body:
        try:
            wish = _DECODER.decode(body)
        except msgspec.DecodeError as error:
            raise DecodeError(f"no wish about a transaction: {error}") from None
        await self._do(wish)
        return ()

    async def _do(self, wish: Joining | Ending) -> None:
        producer = Incarnation(*wish.producer)
        if isinstance(wish, Ending):
            marker = Marker(*producer, wish.is_commit)
            await self._coordinator.write_marker(wish.place, marker)
        elif wish.is_check:
            self._check_all(wish.transactional_id, producer, wish.places)
        else:
            await self._coordinator.add(wish.transactional_id, producer, wish.places)

    def _check_all(
        self, transactional_id: str, producer: Incarnation, places: Sequence[Place]
    ) -> None:
        for place in places:
            self._coordinator.check_member(transactional_id, producer, place)


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Joining | Ending] = msgspec.json.Decoder(Joining | Ending)


def _error(refusal: PeerRefused) -> ChordMQError:
    """Return another node's refusal as our own error of the same name."""
    kind = getattr(errors, refusal.name, None)
    if not (isinstance(kind, type) and issubclass(kind, ChordMQError)):
        return CoordinatorNotAvailable(str(refusal))
    if kind is NotLeader:  # the leader has just changed; whoever asks tries again
        return CoordinatorNotAvailable(str(refusal))
    return kind(refusal.text)

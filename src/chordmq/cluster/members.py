"""The brokers of a cluster: who is registered, who lives, and who should hold what."""

from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Event
from chordmq.cluster.ring.placement import Placement
from chordmq.cluster.state import (
    BROKERS,
    CLUSTER,
    CONTROLLER,
    LIVE,
    BrokerRegistration,
    ClusterIdentity,
    ControllerLease,
    Endpoint,
    PartitionState,
    broker_key,
    broker_of,
    decode,
    live_key,
)
from chordmq.dataclass import dataclass

NO_BROKER = -1


@dataclass(frozen=True, slots=True)
class Member:
    """A registered broker."""

    id: int
    epoch: int
    registration: BrokerRegistration
    is_live: bool

    def endpoint(self, protocol: str) -> Endpoint | None:
        """Return where the broker listens for a protocol, or None."""
        return self.registration.endpoints.get(protocol)


class Members:
    """What the image says of brokers; a node alone is the only one there, and lives."""

    def __init__(self, image: Image, node_id: int, *, is_alone: bool = True) -> None:
        self._image = image
        self.node_id = node_id
        self.is_alone = is_alone
        self._placement: Placement | None = None
        image.listen(BROKERS, self._forget_placement)
        image.listen(LIVE, self._forget_placement)

    def all(self) -> list[Member]:
        """Return every registered broker, in the order of their numbers."""
        found = [self._member(broker_of(entry.key)) for entry in self._image.under(BROKERS)]
        return sorted((one for one in found if one is not None), key=lambda member: member.id)

    def get(self, broker: int) -> Member | None:
        """Return a broker if it is registered."""
        return self._member(broker)

    def live(self) -> list[int]:
        """Return the brokers that live, in the order of their numbers."""
        if self.is_alone:
            return [self.node_id]
        return sorted(broker_of(entry.key) for entry in self._image.under(LIVE))

    def is_live(self, broker: int) -> bool:
        """Return whether a broker lives."""
        return broker == self.node_id if self.is_alone else bool(self._image.get(live_key(broker)))

    def controller(self) -> int:
        """Return who looks after the partitions; NO_BROKER while nobody does."""
        if self.is_alone:
            return self.node_id
        entry = self._image.get(CONTROLLER)
        return decode(entry, ControllerLease).broker if entry else NO_BROKER

    def place(self, topic_id: bytes, partitions: range, factor: int) -> list[PartitionState]:
        """Return who should hold and lead new partitions: the next living brokers on the ring."""
        if self.is_alone:
            return [self.begin((self.node_id,)) for _ in partitions]
        proposed = self.placement().proposal(topic_id, partitions.stop, factor)
        return [self.begin(replicas) for replicas in proposed[partitions.start :]]

    def begin(self, replicas: tuple[int, ...]) -> PartitionState:
        """Return the first state of a partition that these brokers are to hold.

        Nothing is written yet: where none of them lives, whoever comes first may lead.
        """
        live = tuple(broker for broker in replicas if self.is_live(broker))
        leader = live[0] if live else NO_BROKER
        return PartitionState(replicas=replicas, leader=leader, isr=tuple(sorted(live or replicas)))

    def placement(self) -> Placement:
        """Return the ring of the brokers that live."""
        if self._placement is None:
            live = [member for member in self.all() if member.is_live]
            uuids = {member.id: member.registration.uuid for member in live}
            racks = {member.id: member.registration.rack for member in live}
            entry = self._image.get(CLUSTER)
            assert entry is not None
            self._placement = Placement(decode(entry, ClusterIdentity).id, uuids, racks)
        return self._placement

    def _member(self, broker: int) -> Member | None:
        entry = self._image.get(broker_key(broker))
        if entry is None:
            return None
        is_live = self.is_live(broker)
        return Member(broker, entry.revision, decode(entry, BrokerRegistration), is_live)

    def _forget_placement(self, _events: list[Event]) -> None:
        self._placement = None

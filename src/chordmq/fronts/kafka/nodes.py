"""The nodes of the cluster, as clients are told of them."""

from chordmq.dataclass import dataclass
from chordmq.errors import CoordinatorNotAvailable
from chordmq.fronts.kafka.call import Call

PROTOCOL = "kafka"


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """Where clients reach a node."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_live: bool = True


def nodes(call: Call) -> list[KafkaNode]:
    """Return the nodes that live; alone, this one as its clients see it."""
    return [node for node in registered(call) if node.is_live]


def registered(call: Call) -> list[KafkaNode]:
    """Return all nodes, also those that are away."""
    members = call.broker.members
    if members.is_alone:
        return [KafkaNode(call.broker.node_id, *call.advertised)]
    return [
        KafkaNode(one.id, place.host, place.port, one.registration.rack or None, one.is_live)
        for one in members.all()
        if (place := one.endpoint(PROTOCOL)) is not None
    ]


def leader(call: Call, topic: str, index: int) -> KafkaNode:
    """Return the node that leads a partition of one of the broker's own topics."""
    broker = call.broker
    if broker.members.is_alone:
        return KafkaNode(broker.node_id, *call.advertised)
    found = broker.topics.find(topic)
    if found is not None and index < len(found.partitions):
        leads = broker.topics.state(found, index).leader
        for node in nodes(call):
            if node.id == leads:
                return node
    raise CoordinatorNotAvailable(f"{topic}-{index} has no leader now")

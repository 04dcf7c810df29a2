"""The numbers of the links, of the ring and of what the nodes have agreed upon."""

from collections.abc import Iterable, Iterator

from chordmq.client.breaker import breaker_measures
from chordmq.cluster.controlling import Controlling
from chordmq.cluster.members import Members
from chordmq.cluster.routes import Routes
from chordmq.cluster.state import PartitionState
from chordmq.metrics import Metric, counter, gauge


def ring_measures(routes: Routes) -> Iterator[Metric]:
    """Yield who is linked, how whole the ring is, and what look-ups cost."""
    peers = list(routes.links.peers.values())
    yield Metric(
        "chordmq_link_up", "Whether the node is connected to another one.", "gauge",
        [({"node": str(peer.broker)}, float(peer.link is not None)) for peer in peers],
    )  # fmt: skip
    yield from breaker_measures(peer.breaker for peer in peers)
    member = routes.member
    if member is None:
        return
    near = member.neighbourhood
    yield gauge("chordmq_ring_member", "1 if the node has its place on the ring.", near.is_member)
    yield gauge("chordmq_ring_members", "Nodes that the registry names.", len(near.registered))
    yield gauge("chordmq_ring_successors", "Successors that the node knows.", len(near.successors))
    yield gauge(
        "chordmq_ring_suspects", "Members that did not answer just now.", len(near.suspects)
    )
    yield counter("chordmq_ring_lookups", "Look-ups that have ended.", member.lookups)
    yield counter("chordmq_ring_hops", "Nodes asked by look-ups.", member.hops)


def coordination_measures(
    members: Members, controlling: Controlling, states: Iterable[PartitionState]
) -> Iterator[Metric]:
    """Yield who lives and controls, and which partitions lack a leader or copies."""
    known = [state for state in states if state.replicas]
    yield gauge("chordmq_live_nodes", "Nodes that live.", len(members.live()))
    yield gauge("chordmq_controller", "1 if this node controls the cluster.", controlling.epoch > 0)
    yield counter(
        "chordmq_elections", "Leaders that this node has elected as controller.",
        controlling.elections,
    )  # fmt: skip
    yield gauge(
        "chordmq_partitions_without_leader", "Partitions that nobody leads.",
        sum(not members.is_live(state.leader) for state in known),
    )  # fmt: skip
    yield gauge(
        "chordmq_under_replicated_partitions", "Partitions with replicas that are not in sync.",
        sum(len(state.isr) < len(state.replicas) for state in known),
    )  # fmt: skip
    yield gauge(
        "chordmq_moving_partitions", "Partitions on their way to other nodes.",
        sum(bool(state.adding or state.removing) for state in known),
    )  # fmt: skip

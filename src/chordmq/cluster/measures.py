"""The numbers of the links and of the ring."""

from collections.abc import Iterator

from chordmq.client.breaker import breaker_measures
from chordmq.cluster.routes import Routes
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

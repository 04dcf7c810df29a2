"""The cluster over HTTP: who is in it, what it holds, and the ring as this node sees it."""

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import Kind, Operation
from chordmq.cluster.members import Member
from chordmq.cluster.ring.identifier import place_of_broker, place_of_key
from chordmq.errors import InvalidRequest
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.groups import all_groups
from chordmq.version import VERSION

if TYPE_CHECKING:
    from chordmq.cluster.routes import Routes


class NodeRow(msgspec.Struct, frozen=True):
    """One node of the cluster."""

    id: int
    version: str
    """Of the node that answers; those of others are not known."""
    controller: bool
    live: bool = True
    linked: bool = True
    """Whether the node that answers is connected to it."""
    rack: str = ""
    kafka: str = ""
    http: str = ""
    place: str = ""
    """On the ring, in hexadecimal digits."""
    leads: int = 0
    """Partitions that it leads."""
    holds: int = 0
    """Partitions of which it has a replica."""


class RingView(msgspec.Struct, frozen=True):
    """The neighbours and shortcuts of the node that answers."""

    member: bool
    place: str
    predecessor: int | None
    successors: list[int]
    fingers: list[int]
    suspects: list[int]
    """Nodes that did not answer just now."""
    lookups: int
    hops: int
    """Nodes asked by all look-ups together."""


class Cluster(msgspec.Struct, frozen=True):
    """The cluster as this node sees it."""

    id: str
    nodes: list[NodeRow]
    topics: int
    partitions: int
    groups: int
    size_bytes: int
    """On this node."""
    ring: RingView | None = None
    """None for a node alone."""


class Owner(msgspec.Struct, frozen=True):
    """Who owns a key on the ring, and how many nodes were asked for it."""

    node: int
    hops: int


async def describe_cluster(call: Call) -> Cluster:
    """Show the cluster's nodes, how much it holds, and the ring."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    broker = call.broker
    routes = broker.routes
    return Cluster(
        id=broker.cluster_id,
        nodes=_nodes(broker),
        topics=len(broker.topics),
        partitions=sum(len(topic.partitions) for topic in broker.topics),
        groups=len(await all_groups(broker)),
        size_bytes=sum(partition.log.size for partition in broker.partitions()),
        ring=_ring(routes) if routes is not None else None,
    )


async def find_owner(call: Call) -> Owner:
    """Find the node that owns a key on the ring, by asking along it."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    routes = call.broker.routes
    if routes is None:
        raise InvalidRequest("this node is alone: it owns every key")
    found = await routes.look_up(place_of_key(call.path("key")))
    return Owner(found.broker, found.hops)


def _nodes(broker: Broker) -> list[NodeRow]:
    leads: Counter[int] = Counter()
    holds: Counter[int] = Counter()
    for topic in broker.topics:
        for index in range(len(topic.partitions)):
            state = broker.topics.state(topic, index)
            leads[state.leader] += 1
            holds.update(state.replicas)
    controller = broker.members.controller()
    if broker.members.is_alone:
        me = broker.node_id
        return [NodeRow(me, VERSION, True, leads=leads[me], holds=holds[me])]
    return [
        NodeRow(
            member.id,
            VERSION if member.id == broker.node_id else "",
            member.id == controller,
            live=member.is_live,
            linked=_is_linked(broker, member.id),
            rack=member.registration.rack,
            kafka=_address(member, "kafka"),
            http=_address(member, "http"),
            place=_hex(place_of_broker(broker.cluster_id, member.registration.uuid)),
            leads=leads[member.id],
            holds=holds[member.id],
        )
        for member in broker.members.all()
    ]


def _is_linked(broker: Broker, node: int) -> bool:
    routes = broker.routes
    return node == broker.node_id or (routes is not None and routes.links.is_connected(node))


def _ring(routes: "Routes") -> RingView | None:
    member = routes.member
    if member is None:
        return None
    near = member.neighbourhood

    def brokers(places: list[int]) -> list[int]:
        found = (routes.broker_at(place) for place in places)
        return [broker for broker in found if broker is not None]

    return RingView(
        member=near.is_member,
        place=_hex(member.me),
        predecessor=routes.broker_at(near.predecessor),
        successors=brokers(list(near.successors)),
        fingers=brokers(sorted(member.fingers.members())),
        suspects=brokers(sorted(near.suspects)),
        lookups=member.lookups,
        hops=member.hops,
    )


def _address(member: Member, protocol: str) -> str:
    endpoint = member.endpoint(protocol)
    return f"{endpoint.host}:{endpoint.port}" if endpoint is not None else ""


def _hex(place: int) -> str:
    return f"{place:016x}"


ROUTES = [
    Api("GET", "/v1/cluster", describe_cluster),
    Api("GET", "/v1/cluster/owners/{key}", find_owner),
]

"""The cluster over HTTP: who is in it and what it holds."""

import msgspec

from chordmq.broker.security.acl import Kind, Operation
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.version import VERSION


class NodeRow(msgspec.Struct, frozen=True):
    """One node of the cluster."""

    id: int
    version: str
    controller: bool


class Cluster(msgspec.Struct, frozen=True):
    """The cluster as this node sees it."""

    id: str
    nodes: list[NodeRow]
    topics: int
    partitions: int
    groups: int
    size_bytes: int


async def describe_cluster(call: Call) -> Cluster:
    """Show the cluster's nodes and how much it holds."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    broker = call.broker
    partitions = list(broker.partitions())
    return Cluster(
        id=broker.cluster_id,
        nodes=[NodeRow(broker.node_id, VERSION, True)],
        topics=len(broker.topics),
        partitions=len(partitions),
        groups=sum(1 for _ in broker.groups.groups()),
        size_bytes=sum(partition.log.size for partition in partitions),
    )


ROUTES = [Api("GET", "/v1/cluster", describe_cluster)]

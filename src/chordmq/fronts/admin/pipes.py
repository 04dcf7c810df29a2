"""Pipes over HTTP: what this node copies from whom, how far it is, and the tree as it knows it."""

from typing import TYPE_CHECKING

import msgspec

from chordmq.broker.security.acl import Kind, Operation
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call
from chordmq.topology.registry.nodes import Topology

if TYPE_CHECKING:
    from chordmq.topology.pipes import Pipes


class PipeState(msgspec.Struct, frozen=True, kw_only=True):
    """One partition that is copied from another node."""

    source: str
    url: str
    topic: str
    partition: int
    health: str
    lag: int
    copied: int
    """Records since the node started."""
    repeated: int
    """Records that came although they were here."""
    error: str
    """Why the last request failed; empty if it did not."""


class PipeList(msgspec.Struct, frozen=True, kw_only=True):
    """All pipes of the node."""

    node: str
    health: str
    lag: int
    registry: bool
    """Whether the registry answers."""
    refusal: str
    """Why the registry does not take this node; empty if it does."""
    pipes: list[PipeState]


async def list_pipes(call: Call) -> PipeList:
    """Show what this node copies from its parent and children, and how far it is."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    pipes = call.shared.pipes
    if pipes is None:
        return PipeList(node="", health="HEALTHY", lag=0, registry=False, refusal="", pipes=[])
    follower = pipes.follower
    return PipeList(
        node=pipes.node,
        health=pipes.health.name,
        lag=pipes.lag,
        registry=follower is not None and follower.is_connected,
        refusal=follower.refusal if follower is not None else "",
        pipes=_states(pipes),
    )


async def show_topology(call: Call) -> Topology:
    """Show the tree of nodes as this node knows it, also while the registry is away."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    return call.shared.pipes.topology if call.shared.pipes is not None else Topology()


def _states(pipes: "Pipes") -> list[PipeState]:
    return [
        PipeState(
            source=pull.source.name,
            url=pull.source.url,
            topic=topic,
            partition=partition,
            health=pull.vitals.health.name,
            lag=pull.vitals.lag,
            copied=pull.target.records,
            repeated=pull.target.repeated,
            error=pull.error,
        )
        for (_, topic, partition), pull in sorted(pipes.pulls.items())
    ]


ROUTES = [
    Api("GET", "/v1/pipes", list_pipes),
    Api("GET", "/v1/topology", show_topology),
]

"""Proves over real links that events reach the node that leads the audit trail."""

from collections.abc import Sequence

import pytest

from chordmq.broker.audit.chain import Event
from chordmq.broker.audit.relay import AuditRelay
from chordmq.errors import NotLeader
from tests.broker.transactions.test_delegation import Led
from tests.cluster.linked import Linked, linked, until_connected

EVENT = Event(who="User:ann", host="10.0.0.1", act="topic.create", obj="orders")


class Trail:
    """An auditor that remembers what it has written."""

    name = "node"

    def __init__(self) -> None:
        self.written: list[Event] = []

    async def write(self, events: Sequence[Event]) -> None:
        self.written += events


class Topics:
    """A trail that one node leads, or nobody."""

    def __init__(self, node: int, leader: int) -> None:
        self.partitions = [Led(node, leader)]

    def get(self, name: str) -> "Topics":
        return self


def relaying(node: Linked, leader: int) -> tuple[AuditRelay, Trail]:
    trail = Trail()
    topics = Topics(node.links.broker, leader)
    return AuditRelay(node.links, topics, trail), trail  # type: ignore[arg-type]


async def test_events_are_written_by_the_node_that_leads_the_trail() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        relay, here = relaying(one, leader=2)
        _, there = relaying(two, leader=2)
        await relay.relay([EVENT, EVENT])
        assert (here.written, there.written) == ([], [EVENT, EVENT])
        assert (here.name, there.name) == ("node 1", "node 2")


async def test_what_nobody_has_written_is_kept_by_who_asked() -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        nobody, _ = relaying(one, leader=-1)
        with pytest.raises(NotLeader):
            await nobody.relay([EVENT])

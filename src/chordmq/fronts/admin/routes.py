"""Routing rules over HTTP: where messages with hierarchical names go, and how to change that."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from chordmq.broker.names import Rule
from chordmq.broker.security.acl import Kind, Operation
from chordmq.client.partitioner import partition_for_key
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call

RANK_MAX = 1_000_000


class RouteRow(msgspec.Struct, frozen=True):
    """A rule: names that match the filter go to the topic, with a key made of their levels."""

    filter: str
    topic: str
    key: str | None
    rank: int | None
    """Rules of a lower rank are asked first; those of the configuration have none, and are last."""
    source: Literal["store", "configuration"]


class RouteList(msgspec.Struct, frozen=True):
    """All rules, in the order in which they are asked."""

    routes: list[RouteRow]


class NewRoute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule to add, or to put in the place of the one with the same filter."""

    filter: str
    topic: str
    key: str | None = None
    """`{3}` is the third level of the name; without a key, messages have none."""
    rank: Annotated[int, Meta(ge=0, le=RANK_MAX)] = 0


class RouteQuery(msgspec.Struct, frozen=True):
    """Which rule."""

    filter: str


class NameQuery(msgspec.Struct, frozen=True):
    """A name to try."""

    name: str


class Destination(msgspec.Struct, frozen=True):
    """Where messages of a name go."""

    name: str
    topic: str
    key: str | None
    partition: int | None
    """None as long as the topic is not there."""
    filter: str | None
    """Of the rule that says so; none for the default."""


async def list_routes(call: Call) -> RouteList:
    """Show the rules by which names with levels find their topics."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    routing = call.broker.routing
    rows = [RouteRow(*one.rule, one.rank, "store") for one in routing.stored]
    rows += [RouteRow(*rule, None, "configuration") for rule in routing.configured]
    return RouteList(rows)


async def put_route(call: Call, body: NewRoute) -> RouteRow:
    """Add a routing rule, or replace the one with the same filter; all nodes go by it at once."""
    call.check(Operation.ALTER, Kind.CLUSTER)
    rule = Rule(body.filter, body.topic, body.key)
    await call.broker.routing.put(rule, body.rank)
    return RouteRow(*rule, body.rank, "store")


async def remove_route(call: Call, query: RouteQuery) -> None:
    """Remove the routing rule with a filter; what lies in its topic stays there."""
    call.check(Operation.ALTER, Kind.CLUSTER)
    await call.broker.routing.remove(query.filter)


async def try_route(call: Call, query: NameQuery) -> Destination:
    """Say where messages of a name would go, and by which rule."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    broker, name = call.broker, query.name
    found = broker.routing.names.destination(name)
    rule = broker.routing.names.rule_of(name)
    topic = broker.topics.find(found.topic)
    partition = None
    if topic is not None:
        key = name.encode() if found.key is None else found.key
        partition = partition_for_key(key, len(topic.partitions))
    key_text = None if found.key is None else found.key.decode()
    return Destination(name, found.topic, key_text, partition, rule.filter if rule else None)


ROUTES = [
    Api("GET", "/v1/routes", list_routes),
    Api("POST", "/v1/routes", put_route),
    Api("DELETE", "/v1/routes", remove_route),
    Api("GET", "/v1/routes/test", try_route),
]

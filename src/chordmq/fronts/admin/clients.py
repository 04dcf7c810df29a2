"""Who is connected over HTTP: the clients of fronts whose connections last."""

import msgspec

from chordmq.broker.presence import ClientFacts, ConsumerFacts
from chordmq.broker.security.acl import Kind, Operation
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call


class Clients(msgspec.Struct, frozen=True):
    """All clients that are connected now."""

    clients: list[ClientFacts]


class Consumers(msgspec.Struct, frozen=True):
    """All consumers that are connected now."""

    consumers: list[ConsumerFacts]


async def list_clients(call: Call) -> Clients:
    """Show who is connected, since when, and what they subscribe to."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    return Clients(list(call.broker.presence))


async def list_consumers(call: Call) -> Consumers:
    """Show what remote consumers read, how far they are, and what they have not acknowledged."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    return Consumers(call.broker.presence.consumers())


ROUTES = [
    Api("GET", "/v1/clients", list_clients),
    Api("GET", "/v1/consumers", list_consumers),
]

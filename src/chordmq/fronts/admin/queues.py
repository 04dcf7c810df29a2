"""Queues and exchanges over HTTP: what is declared, what waits, and who consumes."""

from typing import Any

import msgspec

from chordmq.broker.queues.queue import Queue
from chordmq.broker.security.acl import Kind, Operation
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it is now."""

    vhost: str
    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: dict[str, Any]
    ready: int
    """Messages that wait."""
    ready_bytes: int
    unacknowledged: int
    """Messages that consumers have got and not settled."""
    consumers: int
    delivered: int
    """Deliveries since the node started."""
    finished: int


class QueueList(msgspec.Struct, frozen=True):
    """All queues."""

    queues: list[QueueState]


class BindingState(msgspec.Struct, frozen=True, kw_only=True):
    """What leads from an exchange to a queue or another exchange."""

    destination: str
    to_queue: bool
    key: str
    arguments: dict[str, Any]


class ExchangeState(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange and its bindings."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, Any]
    topic: str
    """The log topic that holds what is published to it."""
    bindings: list[BindingState]


class ExchangeList(msgspec.Struct, frozen=True):
    """All exchanges."""

    exchanges: list[ExchangeState]


async def list_queues(call: Call) -> QueueList:
    """Show the queues of AMQP clients, what waits in them, and how many consume."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    call.broker.queues.check()
    return QueueList([_state(queue) for queue in call.broker.queues])


async def list_exchanges(call: Call) -> ExchangeList:
    """Show the exchanges of AMQP clients and what is bound to them."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    call.broker.queues.check()
    found = [
        ExchangeState(
            vhost=vhost.name,
            name=one.name,
            type=one.type,
            durable=one.durable,
            auto_delete=one.auto_delete,
            internal=one.internal,
            arguments=one.arguments,
            topic=vhost.place(one, "") or "",
            bindings=[
                BindingState(
                    destination=binding.destination,
                    to_queue=binding.to_queue,
                    key=binding.key,
                    arguments=binding.arguments,
                )
                for binding in vhost.exchanges.bindings_from(one.name)
            ],
        )
        for vhost in call.broker.queues.vhosts.values()
        for one in vhost.exchanges
    ]
    return ExchangeList(found)


def _state(queue: Queue) -> QueueState:
    facts = queue.facts
    return QueueState(
        vhost=facts.vhost,
        name=facts.name,
        durable=facts.durable,
        exclusive=facts.exclusive,
        auto_delete=facts.auto_delete,
        arguments=facts.arguments,
        ready=queue.ready,
        ready_bytes=queue.ready_bytes,
        unacknowledged=queue.unacked,
        consumers=len(queue.consumers),
        delivered=queue.delivered,
        finished=queue.finished,
    )


ROUTES = [
    Api("GET", "/v1/queues", list_queues),
    Api("GET", "/v1/exchanges", list_exchanges),
]

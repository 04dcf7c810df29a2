"""What RabbitMQ's management API shows: queues, exchanges, bindings, clients and users."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from chordmq.broker.presence import ClientFacts
from chordmq.broker.queues.exchanges import DEFAULT, TYPES, Binding, Exchange
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.broker.security.acl import ANY, Effect, Kind, Match, Operation
from chordmq.fronts.admin.call import Call
from chordmq.fronts.admin.login import authenticator_of
from chordmq.version import VERSION

Row = dict[str, Any]

API_VERSION = "3.13.0"
"""The RabbitMQ whose API this is a part of."""
AMQP = {"amqp-0-9-1": "AMQP 0-9-1", "amqp-1.0": "AMQP 1-0"}
NO_KEY = "~"
EVERYTHING, NOTHING = ".*", ""
CONFIGURE = (Operation.CREATE, Operation.DELETE, Operation.ALTER)


def node_name(call: Call) -> str:
    """Return what the node is called here."""
    return f"chordmq@{call.broker.node_id}"


def overview(call: Call) -> Row:
    """Return the numbers of the whole node."""
    queues = list(call.broker.queues)
    clients = list(amqp_clients(call))
    return {
        "management_version": API_VERSION,
        "rabbitmq_version": API_VERSION,
        "product_name": "ChordMQ",
        "product_version": VERSION,
        "cluster_name": str(call.broker.cluster_id),
        "node": node_name(call),
        "exchange_types": [{"name": name, "enabled": True} for name in TYPES],
        "queue_totals": totals(queues),
        "object_totals": {
            "queues": len(queues),
            "exchanges": len(exchanges(call)),
            "consumers": sum(len(queue.consumers) for queue in queues),
            "connections": len(clients),
            "channels": sum(one.channels for one in clients),
        },
        "message_stats": {
            "deliver_get": sum(queue.delivered for queue in queues),
            "ack": sum(queue.finished for queue in queues),
        },
        "listeners": [],
    }


def totals(queues: list[Queue]) -> Row:
    """Return how much is in queues."""
    ready, unacked = sum(one.ready for one in queues), sum(one.unacked for one in queues)
    return {
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
    }


def nodes(call: Call) -> list[Row]:
    """Return the node."""
    return [{"name": node_name(call), "type": "disc", "running": True}]


def vhost_row(vhost: VirtualHost) -> Row:
    """Return a virtual host."""
    return {"name": vhost.name, "tracing": False, **totals(list(vhost.queues.values()))}


def queue_row(call: Call, queue: Queue) -> Row:
    """Return a queue."""
    facts = queue.facts
    return {
        "name": facts.name,
        "vhost": facts.vhost,
        "type": queue.rules.type,
        "durable": facts.durable,
        "auto_delete": facts.auto_delete,
        "exclusive": facts.exclusive,
        "arguments": facts.arguments,
        "node": node_name(call),
        "state": "running",
        "policy": None,
        "consumers": len(queue.consumers),
        **totals([queue]),
        "message_bytes_ready": queue.ready_bytes,
        "message_stats": {"deliver_get": queue.delivered, "ack": queue.finished},
    }


def exchange_row(vhost: str, exchange: Exchange) -> Row:
    """Return an exchange."""
    return {
        "name": exchange.name,
        "vhost": vhost,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
    }


def exchanges(call: Call, vhosts: list[VirtualHost] | None = None) -> list[Row]:
    """Return all exchanges, the default one first."""
    found = []
    for vhost in vhosts if vhosts is not None else call.broker.queues.vhosts.values():
        default = Exchange(name=DEFAULT, type="direct", durable=True)
        found += [exchange_row(vhost.name, one) for one in (default, *vhost.exchanges)]
    return found


def properties_key(binding: Binding) -> str:
    """Return what tells a binding from others between the same ends."""
    if not binding.arguments:
        return binding.key or NO_KEY
    digest = hashlib.sha256(msgspec.json.encode(binding.arguments, order="sorted"))
    return f"{binding.key}{NO_KEY}{digest.hexdigest()[:22]}"


def bindings(vhost: VirtualHost) -> list[Binding]:
    """Return all bindings, those of the default exchange first."""
    default = [
        Binding(source=DEFAULT, destination=name, to_queue=True, key=name) for name in vhost.queues
    ]
    return [*default, *vhost.exchanges.bindings()]


def binding_row(vhost: str, binding: Binding) -> Row:
    """Return a binding."""
    return {
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination,
        "destination_type": "queue" if binding.to_queue else "exchange",
        "routing_key": binding.key,
        "arguments": binding.arguments,
        "properties_key": properties_key(binding),
    }


def amqp_clients(call: Call) -> Iterator[ClientFacts]:
    """Yield who is connected over AMQP."""
    return (one for one in call.broker.presence if one.protocol in AMQP)


def connections(call: Call) -> list[Row]:
    """Return who is connected over AMQP."""
    return [
        {
            "name": one.id,
            "user_provided_name": one.name,
            "client_properties": {"connection_name": one.name},
            "user": one.user,
            "peer_host": one.host,
            "protocol": AMQP[one.protocol],
            "connected_at": one.connected_ms,
            "channels": one.channels,
            "state": "running",
            "node": node_name(call),
        }
        for one in amqp_clients(call)
    ]


def channels(call: Call) -> list[Row]:
    """Return the channels and sessions of those who are connected over AMQP."""
    return [
        {
            "name": f"{one.id} ({number})",
            "number": number,
            "user": one.user,
            "connection_details": {"name": one.id, "peer_host": one.host},
            "node": node_name(call),
        }
        for one in amqp_clients(call)
        for number in range(1, one.channels + 1)
    ]


def consumers(vhosts: list[VirtualHost]) -> list[Row]:
    """Return who consumes from queues."""
    return [
        {
            "consumer_tag": consumer.tag,
            "queue": {"name": queue.name, "vhost": vhost.name},
            "ack_required": not consumer.no_ack,
            "exclusive": queue.is_exclusively_consumed,
            "arguments": {"x-priority": consumer.priority} if consumer.priority else {},
            "channel_details": {"connection_name": consumer.client_id},
        }
        for vhost in vhosts
        for queue in vhost.queues.values()
        for consumer in queue.consumers
    ]


def users(call: Call) -> list[Row]:
    """Return the users that the node knows."""
    found = authenticator_of(call.request).users
    return [{"name": one.name, "tags": _tags(is_admin=one.is_admin)} for one in found]


def whoami(call: Call) -> Row:
    """Return who asks."""
    authenticator = authenticator_of(call.request)
    return {
        "name": call.principal.name,
        "tags": _tags(is_admin=authenticator.is_super(call.principal)),
    }


def _tags(*, is_admin: bool) -> list[str]:
    return ["administrator"] if is_admin else []


def permissions(call: Call) -> list[Row]:
    """Return what users may do, as patterns; what is denied to them is not in these."""
    rules = [
        rule
        for rule in call.broker.permissions.acl
        if rule.kind is Kind.TOPIC and rule.effect is Effect.ALLOW
    ]
    found = []
    for user in authenticator_of(call.request).users:
        own = [rule for rule in rules if rule.principal in (f"User:{user.name}", "User:*")]
        row = {"user": user.name, "vhost": "/"}
        for name, operations in (
            ("configure", CONFIGURE),
            ("write", (Operation.WRITE,)),
            ("read", (Operation.READ,)),
        ):
            fitting = [r for r in own if r.operation in (*operations, Operation.ALL)]
            row[name] = EVERYTHING if user.is_admin else _pattern(fitting)
        found.append(row)
    return found


def _pattern(rules: list[Any]) -> str:
    patterns = []
    for rule in rules:
        if rule.name == ANY:
            return EVERYTHING
        patterns.append(rule.name + (EVERYTHING if rule.match is Match.PREFIXED else ""))
    return f"^({'|'.join(patterns)})$" if patterns else NOTHING

"""What the topic `__queues` keeps: exchanges, queues, bindings, and how far each queue has come.

A key is a JSON array that begins with the kind of entry, a value is a JSON object; a null value
takes the entry away. The newest value of a key counts, so that the topic can be compacted.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec

from chordmq.broker import topic
from chordmq.broker.cursors.shared_cursor import Change, State
from chordmq.broker.internal_log import InternalTopic
from chordmq.broker.queues.exchanges import Binding, Exchange
from chordmq.broker.queues.queue import QueueFacts
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError


@dataclass(frozen=True, slots=True)
class Made:
    """A topic that was made for an exchange or a queue, and goes with it."""

    topic: str


class Definition(NamedTuple):
    """An exchange, queue, binding or topic; None when it is no more."""

    kind: str
    vhost: str
    identity: str
    value: Exchange | Binding | QueueFacts | Made | None


@dataclass(frozen=True, slots=True)
class Routed:
    """How far a partition is handed out to queues."""

    topic_id: bytes
    partition: int
    until: int | None
    """None when the partition is not looked at any more."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a queue still holds of a partition."""

    vhost: str
    queue: str
    topic_id: bytes
    partition: int
    start: int | None
    """None when it holds nothing."""
    changes: tuple[Change, ...] = ()


Stored = Definition | Routed | Held

EXCHANGE, QUEUE, BINDING, TOPIC = "exchange", "queue", "binding", "topic"
ROUTED, HELD = "routed", "held"
_KINDS: dict[str, Callable[..., Any]] = {
    EXCHANGE: Exchange,
    QUEUE: QueueFacts,
    BINDING: Binding,
    TOPIC: Made,
}


def exchange_entry(vhost: str, name: str, value: Exchange | None) -> Definition:
    """Return the entry of an exchange."""
    return Definition(EXCHANGE, vhost, name, value)


def ended_entry(vhost: str, exchange: Exchange, value: Exchange | None) -> Definition:
    """Return the entry of an exchange that has ended, beside one of the same name that has not."""
    return Definition(EXCHANGE, vhost, f"{exchange.name}\0{exchange.since}", value)


def queue_entry(vhost: str, name: str, value: QueueFacts | None) -> Definition:
    """Return the entry of a queue."""
    return Definition(QUEUE, vhost, name, value)


def binding_entry(vhost: str, binding: Binding, value: Binding | None) -> Definition:
    """Return the entry of a binding, which its beginning tells from others of the same way."""
    identity = [
        binding.source,
        binding.destination,
        binding.to_queue,
        binding.key,
        binding.since,
    ]
    return Definition(BINDING, vhost, msgspec.json.encode(identity).decode(), value)


def topic_entry(name: str, value: Made | None) -> Definition:
    """Return the entry of a topic that was made for queues."""
    return Definition(TOPIC, "", name, value)


def write(entry: Stored) -> tuple[bytes, bytes | None]:
    """Return the key and the value that store an entry."""
    if isinstance(entry, Definition):
        key: list[Any] = [entry.kind, entry.vhost, entry.identity]
        value: Any = None if entry.value is None else asdict(entry.value)
    elif isinstance(entry, Routed):
        key = [ROUTED, entry.topic_id.hex(), entry.partition]
        value = None if entry.until is None else {"until": entry.until}
    else:
        key = [HELD, entry.vhost, entry.queue, entry.topic_id.hex(), entry.partition]
        value = None if entry.start is None else {"start": entry.start, "changes": entry.changes}
    return msgspec.json.encode(key), None if value is None else msgspec.json.encode(value)


def read(key: bytes, value: bytes | None) -> Stored | None:
    """Return what the bytes store, or None for a kind that is not known."""
    try:
        kind, *rest = msgspec.json.decode(key)
        fields = None if value is None else msgspec.json.decode(value)
        if kind in _KINDS:
            vhost, identity = rest
            made = None if fields is None else _KINDS[kind](**fields)
            return Definition(kind, vhost, identity, made)
        if kind == ROUTED:
            return Routed(bytes.fromhex(rest[0]), rest[1], fields and fields["until"])
        if kind == HELD:
            return _held(rest, fields)
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, IndexError) as error:
        raise DecodeError(f"an entry of the queues cannot be read: {error}") from error
    return None


def _held(rest: list[Any], fields: Any) -> Held:
    vhost, queue, topic_id, partition = rest
    if fields is None:
        return Held(vhost, queue, bytes.fromhex(topic_id), partition, None)
    changes = tuple(
        Change(first, last, State(state), deliveries)
        for first, last, state, deliveries in fields["changes"]
    )
    return Held(vhost, queue, bytes.fromhex(topic_id), partition, fields["start"], changes)


QUEUES_TOPIC: InternalTopic[Stored] = InternalTopic(
    name=topic.QUEUES_TOPIC,
    settings={
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(50 * 2**20),
        "max.message.bytes": str(100 * 2**20),
    },
    # One, so that one flush serves all queues, and what belongs together is read in its order.
    partitions=lambda settings: 1,
    write=write,
    read=read,
)

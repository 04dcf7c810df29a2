"""What RabbitMQ's management API changes: declare, bind, delete, publish and get."""

import base64
import binascii
from typing import Any

import msgspec

from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.exchanges import (
    ALTERNATE,
    DEFAULT,
    PREDECLARED,
    TYPES,
    Binding,
    Exchange,
)
from chordmq.broker.queues.plans import make_plan
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.queues.virtual_host import VirtualHost, check_name
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.users import Users
from chordmq.codecs.amqp.content import Envelope, from_names, to_names
from chordmq.errors import DecodeError, InvalidRequest, UnknownExchange
from chordmq.fronts.admin.call import Call, read_json
from chordmq.fronts.admin.management.views import Row, binding_row, properties_key
from chordmq.records.record import NewRecord

DEFAULT_NAME = "amq.default"
COUNT_MAX = 10_000
ALIVE = "aliveness-test"

Arguments = dict[str, Any]


class ExchangeBody(msgspec.Struct, frozen=True):
    """An exchange to declare."""

    type: str = "direct"
    durable: bool | str = True
    auto_delete: bool | str = False
    internal: bool | str = False
    arguments: Arguments = {}


class QueueBody(msgspec.Struct, frozen=True):
    """A queue to declare."""

    durable: bool | str = True
    auto_delete: bool | str = False
    arguments: Arguments = {}


class BindingBody(msgspec.Struct, frozen=True):
    """A binding to make."""

    routing_key: str = ""
    arguments: Arguments = {}


class PublishBody(msgspec.Struct, frozen=True):
    """A message to publish."""

    routing_key: str
    payload: str
    payload_encoding: str = "string"
    properties: dict[str, Any] | list[Any] = {}


class GetBody(msgspec.Struct, frozen=True):
    """Messages to get."""

    count: int | str = 1
    ackmode: str = "ack_requeue_true"
    encoding: str = "auto"
    truncate: int | str | None = None


class UserBody(msgspec.Struct, frozen=True):
    """A user to add or to change."""

    password: str | None = None
    tags: str | list[str] = ""


class Definitions(msgspec.Struct, frozen=True):
    """Everything that was declared."""

    exchanges: list[dict[str, Any]] = []
    queues: list[dict[str, Any]] = []
    bindings: list[dict[str, Any]] = []


def is_true(value: bool | str) -> bool:
    """Return a truth, which rabbitmqadmin writes as a text."""
    return value is True or value == "true"


def check(call: Call, vhost: VirtualHost, operation: Operation, name: str) -> None:
    """Raise TopicAccessDenied unless the client may do this with an exchange or queue."""
    call.check(operation, Kind.TOPIC, vhost.topic_if_known(name))


async def body_of(call: Call, kind: type[Any]) -> Any:
    """Return the body of a request, whose media type RabbitMQ's tools do not always name."""
    return read_json(await call.octets() or b"{}", kind)


async def declare_exchange(call: Call, vhost: VirtualHost, name: str, body: ExchangeBody) -> None:
    """Make an exchange, or see that it is there as wanted."""
    if body.type not in TYPES:
        raise InvalidRequest(f"invalid exchange type '{body.type}'")
    if name == DEFAULT or (name.startswith("amq.") and name not in PREDECLARED):
        check_name(name or "amq.", "exchange")
    if vhost.exchanges.find(name) is None:
        check(call, vhost, Operation.CREATE, name)
        target = body.arguments.get(ALTERNATE)
        if isinstance(target, str) and target:
            check(call, vhost, Operation.WRITE, target)
    wanted = Exchange(
        name=name,
        type=body.type,
        durable=is_true(body.durable),
        auto_delete=is_true(body.auto_delete),
        internal=is_true(body.internal),
        arguments=body.arguments,
    )
    await call.broker.queues.declare_exchange(vhost, wanted)


async def delete_exchange(call: Call, vhost: VirtualHost, name: str, *, if_unused: bool) -> None:
    """Remove an exchange."""
    if name == DEFAULT or name in PREDECLARED:
        raise InvalidRequest(f"exchange '{name}' is the broker's own")
    vhost.exchange(name)
    check(call, vhost, Operation.DELETE, name)
    await call.broker.queues.delete_exchange(vhost, name, if_unused=if_unused)


async def declare_queue(call: Call, vhost: VirtualHost, name: str, body: QueueBody) -> None:
    """Make a queue, or see that it is there as wanted."""
    if name not in vhost.queues:
        check_name(name, "queue")
        check(call, vhost, Operation.CREATE, name)
        target = body.arguments.get("x-dead-letter-exchange")
        if isinstance(target, str) and target:
            check(call, vhost, Operation.WRITE, target)
    wanted = QueueFacts(
        vhost=vhost.name,
        name=name,
        durable=is_true(body.durable),
        auto_delete=is_true(body.auto_delete),
        arguments=body.arguments,
    )
    await call.broker.queues.declare_queue(vhost, wanted, None)


async def delete_queue(
    call: Call, vhost: VirtualHost, name: str, *, if_unused: bool, if_empty: bool
) -> None:
    """Remove a queue with its messages."""
    queue = vhost.queue(name)
    check(call, vhost, Operation.DELETE, name)
    await call.broker.queues.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)


def purge(call: Call, vhost: VirtualHost, name: str) -> None:
    """Take all that waits in a queue as done."""
    check(call, vhost, Operation.READ, name)
    vhost.queue(name).purge()


async def bind(call: Call, vhost: VirtualHost, wanted: Binding) -> Row:
    """Lead messages from an exchange to a queue or another exchange."""
    if wanted.source == DEFAULT:
        raise InvalidRequest("the default exchange cannot be bound")
    vhost.exchange(wanted.source)
    if wanted.to_queue:
        vhost.queue(wanted.destination)
    else:
        vhost.exchange(wanted.destination)
    check(call, vhost, Operation.READ, wanted.source)
    check(call, vhost, Operation.WRITE, wanted.destination)
    await call.broker.queues.bind(vhost, wanted)
    return binding_row(vhost.name, wanted)


async def unbind(call: Call, vhost: VirtualHost, ends: tuple[str, str, bool], key: str) -> None:
    """End the binding between two ends that has such a key."""
    source, destination, to_queue = ends
    for one in vhost.exchanges.bindings_from(source):
        if (one.destination, one.to_queue, properties_key(one)) == (destination, to_queue, key):
            check(call, vhost, Operation.READ, source)
            check(call, vhost, Operation.WRITE, destination)
            await call.broker.queues.unbind(vhost, one)
            return
    raise UnknownExchange(f"no binding {key!r} leads from '{source}' to '{destination}'")


async def publish(call: Call, vhost: VirtualHost, exchange: str, body: PublishBody) -> Row:
    """Publish a message, and say whether a queue gets it."""
    call.request.state.is_traffic = True
    try:
        # An empty set of properties is a list, as PHP and rabbitmqadmin write it.
        properties = from_names(body.properties if isinstance(body.properties, dict) else {})
        payload = body.payload.encode()
        if body.payload_encoding == "base64":
            payload = base64.b64decode(payload, validate=True)
    except (DecodeError, binascii.Error) as error:
        raise InvalidRequest(str(error)) from None
    name = DEFAULT if exchange == DEFAULT_NAME else exchange
    envelope = Envelope(vhost.name, name, body.routing_key, properties)
    publishing = call.broker.queues.publishing

    def may_write(topic: str) -> None:
        call.check(Operation.WRITE, Kind.TOPIC, topic)

    now_ms = call.broker.clock.now_ms()
    plan = await make_plan(publishing, vhost, envelope, may_write, now_ms)
    if plan.partition is not None and plan.is_routed:
        record = NewRecord(plan.time_ms, plan.key, payload, plan.headers)
        call.meter.produced += len(payload)
        await publishing.appends.append(plan.partition, [record])
    return {"routed": plan.is_routed}


async def get(call: Call, vhost: VirtualHost, name: str, body: GetBody) -> list[Row]:
    """Give the next messages of a queue, and settle them or put them back."""
    call.request.state.is_traffic = True
    check(call, vhost, Operation.READ, name)
    queue = vhost.queue(name)
    call.broker.queues.used(queue)
    taken: list[Entry] = []
    rows: list[Row] = []
    for _ in range(min(_number(body.count), COUNT_MAX)):
        entry = queue.get()
        if entry is None:
            break
        taken.append(entry)
        rows.append(_message(queue, entry, body))
    if body.ackmode.endswith("requeue_true"):
        queue.requeue(taken)
    elif body.ackmode == "reject_requeue_false":
        for entry in taken:
            queue.reject(entry)
    else:
        for entry in taken:
            queue.finish(entry)
    return rows


def _number(value: int | str | None) -> int:
    if isinstance(value, str) and not value.isdigit():
        raise InvalidRequest(f"{value[:40]!r} is no number")
    return int(value or 0)


def _message(queue: Queue, entry: Entry, body: GetBody) -> Row:
    data = entry.body or b""
    shown = data[: _number(body.truncate)] if body.truncate else data
    encoding = "base64"
    text = base64.b64encode(shown).decode()
    if body.encoding == "auto":
        try:
            text, encoding = shown.decode(), "string"
        except UnicodeDecodeError:
            pass
    return {
        "payload": text,
        "payload_bytes": len(data),
        "payload_encoding": encoding,
        "redelivered": entry.deliveries > 1,
        "exchange": entry.envelope.exchange,
        "routing_key": entry.envelope.key,
        "message_count": queue.ready,
        "properties": to_names(entry.envelope.properties),
    }


async def put_user(users: Users, name: str, body: UserBody) -> None:
    """Add a user, or change password and tags."""
    tags = body.tags.split(",") if isinstance(body.tags, str) else body.tags
    is_admin = "administrator" in tags
    if users.find(name) is None:
        await users.add(name, body.password, is_admin=is_admin)
        return
    if body.password is not None:
        await users.set_password(name, body.password)
    await users.set_admin(name, is_admin)


async def is_alive(call: Call, vhost: VirtualHost) -> Row:
    """Send a message through a queue, and say whether it arrives."""
    await declare_queue(call, vhost, ALIVE, QueueBody())
    await publish(call, vhost, DEFAULT_NAME, PublishBody(ALIVE, "test_message"))
    found = await get(call, vhost, ALIVE, GetBody(ackmode="ack_requeue_false"))
    return {"status": "ok" if found else "failed"}


async def load(call: Call, vhosts: dict[str, VirtualHost], body: Definitions) -> None:
    """Declare everything that a file of definitions names."""
    try:
        for row in body.exchanges:
            made = msgspec.convert(row, ExchangeBody)
            await declare_exchange(call, vhosts[row["vhost"]], row["name"], made)
        for row in body.queues:
            queue = msgspec.convert(row, QueueBody)
            await declare_queue(call, vhosts[row["vhost"]], row["name"], queue)
        for row in body.bindings:
            wanted = Binding(
                source=row["source"],
                destination=row["destination"],
                to_queue=row.get("destination_type", "queue") == "queue",
                key=row.get("routing_key", ""),
                arguments=row.get("arguments", {}),
            )
            await bind(call, vhosts[row["vhost"]], wanted)
    except (KeyError, msgspec.ValidationError) as error:
        raise InvalidRequest(f"the definitions: {error}") from None

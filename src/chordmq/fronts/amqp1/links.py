"""Opens links: what a client attaches to, whether it is there, and whether the client may."""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chordmq.broker.queues.exchanges import Binding
from chordmq.broker.queues.places import filter_of_pattern
from chordmq.broker.queues.plans import make_plan
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.broker.queues.streams import Stream
from chordmq.broker.queues.virtual_host import HIERARCHICAL
from chordmq.broker.security.acl import ANY, Kind, Operation
from chordmq.broker.topic import Topic
from chordmq.codecs.amqp.content import Envelope, new_properties
from chordmq.codecs.amqp1.composites import (
    RECEIVER,
    SENDER,
    SETTLED,
    Attach,
    Coordinator,
    Source,
    Target,
)
from chordmq.codecs.amqp1.values import Described, Symbol
from chordmq.errors import UnknownTopic
from chordmq.fronts.amqp1.addresses import QUEUES, Address, Place, read_address
from chordmq.fronts.amqp1.errors import (
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    LinkFault,
)
from chordmq.fronts.amqp1.reading import OFFSET_FILTER, KeptPlace, TopicLink, start_of
from chordmq.fronts.amqp1.receiving import Incoming
from chordmq.fronts.amqp1.sending import QueueLink
from chordmq.fronts.amqp1.transactions import Controller

if TYPE_CHECKING:
    from chordmq.fronts.amqp1.connection import Amqp1Connection
    from chordmq.fronts.amqp1.session import Link, Session

QUEUE = "queue"
"""The capability of a source or target that is to be a queue."""
NEVER = "never"
UNSETTLED_STATE = 2
"""The durability of a terminus that is kept with what is not settled."""
COPY = "copy"
LOCAL_TRANSACTIONS = "amqp:local-transactions"
CHOICES = {
    0x468C00000003: "no-local",
    "apache.org:no-local-filter:list": "no-local",
    0x468C00000004: "selector",
    "apache.org:selector-filter:string": "selector",
}
"""Filters that JMS relies on without looking whether they are in force."""
PRIORITY = "rabbitmq:priority"
OUTCOMES = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)


async def open_incoming(session: "Session", attach: Attach) -> "Link":
    """Let a client send to its target."""
    target = attach.target
    if target is None:
        raise LinkFault(INVALID_FIELD, "a link needs a target")
    if isinstance(target, Coordinator):
        return _control(session, attach)
    connection = session.connection
    if target.dynamic:
        queue = await declare_own(connection)
        target = replace(target, address=QUEUES + queue.name)
    address = None
    if target.address is not None:
        address = read_address(target.address)
        await prepare(connection, address, target.capabilities or ())
    link = Incoming(session, attach.handle, address)
    size_max = connection.front.limits.message_size_max
    session.send(_received(attach, target, size_max))
    link.refill()
    return link


def _control(session: "Session", attach: Attach) -> Controller:
    """Let a client begin and end transactions."""
    session.send(_received(attach, Coordinator(capabilities=(Symbol(LOCAL_TRANSACTIONS),))))
    link = Controller(session, attach.handle)
    link.grant()
    return link


def _received(
    attach: Attach, target: Target | Coordinator, max_message_size: int | None = None
) -> Attach:
    """Return our end of a link on which the client sends."""
    return Attach(
        link_name=attach.link_name,
        handle=attach.handle,
        role=RECEIVER,
        snd_settle_mode=attach.snd_settle_mode,
        source=attach.source,
        target=target,
        max_message_size=max_message_size,
    )


async def prepare(
    connection: "Amqp1Connection", address: Address, capabilities: tuple[str, ...]
) -> None:
    """Make what a client sends to if that is for the node to do; raise if it may not."""
    if address.place is Place.NAME and QUEUE in capabilities:
        await declare(connection, address.key)
    await connection.check_target(address)
    vhost, queues = connection.vhost, connection.front.queues
    envelope = Envelope(vhost.name, address.exchange, address.key, new_properties({}, 0))
    await make_plan(queues.publishing, vhost, envelope, connection.check_publish, 0)


async def open_outgoing(session: "Session", attach: Attach) -> "Link":
    """Let a client have the messages of its source."""
    source, connection = attach.source, session.connection
    if source is None:
        return await _look_up(session, attach)
    _check_choices(source)
    queue: Queue | None = None
    if source.dynamic:
        queue = await declare_own(connection)
        source = replace(source, address=QUEUES + queue.name)
    address = read_address(source.address)
    if queue is None:
        queue = await _queue_of(connection, address, source)
    if queue is not None and source.distribution_mode == COPY:
        raise LinkFault(NOT_IMPLEMENTED, "queues cannot be browsed")
    link: QueueLink | TopicLink
    if queue is not None:
        link = _consume(session, attach, queue)
        source.filter = None
    else:
        link = await _read(session, attach, source, address)
        source.filter = {
            name: value for name, value in (source.filter or {}).items() if name == OFFSET_FILTER
        } or None
    source.outcomes, source.distribution_mode = OUTCOMES, None
    session.send(
        Attach(
            link_name=attach.link_name,
            handle=attach.handle,
            role=SENDER,
            snd_settle_mode=attach.snd_settle_mode,
            source=source,
            target=attach.target,
            initial_delivery_count=0,
            max_message_size=connection.front.limits.message_size_max,
        )
    )
    return link


def _check_choices(source: Source) -> None:
    """Refuse what would give a client messages that it does not want, and believes excluded."""
    for value in (source.filter or {}).values():
        name = CHOICES.get(value.descriptor) if isinstance(value, Described) else None
        if name is not None:
            raise LinkFault(NOT_IMPLEMENTED, f"messages cannot be chosen by a {name} filter")


async def _queue_of(
    connection: "Amqp1Connection", address: Address, source: Source
) -> Queue | None:
    """Return the queue that a source names; None if it is a topic, as a stream is."""
    vhost = connection.vhost
    if address.place is Place.EXCHANGE:
        raise LinkFault(NOT_ALLOWED, "messages come from queues and topics; bind a queue to it")
    if address.place is Place.LEVELS:
        return await _subscribe(connection, address)
    if address.place is Place.NAME and address.key not in vhost.queues:
        if QUEUE not in (source.capabilities or ()):
            return None
        return await declare(connection, address.key)
    queue = vhost.queue(address.key, connection)
    return None if isinstance(queue, Stream) else queue


def _consume(session: "Session", attach: Attach, queue: Queue) -> QueueLink:
    connection, source = session.connection, attach.source
    connection.check(Operation.READ, connection.vhost.topic_if_known(queue.name))
    priority = (attach.properties or {}).get(PRIORITY, 0)
    if not isinstance(priority, int):
        raise LinkFault(INVALID_FIELD, f"{PRIORITY} is a number")
    is_settled = attach.snd_settle_mode == SETTLED
    link = QueueLink(session, attach.handle, queue, settled=is_settled, priority=priority)
    link.tag = attach.link_name
    link.default_outcome = source.default_outcome if source is not None else None
    connection.front.queues.consume(queue, link, exclusive=False)
    return link


async def _read(session: "Session", attach: Attach, source: Source, address: Address) -> TopicLink:
    """Let a client read a topic from a place of its own."""
    connection = session.connection
    topic = await connection.topic(address.key, Operation.READ)
    is_settled = attach.snd_settle_mode == SETTLED
    offsets = await start_of(connection.front.broker.bounds, topic, source.filter)
    group = ""
    if source.durable or source.expiry_policy == NEVER:
        group = group_of(connection, attach)
        committed = await connection.front.broker.group_reach.committed(group)
        for (name, index), offset in committed.items():
            if name == topic.name and index in offsets:
                offsets[index] = offset
    link = TopicLink(session, attach.handle, topic, offsets, settled=is_settled)
    if group:
        link.group = group
        await link.commit()  # what comes while the client is away is for it
    return link


async def _look_up(session: "Session", attach: Attach) -> KeptPlace:
    """Tell a client that names no source where its durable link of this name is."""
    connection = session.connection
    group = group_of(connection, attach)
    committed = await connection.front.broker.group_reach.committed(group)
    if not committed:
        raise LinkFault(NOT_FOUND, f"no place is kept for {attach.link_name!r:.100}")
    topic = next(iter(committed))[0]
    source = Source(address=topic, durable=UNSETTLED_STATE, expiry_policy=NEVER)
    session.send(
        Attach(
            link_name=attach.link_name,
            handle=attach.handle,
            role=SENDER,
            source=source,
            target=attach.target,
            initial_delivery_count=0,
        )
    )
    return KeptPlace(connection.front.broker.group_reach, group)


def group_of(connection: "Amqp1Connection", attach: Attach) -> str:
    """Return the group whose committed offsets are the place of a durable link."""
    group = f"{connection.container}:{attach.link_name}"
    connection.check(Operation.READ, group, Kind.GROUP)
    return group


async def find_topic(connection: "Amqp1Connection", name: str, operation: Operation) -> Topic:
    """Return a topic that a client may use; make it if topics are made on first use."""
    broker, full = connection.front.broker, connection.vhost.topic_if_known(name)
    connection.check(operation, full)
    topic = broker.topics.find(full)
    if topic is None:
        if not broker.settings.auto_create_topics_enable:
            raise UnknownTopic(f"there is neither a queue nor a topic {name!r}")
        connection.check(Operation.CREATE, full)
        topic = await broker.topics.ensure(full)
    if topic.is_internal:
        raise UnknownTopic(f"{name} is the node's own")
    return topic


async def declare(connection: "Amqp1Connection", name: str) -> Queue:
    """Return a durable queue; make it if it is not there."""
    vhost = connection.vhost
    if name not in vhost.queues:
        connection.check(Operation.CREATE, vhost.topic_if_known(name))
        wanted = QueueFacts(vhost=vhost.name, name=name, durable=True)
        return await connection.front.queues.declare_queue(vhost, wanted, connection)
    return vhost.queue(name, connection)


async def declare_own(connection: "Amqp1Connection") -> Queue:
    """Make a queue that goes with the connection."""
    vhost, name = connection.vhost, f"amq.gen-{secrets.token_urlsafe(16)}"
    wanted = QueueFacts(vhost=vhost.name, name=name, exclusive=True, auto_delete=True)
    return await connection.front.queues.declare_queue(vhost, wanted, connection)


async def _subscribe(connection: "Amqp1Connection", address: Address) -> Queue:
    """Make a queue of the client's own that gets what has names with such levels."""
    pattern, queues = address.pattern, connection.front.queues
    wanted = filter_of_pattern(pattern).split("/")[:2]
    if "#" in wanted or "+" in wanted or len(wanted) < 2:
        connection.check(Operation.READ, ANY)
    else:
        topic = queues.publishing.names.destination("/".join(wanted)).topic
        connection.check(Operation.READ, topic)
    queue = await declare_own(connection)
    binding = Binding(
        source=HIERARCHICAL, destination=queue.name, to_queue=True, key=pattern, arguments={}
    )
    await queues.bind(connection.vhost, binding)
    return queue


def capabilities() -> tuple[Any, ...]:
    """Return what this node can do beyond the specification."""
    return (Symbol("ANONYMOUS-RELAY"),)

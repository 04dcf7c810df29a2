"""What clients subscribe to: filters of their own, and their parts in groups."""

from typing import TYPE_CHECKING

from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.names import literal_topic
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.subscriptions import check_filter, matches
from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.errors import ProtocolError
from chordmq.codecs.mqtt.packets import Subscribe, Unsubscribe
from chordmq.codecs.mqtt.reasons import Reason
from chordmq.errors import ChordMQError, PolicyViolation, TopicAccessDenied
from chordmq.fronts.mqtt import sys_topics
from chordmq.fronts.mqtt.errors import SUBSCRIBE_REASONS, reason_of
from chordmq.fronts.mqtt.groups import QUEUE, READ_APART, SHARE, STREAM, parsed
from chordmq.fronts.mqtt.mapping import parcel_of_retained
from chordmq.fronts.mqtt.rules import Action, Verdict
from chordmq.fronts.mqtt.session import Session
from chordmq.fronts.mqtt.shared import SharedReader
from chordmq.fronts.mqtt.streams import StreamReader, start_of
from chordmq.fronts.mqtt.subscriptions import FULL, Subscription, Target

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection
    from chordmq.fronts.mqtt.front import MqttFront

NEVER, IF_NEW = 2, 1
"""When a subscriber gets retained messages; otherwise each time it subscribes."""


async def subscribe(connection: "MqttConnection", session: Session, packet: Subscribe) -> None:
    """Take filters that a client asks for, and answer for each."""
    front = connection.front
    identifier = packet.properties.subscription_ids[0] if packet.properties.subscription_ids else 0
    reasons: list[int] = []
    retained: list[Subscription] = []
    faults: list[str] = []
    for wanted, options in packet.filters:
        one = Subscription(session, wanted, options, identifier, packet.properties.user)
        try:
            is_new = await add(front, one)
        except ChordMQError as error:
            reasons.append(_refusal(front, error))
            faults.append(str(error))
            continue
        reasons.append(options.qos)
        is_wanted = options.retain_handling != NEVER and (
            is_new or options.retain_handling != IF_NEW
        )
        if is_wanted and not wanted.startswith(READ_APART):
            retained.append(one)
    if session.is_durable:
        await front.broker.sessions.store(session.stored(), session.progress())
    if retained:
        await front.broker.retained.catch_up()
    properties = connection.because("; ".join(faults))
    connection.send(writer.suback(packet.id, reasons, connection.version, properties))
    for one in retained:
        _send_retained(front, one)
    front.audit(session, "subscribe", ", ".join(wanted for wanted, _ in packet.filters))


def _refusal(front: "MqttFront", error: ChordMQError) -> Reason:
    reason = reason_of(error, SUBSCRIBE_REASONS)
    is_hidden = front.settings.subscribe_denied == "unspecified"
    if reason is Reason.NOT_AUTHORIZED and is_hidden:
        return Reason.UNSPECIFIED_ERROR
    return reason


async def add(front: "MqttFront", one: Subscription) -> bool:
    """Take one filter, and return whether it is new; raise why it is refused."""
    session = one.session
    count = len(session.subscriptions) + len(session.shared)
    is_known = one.filter in session.subscriptions or one.filter in session.shared
    if count >= front.settings.subscriptions_max and not is_known:
        raise PolicyViolation(f"{count} subscriptions, which is mqtt.subscriptions_max")
    if one.options.no_local and one.filter.startswith((SHARE, QUEUE)):  # MQTT-3.8.3-4
        raise ProtocolError("a shared subscription cannot be without its own messages")
    if one.filter.startswith(READ_APART):
        await join(front, one)
        return not is_known
    check_filter(one.filter)
    _check_allowed(front, one, one.filter)
    if not is_known:
        await front.reach(one.filter)
    return session.subscribe(one)


def _check_allowed(front: "MqttFront", one: Subscription, wanted: str) -> None:
    """Raise TopicAccessDenied for what a client may not subscribe to."""
    session = one.session
    who = session.principal.name
    verdict = front.rules.judge(Action.SUBSCRIBE, wanted, who, session.client_id)
    one.is_granted = verdict is Verdict.ALLOWED
    if verdict is Verdict.DENIED:
        raise TopicAccessDenied(f"User:{who} may not subscribe to {wanted[:100]}")
    permissions = front.broker.permissions
    if one.is_granted or not permissions.is_enforced:
        return
    if wanted.startswith(sys_topics.PREFIX):
        permissions.acl.check(
            session.principal, session.host, Operation.DESCRIBE, Kind.CLUSTER, CLUSTER_NAME
        )
        one.is_granted = True
        return
    # Of what a filter finds, the client gets what it may read: there must be something.
    log_topic = literal_topic(wanted)
    ruled = front.names.ruled(wanted)
    if log_topic is None or ruled:
        if any(map(session.may_read, ruled)) or permissions.acl.allows_any(
            session.principal, session.host, Operation.READ, Kind.TOPIC
        ):
            return
        raise TopicAccessDenied(f"User:{who} may read nothing of {wanted[:100]}")
    permissions.acl.check(session.principal, session.host, Operation.READ, Kind.TOPIC, log_topic)


async def join(front: "MqttFront", one: Subscription) -> None:
    """Take a client's part in a group, or a stream of its own."""
    kind, name, wanted = parsed(one.filter)
    if wanted:
        check_filter(wanted)
    _check_allowed(front, one, wanted or name)
    log_topic = name if kind == STREAM or not wanted else ""
    reader: SharedReader | StreamReader
    if kind == STREAM:
        reader = StreamReader(front, one, (log_topic, wanted))
    else:
        front.groups.note(one.filter, log_topic, wanted)
        reader = SharedReader(front, one, one.filter, (log_topic, wanted))
    is_whole = kind != SHARE and start_of(one.user) == "earliest"
    await reader.open(EARLIEST if is_whole else LATEST)
    old = one.session.shared.get(one.filter)
    if old is not None:
        old.close()
    one.session.shared[one.filter] = reader
    one.session.note_subscriptions()
    reader.wake()


def _send_retained(front: "MqttFront", one: Subscription) -> None:
    """Send what was kept of the names that a filter matches."""
    now_ms = front.now_ms()
    options = one.options
    identifiers = (one.identifier,) if one.identifier else ()
    target = Target(one.session, options.qos, identifiers, False, True, FULL in one.user)
    if one.filter.startswith(sys_topics.PREFIX):
        for parcel in sys_topics.parcels(front):
            if matches(one.filter, parcel.name):
                one.session.outbox.offer(parcel, target)
    for message in list(front.broker.retained.tree.matching(one.filter)):
        if message.expires_ms is not None and message.expires_ms <= now_ms:
            continue
        log_topic = front.log_topic(message.name)
        if one.session.may_get(message.name, log_topic, is_granted=one.is_granted):
            one.session.outbox.offer(parcel_of_retained(message), target)


async def unsubscribe(connection: "MqttConnection", session: Session, packet: Unsubscribe) -> None:
    """Drop filters that a client wants no more, and answer for each."""
    reasons = []
    for wanted in packet.filters:
        reader = session.shared.pop(wanted, None)
        if reader is not None:
            reader.close()
            session.note_subscriptions()
        was_there = reader is not None or session.unsubscribe(wanted)
        reasons.append(Reason.SUCCESS if was_there else Reason.NO_SUBSCRIPTION_EXISTED)
    if session.is_durable:
        await connection.front.broker.sessions.store(session.stored())
    connection.send(writer.unsuback(packet.id, reasons, connection.version))

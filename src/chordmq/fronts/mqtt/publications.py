"""What clients publish, on its way into the log: where it goes, who may, and what is answered."""

from functools import partial
from typing import TYPE_CHECKING

from chordmq.broker.names import NAME_HEADER
from chordmq.broker.retained import Retained
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.sessions import Arrival
from chordmq.broker.topic import INTERNAL_TOPICS
from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.errors import ProtocolError
from chordmq.codecs.mqtt.packets import V5, Publish, Run, Will
from chordmq.codecs.mqtt.properties import NONE
from chordmq.codecs.mqtt.reasons import Reason
from chordmq.errors import ChordMQError, PolicyViolation, TopicAccessDenied, UnknownTopic
from chordmq.fronts.mqtt.answers import Answer, refusal
from chordmq.fronts.mqtt.appends import RECORD_OVERHEAD_MAX, Done, Share, Told, Unit
from chordmq.fronts.mqtt.letters import Letter
from chordmq.fronts.mqtt.mapping import EXPIRES, RETAIN, Extras, Parcel, extras_of, sender_of
from chordmq.fronts.mqtt.rules import Action, Verdict
from chordmq.fronts.mqtt.session import Session
from chordmq.fronts.mqtt.sparkplug import certify
from chordmq.fronts.mqtt.wills import message_of
from chordmq.records.record import AlikeRecords, build_batch, prepare_headers, prepare_key

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection
    from chordmq.fronts.mqtt.front import MqttFront, Route
    from chordmq.fronts.mqtt.handlers import Work

MESSAGE_COST = 1_000
"""Bytes that a message with properties takes besides its payload while it is stored."""
ROUTES_MAX = 10_000
"""Topics that are remembered for one client."""
_new = tuple.__new__  # half the time of calling the class
RESERVED = ("$SYS/", "$share/", "$queue/", "$stream/", "$sparkplug/")


def publish_alone(connection: "MqttConnection", topic: bytes, message: tuple[bytes, bytes]) -> bool:
    """Take one message of QoS 1 that has nothing special: its number and its payload.

    Return False if it has to go another way: it is the first to its topic, for instance.
    """
    session, route = connection.session, connection.routes.get(topic)
    if session is None or route is None or session.hides_own:
        return False
    front = connection.front
    letter = Letter(connection, session.client_id, route, message)
    connection.take(letter)
    front.messages_in += 1
    front.appends.post(letter)
    if front.broker.audit.sample:
        front.audit(session, "publish", f"1 to {route.name}")
    if route.certificate:
        certify(front, route, letter.payload, 1)
    return True


def publish_run(connection: "MqttConnection", session: Session, route: "Route", run: Run) -> None:
    """Take messages that have nothing special, many at once."""
    front, count, ids = connection.front, len(run.payloads), run.ids
    if len(ids) == 1 and publish_alone(connection, run.topic, (ids[0], run.payloads[0])):
        return
    receipt = Receipt(connection, session.client_id, run, run.size + route.overhead * count)
    if ids:
        connection.take(receipt)
    else:
        connection.storing(receipt.size)
    front.messages_in += count
    qos, version = (1, 0) if ids else (0, connection.version)
    unit = None if session.hides_own else front.appends.alike(route, qos, version)
    if unit is not None:
        unit.join(run, receipt)
    else:
        unit = _unit_of_run(session, route, run, receipt, front.appends.now_ms())
        unit.parcel.version = version
        front.appends.add(route.partition, unit)
    if front.broker.audit.sample:
        front.audit(session, "publish", f"{count} to {route.name}")
    if route.certificate:
        for payload in run.payloads:
            certify(front, route, payload, qos)


def _unit_of_run(
    session: Session, route: "Route", run: Run, receipt: "Receipt", now_ms: int
) -> Unit:
    qos = run.qos
    shares: list[Share] = [receipt]
    headers, prepared = route.headers(qos)
    if session.hides_own:
        headers += sender_of(session.client_id)
        prepared = prepare_headers(headers)
    parcel = Parcel(route.name, route.topic, run.payloads, qos)
    parcel.key, parcel.timestamp_ms = route.key, now_ms
    parcel.sender, parcel.shares = session.client_id, shares
    if not qos:
        parcel.packets = [run.raw]
    records = _new(AlikeRecords, (route.prepared_key, prepared, run.payloads, 0))
    joinable = None if session.hides_own else route
    return Unit(parcel, records, headers, receipt.size, shares, joinable)


class Receipt(Answer):
    """One client's run of messages, and what it waits for: word that they are stored."""

    __slots__ = ("_connection", "count", "ids", "sender", "size")

    def __init__(self, connection: "MqttConnection", sender: str, run: Run, size: int) -> None:
        self.data = None
        self.sender = sender
        self.count = len(run.payloads)
        self.size = size
        self.ids = run.ids
        self._connection = connection

    def stored(self, error: ChordMQError | None) -> None:
        """Answer; with QoS 0 nobody waits for that."""
        connection, ids = self._connection, self.ids
        del self._connection  # the message may wait for a subscriber, and has this with it
        if not ids:
            connection.stored(self.size)
            if error is not None:
                connection.front.refused += self.count
            return
        if error is None:
            self.data = writer.pubacks(ids)
        else:
            numbers = [int.from_bytes(number, "big") for number in ids]
            refusals = [refusal(connection, kinds.PUBACK, one, error) for one in numbers]
            self.data = b"".join(refusals)
        connection.settled(self)


def take_run(connection: "MqttConnection", session: Session, run: Run) -> "Work | None":
    """Take messages to a topic that the client has not published to lately."""
    try:
        route = _known_route(connection, session, run.topic, run.name)
    except ChordMQError as error:
        _refuse_run(connection, run, error)
        return None
    if route is None:
        return _create_for_run(connection, session, run)
    publish_run(connection, session, route, run)
    return None


async def _create_for_run(connection: "MqttConnection", session: Session, run: Run) -> None:
    try:
        route = await find_route(connection.front, session, run.topic, run.name)
    except ChordMQError as error:
        _refuse_run(connection, run, error)
        return
    publish_run(connection, session, route, run)


def _refuse_run(connection: "MqttConnection", run: Run, error: ChordMQError) -> None:
    connection.front.refused += len(run.payloads)
    if run.ids:
        receipt = Receipt(connection, "", run, 0)
        connection.take(receipt)
        receipt.stored(error)
    elif connection.version != V5 and not isinstance(error, TopicAccessDenied):
        connection.fail(error)


def _known_route(
    connection: "MqttConnection", session: Session, topic: bytes, name: str
) -> "Route | None":
    """Return where a client's messages go; None if the log topic is not there yet."""
    route = connection.routes.get(topic)
    if route is None:
        route = _check_route(connection.front, session, topic, name)
        if route is not None:
            if len(connection.routes) >= ROUTES_MAX:
                connection.routes.clear()
            connection.routes[topic] = route
    return route


def _check_route(front: "MqttFront", session: Session, topic: bytes, name: str) -> "Route | None":
    """Return where a client's messages go, if they may; raise why not."""
    found = front.destination(name)
    log_topic = found.topic
    if _verdict(front, session, name) is Verdict.SILENT and front.broker.permissions.is_enforced:
        front.broker.permissions.acl.check(
            session.principal, session.host, Operation.WRITE, Kind.TOPIC, log_topic
        )
    if log_topic in INTERNAL_TOPICS:
        raise PolicyViolation(f"{log_topic} is the broker's own; clients may only read it")
    return front.route(topic, name, found)


def _verdict(front: "MqttFront", session: Session, name: str) -> Verdict:
    """Return what the rules say of a name, unless they deny it."""
    who = session.principal.name
    verdict = front.rules.judge(Action.PUBLISH, name, who, session.client_id)
    if verdict is Verdict.DENIED or name.startswith(RESERVED):
        raise TopicAccessDenied(f"User:{who} may not publish to {name[:100]}")
    return verdict


async def find_route(front: "MqttFront", session: Session, topic: bytes, name: str) -> "Route":
    """Return where a client's messages go; make the log topic if it is new and that is allowed."""
    route = _check_route(front, session, topic, name)
    if route is None:
        is_granted = _verdict(front, session, name) is Verdict.ALLOWED
        await _create(front, session, front.log_topic(name), is_granted=is_granted)
        route = front.route(topic, name, front.destination(name))
    if route is None:
        raise UnknownTopic(f"no topic {front.log_topic(name)}")
    return route


async def _create(
    front: "MqttFront", session: Session, log_topic: str, *, is_granted: bool
) -> None:
    broker = front.broker
    if not broker.settings.auto_create_topics_enable:
        raise UnknownTopic(f"no topic {log_topic}; create it first")
    permissions, who = broker.permissions, (session.principal, session.host)
    if permissions.is_enforced and not (
        is_granted or permissions.acl.allows(*who, Operation.CREATE, Kind.CLUSTER, CLUSTER_NAME)
    ):
        permissions.acl.check(*who, Operation.CREATE, Kind.TOPIC, log_topic)
    await broker.topics.ensure(log_topic)


def publish(connection: "MqttConnection", session: Session, packet: Publish) -> "Work | None":
    """Take one message with whatever it has."""
    name = _resolve_alias(connection, packet)
    if packet.qos:
        connection.count(1)
    if packet.qos == 2 and packet.id in session.arrivals:
        connection.unanswered -= 1
        connection.send(writer.ack(kinds.PUBREC, packet.id, connection.version))
        return None
    is_once = packet.qos == 2 and session.is_durable
    try:
        route = _known_route(connection, session, name.encode(), name)
        if route is None or (is_once and not session.knows_sequence(route.partition)):
            return _find_and_publish(connection, session, packet, name)
        _publish(connection, session, packet, route)
    except ChordMQError as error:
        _refuse(connection, packet, error)
    return None


async def _find_and_publish(
    connection: "MqttConnection", session: Session, packet: Publish, name: str
) -> None:
    topic = name.encode()
    try:
        route = await find_route(connection.front, session, topic, name)
        if packet.qos == 2 and session.is_durable:
            await session.look_up_sequence(route.partition)
        _publish(connection, session, packet, route)
    except ChordMQError as error:
        _refuse(connection, packet, error)


def _refuse(connection: "MqttConnection", packet: Publish, error: ChordMQError) -> None:
    connection.front.refused += 1
    if packet.qos:
        kind = kinds.PUBACK if packet.qos == 1 else kinds.PUBREC
        connection.unanswered -= 1
        answer = connection.expect(Answer())
        answer.data = refusal(connection, kind, packet.id, error)
        connection.answered()


def _resolve_alias(connection: "MqttConnection", packet: Publish) -> str:
    """Return the name of a message, and remember the alias that it brings."""
    alias = packet.properties.topic_alias
    if alias is None:
        return packet.topic
    if not 1 <= alias <= connection.front.settings.topic_alias_maximum:
        raise ProtocolError(f"topic alias {alias}", Reason.TOPIC_ALIAS_INVALID)
    if packet.topic:
        connection.aliases[alias] = packet.topic
        return packet.topic
    name = connection.aliases.get(alias)
    if name is None:
        raise ProtocolError(f"topic alias {alias} is not known", Reason.TOPIC_ALIAS_INVALID)
    return name


def _publish(
    connection: "MqttConnection", session: Session, packet: Publish, route: "Route"
) -> None:
    front = connection.front
    front.messages_in += 1
    unit = _unit(front, session, packet, route)
    front.audit(session, "publish", f"1 to {route.name}")
    if route.certificate:
        certify(front, route, packet.payload, packet.qos)
    connection.storing(len(packet.payload) + MESSAGE_COST)
    if packet.qos == 2 and session.is_durable:
        _publish_once(connection, session, packet, (route, unit))
        return
    done: Done = partial(_one_done, connection, session, packet, _place(connection, packet))
    if packet.qos == 2:
        session.arrivals[packet.id] = None
    if packet.retain:
        done = _both(done)
        _retain(front, packet, unit.parcel, done)
    unit.shares = [Told(session.client_id, 1, unit.size, done)]
    front.appends.add(route.partition, unit)


def _place(connection: "MqttConnection", packet: Publish) -> "Answer | None":
    return connection.expect(Answer()) if packet.qos else None


def _unit(front: "MqttFront", session: Session, packet: Publish, route: "Route") -> Unit:
    now_ms = front.appends.now_ms()
    extras = Extras() if packet.properties is NONE else extras_of(packet.properties, now_ms)
    headers = route.headers(packet.qos)[0] + extras.headers
    if packet.retain:
        headers += ((RETAIN, b"1"),)
    # QoS 2 of a session that stays waits for the log before it is appended, and is read from there:
    # when that happens the client may not want its own any more, or the node may have been killed.
    if session.hides_own or (packet.qos == 2 and session.is_durable):
        headers += sender_of(session.client_id)
    expires_s = packet.properties.message_expiry_s
    key = route.key if extras.key is None else extras.key
    parcel = Parcel(
        name=route.name,
        topic=route.topic,
        payloads=[packet.payload],
        qos=packet.qos,
        retain=packet.retain,
        headers=tuple(one for one in extras.headers if one[0] != EXPIRES),
        key=key,
        timestamp_ms=now_ms if extras.timestamp_ms is None else extras.timestamp_ms,
        expires_ms=None if expires_s is None else now_ms + expires_s * 1000,
        is_null=extras.is_null and not packet.payload,
        sender=session.client_id,
    )
    records = AlikeRecords(prepare_key(key), prepare_headers(headers), parcel.payloads)
    is_apart = extras.timestamp_ms is not None or parcel.is_null
    size = len(records.key) + len(records.headers) + len(packet.payload) + RECORD_OVERHEAD_MAX
    return Unit(parcel, records, headers, is_apart=is_apart, size=size)


def _retain(front: "MqttFront", packet: Publish, parcel: Parcel, done: Done) -> None:
    """Keep a message for who subscribes later; an empty one ends that."""
    message = Retained(
        name=parcel.name,
        payload=packet.payload,
        qos=packet.qos,
        timestamp_ms=parcel.timestamp_ms,
        expires_ms=parcel.expires_ms,
        headers=tuple(one for one in parcel.headers if one[0] != NAME_HEADER),
    )
    front.broker.retained.keep_then(message, front.settings.retained_max, done)


def _both(done: Done) -> Done:
    """Return what is to be called twice, and calls `done` the second time."""
    outcomes: list[ChordMQError | None] = []

    def one(error: ChordMQError | None) -> None:
        outcomes.append(error)
        if len(outcomes) == 2:
            done(outcomes[0] or outcomes[1])

    return one


def _one_done(
    connection: "MqttConnection",
    session: Session,
    packet: Publish,
    answer: "Answer | None",
    error: ChordMQError | None,
) -> None:
    connection.stored(len(packet.payload) + MESSAGE_COST)
    if answer is None:
        if error is not None:
            connection.front.refused += 1
        return
    kind = kinds.PUBACK if packet.qos == 1 else kinds.PUBREC
    if packet.qos == 1 or error is not None:
        connection.unanswered -= 1
    if error is None:
        answer.data = writer.ack(kind, packet.id, connection.version)
    else:
        session.forget_arrival(packet.id)
        answer.data = refusal(connection, kind, packet.id, error)
    connection.answered()


def _publish_once(
    connection: "MqttConnection", session: Session, packet: Publish, what: "tuple[Route, Unit]"
) -> None:
    """Store a message of QoS 2 so that a crash at any point leaves exactly one of it.

    Its number and its place in the order of the client's messages are stored first. After a crash
    the partition knows whether it has that one: the sequence number of the producer says so.
    """
    route, unit = what
    front, partition = connection.front, route.partition
    topic = front.broker.topics.get(partition.topic)
    sequence = session.next_sequence(topic.id, partition.index)
    session.arrivals[packet.id] = Arrival(packet.id, topic.id, partition.index, sequence)
    done: Done = partial(_one_done, connection, session, packet, connection.expect(Answer()))
    if packet.retain:
        done = _both(done)

    def append() -> None:
        if packet.retain:
            _retain(front, packet, unit.parcel, done)
        batch = build_batch(
            partition.sealed(unit.as_records()),
            producer_id=session.producer_id,
            epoch=0,
            sequence=sequence,
        )
        front.appends.append_alone(partition, batch, done)

    session.when_stored(append)


def release(connection: "MqttConnection", session: Session, number: int) -> None:
    """Take PUBREL: the client will not send this message again."""
    if number not in session.arrivals:
        reason = Reason.PACKET_IDENTIFIER_NOT_FOUND
        connection.send(writer.ack(kinds.PUBCOMP, number, connection.version, reason))
        return
    del session.arrivals[number]
    connection.unanswered = max(connection.unanswered - 1, 0)
    data = writer.ack(kinds.PUBCOMP, number, connection.version)
    if session.is_durable:
        # Before the client uses the number anew, the log must not know it any more.
        session.when_stored(partial(connection.send, data))
    else:
        connection.send(data)


async def publish_will(front: "MqttFront", session: Session, will: Will) -> None:
    """Publish what a client has left behind."""
    packet = message_of(will)
    try:
        topic = packet.topic.encode()
        route = await find_route(front, session, topic, packet.topic)
        unit = _unit(front, session, packet, route)
        if packet.retain:
            _retain(front, packet, unit.parcel, lambda error: None)
        front.appends.add(route.partition, unit)
    except ChordMQError:
        front.refused += 1

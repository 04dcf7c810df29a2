"""What each packet of an MQTT client does; what takes time is returned to be awaited."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.errors import ProtocolError
from chordmq.codecs.mqtt.packets import (
    Ack,
    Acks,
    Auth,
    Connect,
    Disconnect,
    Ping,
    Publish,
    Run,
    Subscribe,
    Unsubscribe,
)
from chordmq.codecs.mqtt.reasons import FAILURE_MIN, Reason
from chordmq.fronts.mqtt import login, publications, subscribing
from chordmq.fronts.mqtt.session import Session

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection

Work = Coroutine[None, None, None]


def connect(connection: "MqttConnection", packet: Connect) -> Work:
    """Let a client in."""
    return login.connect(connection, packet)


def authenticate(connection: "MqttConnection", packet: Auth) -> Work:
    """Go on with an enhanced authentication."""
    return login.authenticate(connection, packet)


def publish_run(connection: "MqttConnection", run: Run) -> Work | None:
    """Take messages that have nothing special, many at once."""
    session, route = connection.session, connection.routes.get(run.topic)
    if session is None or route is None:
        return publications.take_run(connection, _session(connection), run)
    publications.publish_run(connection, session, route, run)
    return None


def publish(connection: "MqttConnection", packet: Publish) -> Work | None:
    """Take one message."""
    return publications.publish(connection, _session(connection), packet)


def acknowledge_all(connection: "MqttConnection", packet: Acks) -> None:
    """Take PUBACK for many messages."""
    _session(connection).outbox.acknowledged(packet.ids)


def acknowledge(connection: "MqttConnection", packet: Ack) -> Work | None:
    """Take PUBACK, PUBREC, PUBREL or PUBCOMP."""
    session = _session(connection)
    if packet.kind == kinds.PUBACK:
        session.outbox.acknowledged([packet.id])
    elif packet.kind == kinds.PUBREC:
        is_refused = packet.reason >= FAILURE_MIN
        if not session.outbox.received(packet.id, is_refused=is_refused) and not is_refused:
            reason = Reason.PACKET_IDENTIFIER_NOT_FOUND
            connection.send(writer.ack(kinds.PUBREL, packet.id, connection.version, reason))
    elif packet.kind == kinds.PUBREL:
        publications.release(connection, session, packet.id)
    else:
        session.outbox.completed(packet.id)
    return None


def subscribe(connection: "MqttConnection", packet: Subscribe) -> Work:
    """Take filters that a client asks for."""
    return subscribing.subscribe(connection, _session(connection), packet)


def unsubscribe(connection: "MqttConnection", packet: Unsubscribe) -> Work:
    """Drop filters that a client wants no more."""
    return subscribing.unsubscribe(connection, _session(connection), packet)


def ping(connection: "MqttConnection", packet: Ping) -> None:
    """Give a sign of life."""
    _session(connection)
    connection.send(writer.PINGRESP)


def disconnect(connection: "MqttConnection", packet: Disconnect) -> None:
    """Let a client go; its will is published only if it says so."""
    session = _session(connection)
    expiry_s = packet.properties.session_expiry_s
    if expiry_s is not None:
        if expiry_s and not session.expiry_s:  # MQTT-3.14.2-2
            raise ProtocolError("a session that ends with its connection cannot be kept")
        session.expiry_s = min(expiry_s, connection.front.settings.session_expiry_max_s)
    connection.is_leaving_well = packet.reason != Reason.DISCONNECT_WITH_WILL
    connection.leave()


def _session(connection: "MqttConnection") -> Session:
    session = connection.session
    if session is None:
        raise ProtocolError("this comes before CONNACK")
    return session


HANDLERS: dict[type, Callable[[Any, Any], Work | None]] = {
    Run: publish_run,
    Acks: acknowledge_all,
    Publish: publish,
    Ack: acknowledge,
    Ping: ping,
    Subscribe: subscribe,
    Unsubscribe: unsubscribe,
    Disconnect: disconnect,
    Connect: connect,
    Auth: authenticate,
}

"""How a client is let in: who it is, which session it has, and what both sides agree on."""

from typing import TYPE_CHECKING

from chordmq.broker.security.auth_settings import OAUTHBEARER
from chordmq.broker.security.principal import ANONYMOUS, Login
from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.errors import ProtocolError
from chordmq.codecs.mqtt.packets import V5, Auth, Connect
from chordmq.codecs.mqtt.properties import Properties
from chordmq.codecs.mqtt.reasons import Reason
from chordmq.errors import AuthenticationFailed, ChordMQError, UnsupportedSaslMechanism
from chordmq.fronts.mqtt.envelopes import Envelopes
from chordmq.fronts.mqtt.session import Session

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection
    from chordmq.fronts.mqtt.front import MqttFront

MECHANISM = "MQTT"
NO_EXPIRY = 0xFFFFFFFF
TOKEN_START = "eyJ"  # noqa: S105  how every signed token begins: `{"` in base64
CLIENT_ID_LENGTH_MAX = 1_000


async def connect(connection: "MqttConnection", packet: Connect) -> None:
    """Let a client in, or tell it why not."""
    connection.connect = packet
    connection.version = packet.version
    if not packet.client_id and packet.version != V5 and not packet.clean_start:
        # MQTT-3.1.3-8 of 3.1.1: nobody could come back to a session without a name.
        connection.end(Reason.CLIENT_IDENTIFIER_NOT_VALID, "a session needs a client id")
        return
    if len(packet.client_id) > CLIENT_ID_LENGTH_MAX:
        connection.end(Reason.CLIENT_IDENTIFIER_NOT_VALID, "the client id is too long")
        return
    method = packet.properties.authentication_method
    try:
        if method is not None:
            await _begin_exchange(connection, method, packet.properties.authentication_data or b"")
            return
        login = await _check(connection, packet)
    except UnsupportedSaslMechanism as error:
        connection.end(Reason.BAD_AUTHENTICATION_METHOD, str(error))
    except AuthenticationFailed as error:
        has_tried = packet.password is not None
        reason = Reason.BAD_USER_NAME_OR_PASSWORD if has_tried else Reason.NOT_AUTHORIZED
        connection.end(reason, str(error))
    else:
        await _accept(connection, packet, login)


async def _check(connection: "MqttConnection", packet: Connect) -> Login:
    """Return who the client is, by password, token or certificate."""
    authenticator = connection.front.authenticator
    if authenticator is None or not authenticator.is_on:
        return Login(connection.certified)
    if packet.password is not None:
        try:
            password = packet.password.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("the password is not UTF-8") from None
        is_token = password.startswith(TOKEN_START) and password.count(".") == 2
        if (is_token and OAUTHBEARER in authenticator.mechanisms) or not packet.user:
            return await authenticator.check_token(password, connection.host, MECHANISM)
        return await authenticator.check_password(packet.user, password, connection.host, MECHANISM)
    if connection.certified is ANONYMOUS and authenticator.is_required:
        raise AuthenticationFailed("log in with user name and password")
    return Login(connection.certified)


async def _begin_exchange(connection: "MqttConnection", method: str, data: bytes) -> None:
    authenticator = connection.front.authenticator
    if authenticator is None or not authenticator.is_on:
        raise UnsupportedSaslMechanism("nobody has to log in here")
    connection.exchange = authenticator.begin(method, connection.host)
    await _step(connection, method, data)


async def _step(connection: "MqttConnection", method: str, data: bytes) -> None:
    """Take one message of an enhanced authentication, and answer it."""
    step = await connection.exchange.step(data)
    properties = Properties(authentication_method=method, authentication_data=step.reply)
    if step.login is None:
        connection.send(writer.auth(Reason.CONTINUE_AUTHENTICATION, properties))
        return
    connection.exchange = None
    assert connection.connect is not None
    if connection.session is None:
        await _accept(connection, connection.connect, step.login, step.reply)
        return
    if step.login.principal != connection.session.principal:
        raise AuthenticationFailed("somebody else has logged in")
    connection.login = step.login
    connection.send(writer.auth(Reason.SUCCESS, properties))


async def authenticate(connection: "MqttConnection", packet: Auth) -> None:
    """Go on with an enhanced authentication, or begin anew."""
    assert connection.connect is not None
    method = connection.connect.properties.authentication_method
    if method is None or packet.properties.authentication_method != method:
        raise ProtocolError("AUTH without the method of CONNECT")  # MQTT-4.12.0-5, -6
    data = packet.properties.authentication_data or b""
    try:
        if packet.reason == Reason.REAUTHENTICATE and connection.session is not None:
            await _begin_exchange(connection, method, data)
        elif packet.reason == Reason.CONTINUE_AUTHENTICATION and connection.exchange is not None:
            await _step(connection, method, data)
        else:
            raise ProtocolError("AUTH is not expected")
    except AuthenticationFailed as error:
        connection.end(Reason.NOT_AUTHORIZED, str(error))


async def _settled_id(front: "MqttFront", packet: Connect) -> str:
    """Return who the client is, when it is settled which node looks after its session.

    In a cluster another node may have found out first, and have sent the client here.
    """
    client_id = packet.client_id or front.register.new_client_id()
    home = await front.broker.sessions.home_of(client_id)
    return client_id if packet.client_id or home is None else front.register.new_client_id()


async def _accept(
    connection: "MqttConnection", packet: Connect, login: Login, proof: bytes | None = None
) -> None:
    """Open the client's session, and tell the client what it may do."""
    front, settings = connection.front, connection.front.settings
    asked = packet.properties
    client_id = await _settled_id(front, packet)
    connection.login = login
    session, has_session = front.register.begin(connection, packet, client_id)
    connection.window = min(asked.receive_maximum or 65_535, settings.inflight_max)
    aliases = min(asked.topic_alias_maximum or 0, settings.topic_alias_maximum)
    connection.envelopes = Envelopes(
        packet.version,
        connection.listener.clock.now_ms,
        aliases_max=aliases,
        size_max=asked.maximum_packet_size or 0,
    )
    keep_alive_s, limit_s = packet.keep_alive_s, settings.keep_alive_max_s
    if limit_s and not 0 < keep_alive_s <= limit_s:
        keep_alive_s = limit_s
    try:
        await front.register.begun(session)
    except ChordMQError:
        front.register.refused(session, connection)
        raise
    if connection.is_gone:
        front.register.left(session, connection)
        return
    if session.connection is not connection:
        return  # the client has connected anew meanwhile
    # MQTT 3.1.1 has no way to tell a client of another keep-alive.
    connection.accepted(session, keep_alive_s if packet.version == V5 else packet.keep_alive_s)
    properties = Properties(
        session_expiry_s=_told_expiry(packet, session),
        assigned_client_id=None if packet.client_id else client_id,
        server_keep_alive_s=keep_alive_s if keep_alive_s != packet.keep_alive_s else None,
        receive_maximum=settings.receive_maximum,
        topic_alias_maximum=settings.topic_alias_maximum,
        maximum_packet_size=connection.listener.settings.frame_size_max,
        authentication_method=asked.authentication_method if proof is not None else None,
        authentication_data=proof,
    )
    connection.send(
        writer.connack(
            packet.version, Reason.SUCCESS, has_session=has_session, properties=properties
        )
    )
    session.outbox.attach(connection)
    for reader in session.shared.values():
        reader.wake()


def _told_expiry(packet: Connect, session: Session) -> int | None:
    """Return the session's expiry if it is not what the client has asked for."""
    asked = packet.properties.session_expiry_s or 0
    return session.expiry_s if session.expiry_s != asked else None

"""The bodies of single packets: what stands after their size, read and checked."""

from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt.errors import MalformedPacket, ProtocolError
from chordmq.codecs.mqtt.fields import (
    read_binary,
    read_byte,
    read_short,
    read_text,
    to_topic,
)
from chordmq.codecs.mqtt.packets import (
    V5,
    V311,
    Ack,
    Auth,
    Connect,
    Disconnect,
    Options,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
    Will,
)
from chordmq.codecs.mqtt.properties import NONE, Properties, read_properties
from chordmq.codecs.mqtt.reasons import Reason

PROTOCOL = "MQTT"
FLAGS = {kinds.PUBREL: 2, kinds.SUBSCRIBE: 2, kinds.UNSUBSCRIBE: 2}
"""The low four bits of the first byte, where they are not 0."""

HAS_USER, HAS_PASSWORD, WILL_RETAIN, HAS_WILL, CLEAN_START, RESERVED = 128, 64, 32, 4, 2, 1
NO_LOCAL, RETAIN_AS_PUBLISHED = 4, 8

ACK_REASONS = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
RELEASE_REASONS = frozenset({0x00, 0x92})
DISCONNECT_REASONS = frozenset(
    {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99}
)
"""Those that a client may give."""


def check_flags(first: int) -> None:
    """Raise MalformedPacket unless the reserved bits are as they must be (MQTT-2.1.3-1)."""
    if first & 0x0F != FLAGS.get(first >> 4, 0):
        raise MalformedPacket("the flags of a packet are not what they must be")


def read_connect(data: bytes, first: int, at: int, end: int) -> Connect:
    """Return CONNECT."""
    check_flags(first)
    protocol, at = read_text(data, at, end)
    version, at = read_byte(data, at, end)
    if protocol != PROTOCOL or version not in (V311, V5):
        raise ProtocolError(
            f"{protocol[:20]!r} {version} is neither MQTT 3.1.1 nor 5",
            Reason.UNSUPPORTED_PROTOCOL_VERSION,
        )
    flags, at = read_byte(data, at, end)
    keep_alive_s, at = read_short(data, at, end)
    _check_connect_flags(flags, version)
    properties, at = _properties(data, at, end, version, kinds.CONNECT)
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise ProtocolError("authentication data without a method")
    client_id, at = read_text(data, at, end)
    will = None
    if flags & HAS_WILL:
        will, at = _read_will(data, at, end, (flags, version))
    user = password = None
    if flags & HAS_USER:
        user, at = read_text(data, at, end)
    if flags & HAS_PASSWORD:
        password, at = read_binary(data, at, end)
    _check_end(at, end)
    return Connect(
        version=version,
        clean_start=bool(flags & CLEAN_START),
        keep_alive_s=keep_alive_s,
        client_id=client_id,
        will=will,
        user=user,
        password=password,
        properties=properties,
    )


def _check_connect_flags(flags: int, version: int) -> None:
    qos = flags >> 3 & 3
    if flags & RESERVED or qos == 3:
        raise MalformedPacket("the flags of CONNECT are not what they must be")
    if not flags & HAS_WILL and (qos or flags & WILL_RETAIN):
        raise MalformedPacket("CONNECT says something of a will that is not there")
    if version == V311 and flags & HAS_PASSWORD and not flags & HAS_USER:
        raise MalformedPacket("a password without a user name")  # MQTT-3.1.2-22 of 3.1.1


def _read_will(data: bytes, at: int, end: int, connect: tuple[int, int]) -> tuple[Will, int]:
    flags, version = connect
    properties, at = _properties(data, at, end, version, kinds.WILL)
    topic, at = read_binary(data, at, end)
    name = to_topic(topic)
    if not name:
        raise ProtocolError("a will without a topic", Reason.TOPIC_NAME_INVALID)
    payload, at = read_binary(data, at, end)
    will = Will(
        topic=name,
        payload=payload,
        qos=flags >> 3 & 3,
        retain=bool(flags & WILL_RETAIN),
        properties=properties,
    )
    return will, at


def read_publish(data: bytes, first: int, at: int, end: int, version: int) -> Publish:
    """Return PUBLISH."""
    qos = first >> 1 & 3
    if qos == 3:
        raise MalformedPacket("QoS 3")
    if first & 8 and not qos:
        raise MalformedPacket("a repeated message of QoS 0")  # MQTT-3.3.1-2
    topic, at = read_binary(data, at, end)
    name = to_topic(topic)
    number = 0
    if qos:
        number, at = _identifier(data, at, end)
    properties, at = _properties(data, at, end, version, kinds.PUBLISH)
    if properties.subscription_ids:
        raise ProtocolError("a client's message has a subscription identifier")  # MQTT-3.3.4-6
    if not name and properties.topic_alias is None:
        raise ProtocolError("a message without a topic", Reason.TOPIC_NAME_INVALID)
    response = properties.response_topic
    if response is not None and (not response or "+" in response or "#" in response):
        raise ProtocolError("a response topic has a wildcard", Reason.TOPIC_NAME_INVALID)
    return Publish(
        topic=name,
        payload=data[at:end],
        qos=qos,
        retain=bool(first & 1),
        duplicate=bool(first & 8),
        id=number,
        properties=properties,
    )


def read_ack(data: bytes, first: int, at: int, end: int, version: int) -> Ack:
    """Return PUBACK, PUBREC, PUBREL or PUBCOMP."""
    check_flags(first)
    kind = first >> 4
    number, at = _identifier(data, at, end)
    reason, properties = 0, NONE
    if version == V5 and at < end:
        reason, at = read_byte(data, at, end)
        known = RELEASE_REASONS if kind in (kinds.PUBREL, kinds.PUBCOMP) else ACK_REASONS
        if reason not in known:
            raise MalformedPacket(f"no reason {reason:#x} is known here")
        if at < end:
            properties, at = read_properties(data, at, end, kind)
    _check_end(at, end)
    return Ack(kind, number, reason, properties)


def read_subscribe(data: bytes, first: int, at: int, end: int, version: int) -> Subscribe:
    """Return SUBSCRIBE."""
    check_flags(first)
    number, at = _identifier(data, at, end)
    properties, at = _properties(data, at, end, version, kinds.SUBSCRIBE)
    filters = []
    while at < end:
        wanted, at = read_text(data, at, end)
        options, at = read_byte(data, at, end)
        filters.append((wanted, _options(options, version)))
    if not filters:
        raise ProtocolError("no filter is asked for")  # MQTT-3.8.3-2
    return Subscribe(number, filters, properties)


def _options(byte: int, version: int) -> Options:
    """Return what the byte after a filter says (MQTT-3.8.3-4, -5)."""
    qos, handling = byte & 3, byte >> 4 & 3
    if qos == 3 or byte & (0xC0 if version == V5 else 0xFC):
        raise MalformedPacket("the options of a subscription are not what they must be")
    if handling == 3:
        raise ProtocolError("retain handling 3")
    return Options(
        qos=qos,
        no_local=bool(byte & NO_LOCAL),
        retain_as_published=bool(byte & RETAIN_AS_PUBLISHED),
        retain_handling=handling,
    )


def read_unsubscribe(data: bytes, first: int, at: int, end: int, version: int) -> Unsubscribe:
    """Return UNSUBSCRIBE."""
    check_flags(first)
    number, at = _identifier(data, at, end)
    properties, at = _properties(data, at, end, version, kinds.UNSUBSCRIBE)
    filters = []
    while at < end:
        wanted, at = read_text(data, at, end)
        filters.append(wanted)
    if not filters:
        raise ProtocolError("no filter is named")  # MQTT-3.10.3-2
    return Unsubscribe(number, filters, properties)


def read_ping(data: bytes, first: int, at: int, end: int, version: int) -> Ping:
    """Return PINGREQ."""
    check_flags(first)
    _check_end(at, end)
    return Ping()


def read_disconnect(data: bytes, first: int, at: int, end: int, version: int) -> Disconnect:
    """Return DISCONNECT."""
    check_flags(first)
    reason, properties = 0, NONE
    if version == V5 and at < end:
        reason, at = read_byte(data, at, end)
        if reason not in DISCONNECT_REASONS:
            raise MalformedPacket(f"no reason {reason:#x} is known here")
        if at < end:
            properties, at = read_properties(data, at, end, kinds.DISCONNECT)
    _check_end(at, end)
    return Disconnect(reason, properties)


def read_auth(data: bytes, first: int, at: int, end: int, version: int) -> Auth:
    """Return AUTH."""
    check_flags(first)
    reason, properties = 0, NONE
    if at < end:
        reason, at = read_byte(data, at, end)
        properties, at = read_properties(data, at, end, kinds.AUTH)
    _check_end(at, end)
    if reason not in (Reason.SUCCESS, Reason.CONTINUE_AUTHENTICATION, Reason.REAUTHENTICATE):
        raise MalformedPacket(f"no reason {reason:#x} is known here")
    return Auth(reason, properties)


def _properties(
    data: bytes, at: int, end: int, version: int, packet: int
) -> tuple[Properties, int]:
    return read_properties(data, at, end, packet) if version == V5 else (NONE, at)


def _identifier(data: bytes, at: int, end: int) -> tuple[int, int]:
    number, at = read_short(data, at, end)
    if not number:
        raise MalformedPacket("a packet identifier is 0")  # MQTT-2.2.1-3
    return number, at


def _check_end(at: int, end: int) -> None:
    if at != end:
        raise MalformedPacket("bytes follow the last field of a packet")

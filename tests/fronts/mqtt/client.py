"""A plain-socket MQTT client that does what a test says, right or wrong."""

import socket
import ssl
import struct
from typing import ClassVar, NamedTuple

from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt.properties import NONE, Properties, read_properties, write_properties

TIMEOUT_S = 60.0
CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)


class Message(NamedTuple):
    """A PUBLISH as it came."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    duplicate: bool = False
    id: int = 0
    properties: Properties = NONE


class Connack(NamedTuple):
    """What came in answer to CONNECT."""

    has_session: bool
    code: int
    properties: Properties = NONE


class HungUp(Exception):
    """The node has closed the connection."""


class Will(NamedTuple):
    """What is to be published when the client goes without a word."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NONE


def text(value: str | bytes) -> bytes:
    """Return a text with its size before it."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(data)) + data


def packet(first: int, body: bytes) -> bytes:
    """Return a packet."""
    size, out = len(body), bytearray((first,))
    while True:
        out.append(size & 0x7F | (0x80 if size > 0x7F else 0))
        size >>= 7
        if not size:
            return bytes(out) + body


class Client:
    """One connection; all that are open are in `opened`, until the test is over."""

    opened: ClassVar[list[socket.socket]] = []

    def __init__(
        self, address: tuple[str, int], version: int = 5, tls: ssl.SSLContext | None = None
    ) -> None:
        plain = socket.create_connection(address, timeout=TIMEOUT_S)
        self.opened.append(plain)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = tls.wrap_socket(plain, server_hostname="localhost") if tls else plain
        self.opened.append(self.socket)
        self.version = version
        self._data = b""
        self._early: list[tuple[int, bytes]] = []
        """Messages that came before something else that was waited for."""
        self._id = 0

    def connect(
        self,
        client_id: str = "",
        *,
        clean: bool = True,
        keep_alive: int = 0,
        will: Will | None = None,
        user: str | None = None,
        password: bytes | None = None,
        properties: Properties = NONE,
    ) -> Connack:
        """Ask to be let in, and return the answer."""
        self.ask(client_id, clean, keep_alive, will, user, password, properties)
        return self.connack()

    def ask(
        self,
        client_id: str,
        clean: bool = True,
        keep_alive: int = 0,
        will: Will | None = None,
        user: str | None = None,
        password: bytes | None = None,
        properties: Properties = NONE,
    ) -> None:
        """Send CONNECT."""
        flags = 2 * clean | (128 if user is not None else 0) | (64 if password is not None else 0)
        if will is not None:
            flags |= 4 | will.qos << 3 | will.retain << 5
        body = text("MQTT") + bytes((self.version, flags)) + struct.pack(">H", keep_alive)
        body += self.properties(properties) + text(client_id)
        if will is not None:
            body += self.properties(will.properties) + text(will.topic) + text(will.payload)
        body += text(user) if user is not None else b""
        body += text(password) if password is not None else b""
        self.send(packet(0x10, body))

    def connack(self) -> Connack:
        """Return CONNACK."""
        body = self.expect(CONNACK)
        properties = NONE
        if self.version == 5:
            properties, _ = read_properties(body, 2, len(body), kinds.CONNACK)
        return Connack(bool(body[0]), body[1], properties)

    def properties(self, properties: Properties = NONE) -> bytes:
        """Return properties, where the version has any."""
        return write_properties(properties) if self.version == 5 else b""

    def next_id(self) -> int:
        """Return a packet identifier that was not used."""
        self._id += 1
        return self._id

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, **more: object) -> int:
        """Send a message, and with QoS 1 and 2 wait until the node has it; return the answer."""
        number = self.post(topic, payload, qos, **more)  # type: ignore[arg-type]
        if qos == 0:
            return 0
        if qos == 1:
            return self.answer(PUBACK, number)
        code = self.answer(PUBREC, number)
        if code < 0x80:
            self.send(packet(0x62, struct.pack(">H", number)))
            assert self.answer(PUBCOMP, number) == 0
        return code

    def post(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        *,
        retain: bool = False,
        duplicate: bool = False,
        id: int = 0,  # noqa: A002
        properties: Properties = NONE,
    ) -> int:
        """Send a message, and return its packet identifier."""
        number = id or (self.next_id() if qos else 0)
        body = text(topic) + (struct.pack(">H", number) if qos else b"")
        body += self.properties(properties) + payload
        self.send(packet(0x30 | duplicate << 3 | qos << 1 | retain, body))
        return number

    def answer(self, kind: int, number: int) -> int:
        """Return the reason code of an acknowledgement."""
        body = self.expect(kind)
        assert struct.unpack(">H", body[:2])[0] == number
        return body[2] if len(body) > 2 else 0

    def subscribe(
        self, *filters: str, qos: int = 0, options: int = 0, properties: Properties = NONE
    ) -> list[int]:
        """Subscribe to filters, and return the reason codes."""
        number = self.next_id()
        body = struct.pack(">H", number) + self.properties(properties)
        for wanted in filters:
            body += text(wanted) + bytes((qos | options,))
        self.send(packet(0x82, body))
        answer = self.expect(SUBACK)
        assert struct.unpack(">H", answer[:2])[0] == number
        if self.version == 5:
            _, at = read_properties(answer, 2, len(answer), kinds.SUBACK)
            return list(answer[at:])
        return list(answer[2:])

    def unsubscribe(self, *filters: str) -> list[int]:
        """Unsubscribe from filters, and return the reason codes."""
        body = struct.pack(">H", self.next_id()) + self.properties()
        self.send(packet(0xA2, body + b"".join(map(text, filters))))
        return list(self.expect(UNSUBACK)[3 if self.version == 5 else 2 :])

    def message(self, *, answers: bool = True) -> Message:
        """Return the next message, answered in full unless told otherwise."""
        first, body = self.packet()
        while answers and first >> 4 == PUBREL:  # of a message from before a crash
            self.send(packet(PUBCOMP << 4, body[:2]))
            first, body = self.packet()
        assert first >> 4 == PUBLISH, f"packet {first:#x} {body!r}"
        size = struct.unpack(">H", body[:2])[0]
        topic, at = body[2 : 2 + size].decode(), 2 + size
        qos, number, properties = first >> 1 & 3, 0, NONE
        if qos:
            number = struct.unpack(">H", body[at : at + 2])[0]
            at += 2
        if self.version == 5:
            properties, at = read_properties(body, at, len(body), kinds.PUBLISH)
        if answers and qos == 1:
            self.send(packet(0x40, struct.pack(">H", number)))
        elif answers and qos == 2:
            self.send(packet(0x50, struct.pack(">H", number)))
            assert self.answer(PUBREL, number) == 0
            self.send(packet(0x70, struct.pack(">H", number)))
        return Message(topic, body[at:], qos, bool(first & 1), bool(first & 8), number, properties)

    @property
    def has_more(self) -> bool:
        """Return whether something has been read from the socket and not been looked at."""
        return bool(self._early or self._data)

    def messages(self, count: int) -> list[bytes]:
        """Return the payloads of the next messages."""
        return [self.message().payload for _ in range(count)]

    def ping(self) -> None:
        """Wait until everything sent so far is dealt with."""
        self.send(b"\xc0\0")
        assert self.expect(PINGRESP) == b""

    def is_quiet(self) -> bool:
        """Return whether nothing came before the answer to a ping."""
        self.send(b"\xc0\0")
        return self.packet() == (0xD0, b"")

    def disconnect(self, reason: int = 0, properties: Properties = NONE) -> None:
        """Say goodbye, and close."""
        body = bytes((reason,)) + self.properties(properties) if self.version == 5 else b""
        self.send(packet(0xE0, body))
        self.wait_for_end()

    def wait_for_end(self) -> list[tuple[int, bytes]]:
        """Return what comes before the node hangs up."""
        found = []
        try:
            while True:
                found.append(self.packet())
        except (HungUp, ConnectionError):
            self.socket.close()
            return found

    def ending(self) -> int:
        """Return the reason code of the DISCONNECT that comes before the end."""
        first, body = self.wait_for_end()[-1]
        assert first == 0xE0, f"packet {first:#x}"
        return body[0]

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def expect(self, kind: int) -> bytes:
        """Return the body of the next packet of a kind; only messages may come before it."""
        first, body = self._next()
        while first >> 4 == PUBLISH != kind:
            self._early.append((first, body))
            first, body = self._next()
        assert first >> 4 == kind, f"packet {first:#x} {body!r}"
        return body

    def packet(self) -> tuple[int, bytes]:
        """Return the first byte and the body of the next packet; raise HungUp at the end."""
        return self._early.pop(0) if self._early else self._next()

    def _next(self) -> tuple[int, bytes]:
        first = self._take(1)[0]
        size = shift = 0
        while True:
            byte = self._take(1)[0]
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return first, self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                raise HungUp
            self._data += more
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def cut(self) -> None:
        """Go without a word."""
        self.socket.close()

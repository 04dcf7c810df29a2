"""AMQP 0-9-1 frames: a whole read becomes events at once, and a delivery becomes bytes at once.

A frame is type (1 byte), channel (2), size (4), payload and the byte 0xCE. Publications and
acknowledgements, which come by the thousand, are read here; other methods are left to pamqp.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from pamqp import base, commands, frame

from chordmq.codecs.amqp.tables import FAULTS
from chordmq.errors import DecodeError

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = 0xCE
FRAME_OVERHEAD = 8
FRAME_MIN = 4096
ROUTES_MAX = 1024
"""Ways of publishing that a connection remembers."""
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

PUBLISH = 0x003C0028
ACK = 0x003C0050
REJECT = 0x003C005A
NACK = 0x003C0078
DELIVER = b"\x00\x3c\x00\x3c"
BASIC = 60

_HEAD = struct.Struct(">BHI")
_CONTENT = struct.Struct(">HHQ")
_CONTENT_FRAME = struct.Struct(">BHIHHQ")
_PUBLISH = b"\x00\x3c\x00\x28"
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_TAGGED = struct.Struct(">BHIIQBB")


class Publish(NamedTuple):
    """Messages that a client sends to an exchange, and that differ in their bodies only.

    Their properties stay as they came.
    """

    channel: int
    exchange: str
    key: str
    mandatory: bool
    immediate: bool
    properties: bytes
    bodies: list[bytes]


class Settle(NamedTuple):
    """What a client says of messages that it has got."""

    channel: int
    tag: int
    multiple: bool
    is_done: bool
    """Processed; else given back or refused."""
    requeue: bool


class Method(NamedTuple):
    """Any other method."""

    channel: int
    method: base.Frame


class Beat(NamedTuple):
    """A sign of life."""

    channel: int


Event = Publish | Settle | Method | Beat


class FrameFault(DecodeError):
    """Bytes that end the connection, with the reply code that says why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class _Content:
    """A message whose frames have not all come."""

    __slots__ = ("body", "exchange", "flags", "is_begun", "key", "missing", "properties")

    def __init__(self, exchange: str, key: str, flags: int) -> None:
        self.exchange = exchange
        self.key = key
        self.flags = flags
        self.is_begun = False
        self.properties = b""
        self.body = bytearray()
        self.missing = 0


class FrameReader:
    """Takes bytes in any pieces; gives the events that they complete."""

    def __init__(self, body_max: int) -> None:
        self.frame_max = FRAME_MIN
        """Bytes that a frame may have; grows when the connection is tuned."""
        self._body_max = body_max
        self._rest = b""
        self._open: dict[int, _Content] = {}
        self._routes: dict[bytes, tuple[str, str, int]] = {}
        self._last: _Alike | None = None
        """How the last message came that was whole."""

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return bool(self._rest)

    @property
    def held(self) -> int:
        """Return how many bytes of unfinished frames and messages are kept."""
        return len(self._rest) + sum(len(content.body) for content in self._open.values())

    def forget(self, channel: int) -> None:
        """Drop what a channel has begun to send, because it is closed."""
        self._open.pop(channel, None)

    def receive(self, data: bytes) -> list[Event]:
        """Return the events that the bytes complete; raise FrameFault for what is no frame."""
        if self._rest:
            data = self._rest + data
        events: list[Event] = []
        at, size_all = 0, len(data)
        while size_all - at >= FRAME_OVERHEAD:
            if self._last is not None and data.startswith(self._last.before, at):
                at = self._read_alike(self._last, data, at, events)
                if size_all - at < FRAME_OVERHEAD:
                    break
            begin = at
            kind, channel, size = _HEAD.unpack_from(data, at)
            if size + FRAME_OVERHEAD > self.frame_max:
                raise FrameFault(501, f"a frame of {size} bytes, {self.frame_max} were agreed on")
            start = at + 7
            stop = start + size
            if stop >= size_all:
                break
            if data[stop] != END:
                raise FrameFault(501, f"a frame ends with {data[stop]:#x} instead of 0xce")
            payload = data[start:stop]
            at = stop + 1
            if kind == METHOD and payload.startswith(_PUBLISH) and channel not in self._open:
                whole = _whole(data, at, channel, self._limits)
                if whole is not None:
                    exchange, key, flags = self._route(payload)
                    properties, body, at = whole
                    route = (channel, exchange, key, bool(flags & 1), bool(flags & 2), properties)
                    events.append(Publish(*route, [body]))
                    self._last = _alike(data[begin : stop + 12], route)
                    continue
            self._frame(kind, channel, payload, events)
        self._rest = data[at:] if at else data
        return events

    def _read_alike(self, alike: "_Alike", data: bytes, at: int, events: list[Event]) -> int:
        """Take whole messages that came as the last one did, and return where they end.

        What is not just so is left to be put together frame by frame.
        """
        before, between, route = alike
        size_max = min(self._body_max, self.frame_max - FRAME_OVERHEAD)
        head, middle = len(before), 8 + len(between)
        if route[0] in self._open:
            return at
        bodies: list[bytes] = []
        while data.startswith(before, at):
            sizes = at + head
            start = sizes + middle + 4
            if not data.startswith(between, sizes + 8) or start > len(data):
                break
            size = _U32.unpack_from(data, start - 4)[0]
            if not 0 < size <= size_max or _U64.unpack_from(data, sizes)[0] != size:
                break
            whole = _of_one_size(data, at, start - at, size, bodies)
            if whole == at:
                break
            at = whole
        if bodies:
            if events and events[-1][:-1] == route:
                cast(Publish, events[-1]).bodies.extend(bodies)
            else:
                events.append(Publish(*route, bodies))
        return at

    @property
    def _limits(self) -> tuple[int, int]:
        return self.frame_max, self._body_max

    def _route(self, payload: bytes) -> tuple[str, str, int]:
        """Return exchange, routing key and flags; a client publishes the same way often."""
        route = self._routes.get(payload)
        if route is None:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            try:
                route = self._routes[payload] = _publish(payload)
            except FAULTS as fault:
                raise FrameFault(502, f"basic.publish cannot be read: {fault}") from fault
        return route

    def _frame(self, kind: int, channel: int, payload: bytes, events: list[Event]) -> None:
        if kind == BODY:
            self._body(channel, payload, events)
        elif kind == HEADER:
            self._header(channel, payload, events)
        elif kind == METHOD:
            self._method(channel, payload, events)
        elif kind == HEARTBEAT:
            events.append(_beat(channel))
        else:
            raise FrameFault(501, f"no frame has the type {kind}")

    def _method(self, channel: int, payload: bytes, events: list[Event]) -> None:
        if channel in self._open:
            raise FrameFault(505, "a method came where the content of a message was due")
        if len(payload) < 4:
            raise FrameFault(501, "a method without a name")
        number = _U32.unpack_from(payload)[0]
        try:
            if number == PUBLISH:
                self._open[channel] = _Content(*_publish(payload))
            elif number in (ACK, NACK, REJECT):
                events.append(_settle(channel, number, payload))
            else:
                events.append(Method(channel, _other(number, payload)))
        except FAULTS as fault:
            raise FrameFault(502, f"method {number:#x} cannot be read: {fault}") from fault

    def _header(self, channel: int, payload: bytes, events: list[Event]) -> None:
        content = self._open.get(channel)
        if content is None or content.is_begun:
            raise FrameFault(505, "a content header came where none was due")
        if len(payload) < 14:
            raise FrameFault(501, "a content header is too short")
        class_id, weight, size = _CONTENT.unpack_from(payload)
        if class_id != BASIC or weight:
            raise FrameFault(501, f"a content header of class {class_id} with weight {weight}")
        if size > self._body_max:
            raise FrameFault(501, f"a message of {size} bytes, {self._body_max} are taken")
        content.is_begun = True
        content.properties = payload[12:]
        content.missing = size
        if not size:
            self._finish(channel, content, b"", events)

    def _body(self, channel: int, payload: bytes, events: list[Event]) -> None:
        content = self._open.get(channel)
        if content is None or not content.is_begun:
            raise FrameFault(505, "a content body came where none was due")
        size = len(payload)
        if size > content.missing:
            raise FrameFault(501, "more of a message came than its header said")
        if size == content.missing and not content.body:
            self._finish(channel, content, payload, events)
            return
        content.body += payload
        content.missing -= size
        if not content.missing:
            self._finish(channel, content, bytes(content.body), events)

    def _finish(self, channel: int, content: _Content, body: bytes, events: list[Event]) -> None:
        del self._open[channel]
        flags = content.flags
        events.append(
            Publish(
                channel,
                content.exchange,
                content.key,
                bool(flags & 1),
                bool(flags & 2),
                content.properties,
                [body],
            )
        )


def _of_one_size(data: bytes, at: int, head: int, size: int, bodies: list[bytes]) -> int:
    """Take the bodies of messages that begin with the same bytes, and return where they end."""
    begin, size_all = data[at : at + head], len(data)
    stop = at + head + size
    while stop < size_all and data[stop] == END and data.startswith(begin, at):
        bodies.append(data[at + head : stop])
        at = stop + 1
        stop = at + head + size
    return at


def _publish(payload: bytes) -> tuple[str, str, int]:
    middle = 7 + payload[6]
    end = middle + 1 + payload[middle]
    return payload[7:middle].decode(), payload[middle + 1 : end].decode(), payload[end]


def _whole(
    data: bytes, at: int, channel: int, limits: tuple[int, int]
) -> tuple[bytes, bytes, int] | None:
    """Return the properties, the body and the end of a message that follows in just two frames.

    None if it does not: then it is put together frame by frame, and what is wrong is found there.
    """
    frame_max, body_max = limits
    if len(data) - at < 22 + FRAME_OVERHEAD:
        return None
    kind, number, size, class_id, weight, body_size = _CONTENT_FRAME.unpack_from(data, at)
    stop = at + 7 + size
    start = stop + 8
    end = start + body_size
    if (
        kind != HEADER
        or number != channel
        or size < 14
        or class_id != BASIC
        or weight
        or not 0 < body_size <= body_max
        or body_size + FRAME_OVERHEAD > frame_max
        or size + FRAME_OVERHEAD > frame_max
        or end >= len(data)
        or data[stop] != END
        or data[end] != END
        or _HEAD.unpack_from(data, stop + 1) != (BODY, channel, body_size)
    ):
        return None
    return data[at + 19 : stop], data[start:end], end + 1


class _Alike(NamedTuple):
    """What messages have in common that are published in the same way, but for their sizes."""

    before: bytes
    """The method, and the content header up to the size of the body."""
    between: bytes
    """The properties, and the body's frame up to its size."""
    route: tuple[int, str, str, bool, bool, bytes]


def _alike(before: bytes, route: tuple[int, str, str, bool, bool, bytes]) -> _Alike:
    return _Alike(before, b"%b\xce\x03%b" % (route[5], _U16.pack(route[0])), route)


def _settle(channel: int, number: int, payload: bytes) -> Settle:
    tag = _U64.unpack_from(payload, 4)[0]
    flags = payload[12]
    if number == ACK:
        return Settle(channel, tag, bool(flags & 1), True, False)
    if number == NACK:
        return Settle(channel, tag, bool(flags & 1), False, bool(flags & 2))
    return Settle(channel, tag, False, False, bool(flags & 1))


def _other(number: int, payload: bytes) -> base.Frame:
    method: base.Frame = commands.INDEX_MAPPING[number]()
    method.unmarshal(payload[4:])
    return method


def _beat(channel: int) -> Beat:
    if channel:
        raise FrameFault(501, "a heartbeat on a channel")
    return Beat(0)


def method_frame(channel: int, method: base.Frame) -> bytes:
    """Return a method as bytes."""
    return frame.marshal(method, channel)


def short(text: str) -> bytes:
    """Return a short string as it is sent."""
    data = text.encode()
    return bytes((len(data),)) + data


def content_frames(channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Return the frames of a message that follow its method."""
    size = len(body)
    head = _HEAD.pack(HEADER, channel, 12 + len(properties)) + _CONTENT.pack(BASIC, 0, size)
    if size <= frame_max - FRAME_OVERHEAD:
        if not size:
            return head + properties + b"\xce"
        return b"".join((head, properties, b"\xce", _HEAD.pack(BODY, channel, size), body, b"\xce"))
    return b"".join((head, properties, b"\xce", *_cut(channel, body, frame_max - FRAME_OVERHEAD)))


def _cut(channel: int, body: bytes, size_max: int) -> Iterator[bytes]:
    for start in range(0, len(body), size_max):
        part = body[start : start + size_max]
        yield _HEAD.pack(BODY, channel, len(part))
        yield part
        yield b"\xce"


def delivery_frames(
    channel: int,
    consumer: bytes,
    tag: int,
    redelivered: bool,
    message: tuple[bytes, bytes, bytes],
    frame_max: int,
) -> bytes:
    """Return a delivery; the message is its route (exchange and key), properties and body."""
    route, properties, body = message
    size = len(body)
    if not 0 < size <= frame_max - FRAME_OVERHEAD:
        method = deliver_frame(channel, consumer, tag, redelivered, route)
        return method + content_frames(channel, properties, body, frame_max)
    return b"".join(
        (
            _HEAD.pack(METHOD, channel, 13 + len(consumer) + len(route)),
            DELIVER,
            consumer,
            _U64.pack(tag),
            b"\x01" if redelivered else b"\x00",
            route,
            b"\xce",
            _CONTENT_FRAME.pack(HEADER, channel, 12 + len(properties), BASIC, 0, size),
            properties,
            b"\xce",
            _HEAD.pack(BODY, channel, size),
            body,
            b"\xce",
        )
    )


def all_delivery_frames(
    channel: int,
    consumer: bytes,
    tag: int,
    message: tuple[bytes, bytes],
    bodies: Sequence[bytes],
    frame_max: int,
) -> bytes:
    """Return first deliveries of messages with one route and properties, from a tag on."""
    route, properties = message
    if min(map(len, bodies)) == 0 or max(map(len, bodies)) > frame_max - FRAME_OVERHEAD:
        return b"".join(
            delivery_frames(channel, consumer, number, False, (*message, body), frame_max)
            for number, body in enumerate(bodies, tag)
        )
    begin = _HEAD.pack(METHOD, channel, 13 + len(consumer) + len(route)) + DELIVER + consumer
    between, last = b"", 0
    out: list[bytes] = []
    for number, body in enumerate(bodies, tag):
        size = len(body)
        if size != last:
            last = size
            content = _CONTENT_FRAME.pack(HEADER, channel, 12 + len(properties), BASIC, 0, size)
            follows = _HEAD.pack(BODY, channel, size)
            between = b"\x00%b\xce%b%b\xce%b" % (route, content, properties, follows)
        out += (begin, _U64.pack(number), between, body, b"\xce")
    return b"".join(out)


def deliver_frame(
    channel: int, consumer: bytes, tag: int, redelivered: bool, route: bytes
) -> bytes:
    """Return basic.deliver; `consumer` and `route` (exchange and key) are short strings."""
    size = 13 + len(consumer) + len(route)
    return b"".join(
        (
            _HEAD.pack(METHOD, channel, size),
            DELIVER,
            consumer,
            _U64.pack(tag),
            b"\x01" if redelivered else b"\x00",
            route,
            b"\xce",
        )
    )


def ack_frame(channel: int, tag: int, multiple: bool) -> bytes:
    """Return the confirmation of one publication, or of all up to it."""
    return _TAGGED.pack(METHOD, channel, 13, ACK, tag, multiple, END)


def nack_frame(channel: int, tag: int) -> bytes:
    """Return the word that a publication was not taken."""
    return _TAGGED.pack(METHOD, channel, 13, NACK, tag, 0, END)

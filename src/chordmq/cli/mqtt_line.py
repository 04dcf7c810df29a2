"""One MQTT 3.1.1 connection, as small as devices have it; for simulated fleets."""

import asyncio
from collections.abc import Callable
from typing import cast

CONNACK, PUBLISH, PUBACK, SUBACK = 2, 3, 4, 9
CLEAN, WILL, WILL_QOS_1, PASSWORD, USER = 0x02, 0x04, 0x08, 0x40, 0x80


Login = tuple[str, str]
Will = tuple[str, bytes]
"""Name and password; topic and payload."""


class NotWelcome(ConnectionError):
    """The broker has refused the connection."""


class Line(asyncio.Protocol):
    """A connection that cuts what comes into packets; MQTT 3.1.1, as small devices speak it."""

    def __init__(self, taken: Callable[[int, bytes], None]) -> None:
        self._taken = taken
        self._rest = b""
        self._transport: asyncio.Transport
        self.sent_s: dict[bytes, float] = {}
        """When messages that wait for an answer were sent, by their numbers."""
        self.is_open = True
        self._answered = asyncio.Event()
        self._refusal = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connect(self, client_id: str, login: Login | None = None, will: Will | None = None) -> None:
        """Ask to be let in; a will is said for us when we vanish."""
        flags, body = CLEAN, text(client_id)
        if will is not None:
            flags |= WILL | WILL_QOS_1
            body += text(will[0]) + size_of(will[1]) + will[1]
        if login is not None:
            flags |= USER | PASSWORD
            body += text(login[0]) + text(login[1])
        self.send(0x10, b"\0\4MQTT\4" + bytes((flags, 0, 0)) + body)

    async def ready(self, within_s: float) -> None:
        """Wait for the answer to a connection or subscription."""
        await asyncio.wait_for(self._answered.wait(), within_s)
        self._answered.clear()
        if self._refusal:
            raise NotWelcome(f"the broker refuses with code {self._refusal}")

    def subscribe(self, *patterns: str, qos: int = 0) -> None:
        """Ask for messages."""
        self.send(0x82, b"\0\1" + b"".join(text(one) + bytes((qos,)) for one in patterns))

    def publish(self, topic: bytes, payload: bytes, packet_id: bytes = b"") -> None:
        """Send a message whose name was made by `text`; with a number it is to be acknowledged."""
        self.send(0x32 if packet_id else 0x30, topic + packet_id + payload)

    def send(self, first: int, body: bytes) -> None:
        """Send a packet."""
        size, head = len(body), bytearray((first,))
        while size > 0x7F:
            head.append(size & 0x7F | 0x80)
            size >>= 7
        self._transport.write(bytes((*head, size)) + body)

    def data_received(self, data: bytes) -> None:
        """Hand on each packet."""
        data = self._rest + data
        at = 0
        while (found := _packet(data, at)) is not None:
            start, stop = found
            kind = data[at] >> 4
            if kind in (CONNACK, SUBACK):
                self._refusal = data[stop - 1] if kind == CONNACK else data[stop - 1] & 0x80
                self._answered.set()
            else:
                self._taken(kind, data[start:stop])
            at = stop
        self._rest = data[at:]

    def connection_lost(self, error: Exception | None) -> None:
        """Remember that it is over."""
        self.is_open = False

    def close(self) -> None:
        """Go with a word, so that no will is said."""
        self._transport.write(b"\xe0\0")
        self._transport.close()

    def vanish(self) -> None:
        """Go without a word, as a device whose battery is empty."""
        self._transport.abort()


def text(words: str) -> bytes:
    """Return text as MQTT writes it."""
    data = words.encode()
    return size_of(data) + data


def size_of(data: bytes) -> bytes:
    """Return the two bytes that stand before a field."""
    return len(data).to_bytes(2, "big")


def _packet(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where a packet's body starts and stops; None if it is not all there."""
    size = shift = 0
    for place in range(at + 1, min(at + 5, len(data))):
        size |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            stop = place + 1 + size
            return (place + 1, stop) if stop <= len(data) else None
    return None

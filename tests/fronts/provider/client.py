"""A client of the provider's protocol written from docs/protocols/provider.md alone."""

import json
import socket
import struct
from typing import Any, NamedTuple

DATA, ACK, SUBSCRIBE, COMMIT_OFFSET, RESET, READY, DISCONNECT, HEARTBEAT = range(1, 9)
TIMEOUT_S = 60.0

Headers = tuple[tuple[str, bytes | None], ...]


class Frame(NamedTuple):
    """One frame as it came."""

    kind: int
    id: int
    payload: bytes

    @property
    def status(self) -> int:
        """Return the status of an ACK or DISCONNECT."""
        return int(struct.unpack_from(">H", self.payload)[0])

    @property
    def text(self) -> str:
        """Return what an ACK or DISCONNECT says besides its status."""
        return self.payload[2:].decode()

    @property
    def place(self) -> tuple[int, int]:
        """Return partition and offset of a pushed message."""
        return self.id >> 48, self.id & (1 << 48) - 1


class Message(NamedTuple):
    """A pushed message, taken apart."""

    id: int
    deliveries: int
    timestamp: int
    key: bytes | None
    headers: Headers
    value: bytes | None


class Client:
    """A socket that speaks the protocol."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self._unread = bytearray()
        self.pushed: list[Frame] = []
        """What was pushed while something else was waited for."""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, kind: int, number: int = 0, payload: bytes = b"") -> None:
        self.socket.sendall(struct.pack(">BQi", kind, number, len(payload)) + payload)

    def receive(self) -> Frame:
        """Return the next frame that is no sign of life."""
        while True:
            kind, number, size = struct.unpack(">BQi", self._exactly(13))
            frame = Frame(kind, number, self._exactly(size))
            if (kind, number) != (HEARTBEAT, 0):
                return frame

    def answer(self, number: int) -> Frame:
        """Return the answer to a frame; what is pushed meanwhile is kept."""
        while (frame := self.receive()).kind in (DATA, RESET, READY):
            self.pushed.append(frame)
        assert (frame.kind, frame.id) in ((ACK, number), (HEARTBEAT, number)), frame
        return frame

    def push(self) -> Frame:
        """Return the next frame that was pushed."""
        if self.pushed:
            return self.pushed.pop(0)
        frame = self.receive()
        assert frame.kind in (DATA, RESET, READY), frame
        return frame

    def take(self, count: int) -> list[Message]:
        """Return so many messages."""
        return [message(self.push()) for _ in range(count)]

    def subscribe(self, topic: str, **options: Any) -> dict[str, int]:
        """Subscribe, and return where that begins."""
        self.send(SUBSCRIBE, 7, json.dumps({"topic": topic, **options}).encode())
        answer = self.answer(7)
        assert answer.status == 0, answer.text
        positions: dict[str, int] = json.loads(answer.text)["positions"]
        return positions

    def publish(self, topic: str, *values: bytes | None, **more: Any) -> list[tuple[int, int]]:
        """Publish values, and return where they lie when all are safe."""
        for number, value in enumerate(values, 100):
            self.send(DATA, number, data(topic, value, **more))
        places = []
        for number in range(100, 100 + len(values)):
            answer = self.answer(number)
            assert answer.status == 0, answer.text
            places.append(struct.unpack(">iq", answer.payload[2:]))
        return places

    def acknowledge(self, *ids: int) -> None:
        """Acknowledge messages one by one, in one write."""
        self.socket.sendall(b"".join(struct.pack(">BQi", ACK, one, 0) for one in ids))

    def commit(self, partition: int, offset: int) -> Frame:
        """Commit an offset, and return the answer."""
        self.send(COMMIT_OFFSET, 55, struct.pack(">iq", partition, offset))
        return self.answer(55)

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            part = self.socket.recv(1 << 18)
            if not part:
                raise EOFError
            self._unread += part
        data = bytes(self._unread[:size])
        del self._unread[:size]
        return data


def data(
    topic: str,
    value: bytes | None,
    key: bytes | None = None,
    headers: Headers = (),
    timestamp: int = -1,
    partition: int = -1,
) -> bytes:
    """Return the payload of a DATA frame."""
    name = topic.encode()
    parts = [struct.pack(">H", len(name)), name, struct.pack(">iq", partition, timestamp)]
    parts += [sized(key), struct.pack(">H", len(headers))]
    for header, content in headers:
        parts += [struct.pack(">H", len(header.encode())), header.encode(), sized(content)]
    return b"".join([*parts, sized(value)])


def sized(content: bytes | None) -> bytes:
    """Return bytes with their size before them; -1 for none."""
    if content is None:
        return struct.pack(">i", -1)
    return struct.pack(">i", len(content)) + content


def message(frame: Frame) -> Message:
    """Take a pushed DATA frame apart."""
    assert frame.kind == DATA, frame
    payload = frame.payload
    deliveries, timestamp = struct.unpack_from(">Hq", payload)
    key, at = _bytes(payload, 10)
    (count,) = struct.unpack_from(">H", payload, at)
    at += 2
    headers = []
    for _ in range(count):
        (size,) = struct.unpack_from(">H", payload, at)
        name = payload[at + 2 : at + 2 + size].decode()
        content, at = _bytes(payload, at + 2 + size)
        headers.append((name, content))
    value, at = _bytes(payload, at)
    assert at == len(payload)
    return Message(frame.id, deliveries, timestamp, key, tuple(headers), value)


def _bytes(payload: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", payload, at)
    at += 4
    return (None, at) if size < 0 else (payload[at : at + size], at + size)

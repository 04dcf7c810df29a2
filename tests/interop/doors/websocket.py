"""The WebSocket gateway, in both of its sub-protocols."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.interop.doors.door import Sample
from tests.running_node import RunningNode

TIMEOUT_S = 60
BASE64 = "base64"


class WebSocketJson:
    """Bytes in base64; carries everything."""

    subprotocol = "chordmq.json"

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        with self._connect(node) as socket:
            self._send(socket, {"type": "publish", "topic": topic} | self._message(sample))
            answer = self._receive(socket)
            assert answer["type"] == "published", answer

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        found: list[Sample] = []
        with self._connect(node) as socket:
            start = {"type": "subscribe", "id": 1, "topic": topic, "start": "earliest"}
            self._send(socket, start)
            assert self._receive(socket)["type"] == "subscribed"
            while len(found) < count:
                found += map(self._sample, self._receive(socket)["records"])
        return found

    def carried(self, sample: Sample) -> Sample:
        return sample

    @contextmanager
    def _connect(self, node: RunningNode) -> Iterator[ClientConnection]:
        url = f"ws://127.0.0.1:{node.http_address[1]}/ws"
        protocols = [Subprotocol(self.subprotocol)]
        with connect(url, subprotocols=protocols, max_size=None, open_timeout=60) as socket:
            assert self._receive(socket)["type"] == "welcome"
            yield socket

    def _send(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        socket.send(json.dumps(message))

    def _receive(self, socket: ClientConnection) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(socket.recv(TIMEOUT_S))
        return told

    def _message(self, sample: Sample) -> dict[str, Any]:
        return {
            "key": _text(sample.key),
            "key_encoding": BASE64,
            "value": _text(sample.value),
            "encoding": BASE64,
            "headers": [
                {"name": name, "value": _text(value), "encoding": BASE64}
                for name, value in sample.headers
            ],
            "timestamp": sample.timestamp,
        }

    def _sample(self, record: dict[str, Any]) -> Sample:
        return Sample(
            _bytes(record["key"], record["key_encoding"]),
            _bytes(record["value"], record["encoding"]),
            tuple(
                (header["name"], _bytes(header["value"], header.get("encoding", "utf-8")))
                for header in record.get("headers", ())
            ),
            record["timestamp"],
        )


class WebSocketMsgpack(WebSocketJson):
    """Bytes as they are; carries everything."""

    subprotocol = "chordmq.msgpack"

    def _send(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        socket.send(msgspec.msgpack.encode(message))

    def _receive(self, socket: ClientConnection) -> dict[str, Any]:
        data = socket.recv(TIMEOUT_S)
        assert isinstance(data, bytes)
        told: dict[str, Any] = msgspec.msgpack.decode(data)
        return told

    def _message(self, sample: Sample) -> dict[str, Any]:
        return sample._asdict()

    def _sample(self, record: dict[str, Any]) -> Sample:
        headers = tuple((name, value) for name, value in record.get("headers", ()))
        return Sample(record["key"], record["value"], headers, record["timestamp"])


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None, encoding: str) -> bytes | None:
    if text is None:
        return None
    return base64.b64decode(text) if encoding == BASE64 else text.encode()

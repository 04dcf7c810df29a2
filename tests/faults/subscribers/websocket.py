"""A client of the WebSocket gateway: keeps its position itself, or acknowledges a shared index."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from tests.faults.subscribers.subscriber import Wanted, remember

REMEMBER_EVERY = 100


class WebSocket:
    """With an index of its own it remembers its position now and then."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        url = f"ws://127.0.0.1:{wanted.ports['http']}/ws"
        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(url, max_size=None, open_timeout=60, close_timeout=0.1)
        )
        assert json.loads(self._socket.recv())["type"] == "welcome"
        ask: dict[str, Any] = {"type": "subscribe", "id": 1, "topic": wanted.topic}
        ask["start"] = "earliest"
        if wanted.kind == "shared":
            ask |= {"group": wanted.name, "credit": 200}
        elif Path(wanted.memory).exists():
            del ask["start"]
            ask["positions"] = {wanted.topic: Path(wanted.memory).read_text()}
        self._send(**ask)

    def messages(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        while True:
            told = json.loads(self._socket.recv())
            assert told["type"] in ("records", "subscribed", "acknowledged"), told
            for record in told.get("records", ()):
                yield record, record["value"].encode()

    def processed(self, token: dict[str, Any]) -> None:
        partition, offset = token["partition"], token["offset"]
        if self._wanted.kind == "own":
            if offset % REMEMBER_EVERY == 0:
                remember(self._wanted.memory, f"{partition}:{offset + 1}")
            return
        place = {"topic": self._wanted.topic, "partition": partition, "offset": offset}
        self._send(type="ack", id=1, **place)

    def _send(self, **message: Any) -> None:
        self._socket.send(json.dumps(message))

    def close(self) -> None:
        self._open.close()

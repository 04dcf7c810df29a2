"""A WebSocket client that follows a topic at one node, and goes on at another where it stopped."""

import json
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.running_node import RunningNode

LOOK_S = 0.2


class Following:
    """Remembers the values that came, in order, and the position after them."""

    def __init__(self, node: RunningNode, topic: str) -> None:
        self.values: list[int] = []
        self.others: list[dict[str, Any]] = []
        """What was told besides records."""
        self._topic = topic
        self._position = ""
        self._stop = Event()
        self._begin(node)

    def move(self, node: RunningNode) -> None:
        """Leave the node, and go on at another."""
        self.close()
        self._begin(node)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _begin(self, node: RunningNode) -> None:
        self._stop.clear()
        self._thread = Thread(target=self._run, args=(node,))
        self._thread.start()

    def _run(self, node: RunningNode) -> None:
        url = f"ws://127.0.0.1:{node.http_address[1]}/ws"
        protocols = [Subprotocol("chordmq.json")]
        with connect(url, subprotocols=protocols, max_size=None, open_timeout=60) as socket:
            wanted = {"type": "subscribe", "id": 1, "topic": self._topic, "start": "earliest"}
            if self._position:
                wanted["positions"] = {self._topic: self._position}
            socket.send(json.dumps(wanted))
            while not self._stop.is_set():
                try:
                    self._take(json.loads(socket.recv(LOOK_S)))
                except TimeoutError:
                    continue
                except ConnectionClosed:
                    return

    def _take(self, told: dict[str, Any]) -> None:
        if told["type"] == "records":
            self.values += [int(record["value"]) for record in told["records"]]
            self._position = told["position"]
        elif told["type"] not in ("welcome", "subscribed"):
            self.others.append(told)


def has(follower: Following, count: int) -> Callable[[], bool]:
    """Return a condition: so many values have come."""
    return lambda: len(follower.values) >= count

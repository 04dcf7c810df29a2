"""A device for tests, which paho speaks for, and a client that asks over HTTP."""

import json
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import paho.mqtt.client as mqtt
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from tests.running_node import RunningNode

TIMEOUT_S = 60.0
GONE = (httpx.TransportError, httpx.HTTPStatusError)


class Thing:
    """A device: does what commands say, once for each id, and remembers what it was told."""

    def __init__(
        self, node: RunningNode, name: str, *, is_clean: bool = True, obeys: bool = True
    ) -> None:
        self.name = name
        self.root = f"iotsphere/devices/{name}"
        self.executed: list[str] = []
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.heard: list[tuple[str, Any]] = []
        """All that was ever told, while more may come."""
        self._obeys = obeys
        self.client = Client(CallbackAPIVersion.VERSION2, name, clean_session=is_clean)
        self.client.on_message = self._hear
        self.client.on_connect = lambda client, *_: client.subscribe(
            [(f"{self.root}/shadow/#", 1), (f"{self.root}/commands/+/request", 1)]
        )
        self._subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.reconnect_delay_set(1, 1)
        self.client.will_set(f"{self.root}/status", "offline", 1)
        self._address = node.mqtt_address

    def __enter__(self) -> "Thing":
        self.client.connect(*self._address)
        self.client.loop_start()
        assert self._subscribed.wait(TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def publish(self, path: str, told: object) -> None:
        """Publish below the device's name, and wait until the node has it."""
        value = told if isinstance(told, str) else json.dumps(told)
        info = self.client.publish(f"{self.root}/{path}", value, 1)
        info.wait_for_publish(TIMEOUT_S)
        assert info.is_published()

    def wait_for(self, path: str, is_it: Callable[[Any], bool] = lambda _: True) -> Any:
        """Return the next message below the device's name that is the one."""
        deadline = time.monotonic() + TIMEOUT_S
        while (left_s := deadline - time.monotonic()) > 0:
            found, told = self.told.get(timeout=left_s)
            if found == path and is_it(told):
                return told
        raise AssertionError(f"no {path}")

    def _hear(self, client: mqtt.Client, _: object, message: MQTTMessage) -> None:
        path = message.topic.removeprefix(f"{self.root}/")
        told = json.loads(message.payload or b"{}")
        told = told.get("payload", told)
        self.heard.append((path, told))
        self.told.put((path, told))
        if not path.endswith("/request") or not self._obeys:
            return
        if told["id"] not in self.executed:
            self.executed.append(told["id"])
        answer = {"id": told["id"], "status": "succeeded", "result": told["parameters"]}
        client.publish(message.topic.replace("/request", "/response"), json.dumps(answer), 1)


class Asker:
    """Asks a node over HTTP."""

    def __init__(self, node: RunningNode) -> None:
        self._client = httpx.Client(base_url=node.http, timeout=TIMEOUT_S)

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __call__(self, method: str, path: str, body: object = None) -> httpx.Response:
        return self._client.request(method, f"/v1/devices{path}", json=body)

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """Return what is answered; raise if it is a refusal."""
        answer = self(method, path, body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def insist(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Ask until a node is there that answers."""
        deadline = time.monotonic() + 2 * TIMEOUT_S
        while True:
            try:
                answer = self(method, path, body)
            except httpx.TransportError:
                answer = httpx.Response(503)
            if answer.status_code < 500:
                return answer
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.05)  # until the node is back


def until(is_so: Callable[[], bool]) -> None:
    """Return when it is so; fail if that takes too long."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)

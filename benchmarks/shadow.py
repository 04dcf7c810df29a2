"""Loads the service that looks after devices: shadow updates over MQTT, counted by its answers."""

import json
import statistics
import struct
import threading
import time
from pathlib import Path

from benchmarks.mqtt import Client
from benchmarks.peers import FRONTS
from benchmarks.session import Sample, Session

DEVICES = 100
UPDATES = 20_000
ROUND_TRIPS = 500
JOINED = 100
WINDOW = 2_000
PAYLOAD_SIZE = 120
READ_BYTES = 1 << 18
ROOT = "iotsphere/devices"
MARK = b'"messageId"'
"""Once in each answer."""
COMMAND = "python -m benchmarks --case shadow"


class Answers:
    """A subscriber that counts what the service accepts."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._client = Client(address, "bench-answers")
        self._client.subscribe(f"{ROOT}/+/shadow/update/accepted".encode(), 0)
        self._rest = b""
        self.count = 0

    def wait_for(self, count: int) -> None:
        """Read until so many have come."""
        while self.count < count:
            data = self._client.socket.recv(READ_BYTES)
            if not data:
                raise ConnectionError("the node hung up")
            data = self._rest + data
            self.count += data.count(MARK)
            self._rest = data[-len(MARK) + 1 :]

    def close(self) -> None:
        """Hang up."""
        self._client.socket.close()


def shadow(session: Session) -> list[Sample]:
    """Update the shadows of 100 devices as fast as the answers come, then one by one."""
    if not session.ours:
        return []
    ports = map(int, (Path(session.peer.directory) / "ports").read_text().split())
    address = ("127.0.0.1", dict(zip(FRONTS, ports, strict=True))["mqtt"])
    writer, answers = Client(address, "bench-devices"), Answers(address)
    with session.metered() as meter:
        began = time.perf_counter()
        rate = UPDATES / _load(writer, answers, began)
    cost = (meter.cpu_s, meter.rss_mb, COMMAND)
    found_ms = []
    for number in range(ROUND_TRIPS):
        began = time.perf_counter()
        writer.socket.sendall(_update(number))
        answers.wait_for(UPDATES + number + 1)
        found_ms.append((time.perf_counter() - began) * 1000)
    writer.socket.close()
    answers.close()
    percentiles = statistics.quantiles(found_ms, n=100)
    return [
        Sample("shadow_updates", rate, "updates/s", *cost),
        Sample("shadow_latency.p50", percentiles[49], "ms", *cost),
        Sample("shadow_latency.p99", percentiles[98], "ms", *cost),
    ]


def _load(writer: Client, answers: Answers, began: float) -> float:
    """Send all updates, with at most so many unanswered; return how long the answers took."""
    room = threading.Semaphore(WINDOW // JOINED)

    def send() -> None:
        for first in range(0, UPDATES, JOINED):
            room.acquire()
            updates = (_update(number) for number in range(first, first + JOINED))
            writer.socket.sendall(b"".join(updates))

    sender = threading.Thread(target=send)
    sender.start()
    for count in range(JOINED, UPDATES + 1, JOINED):
        answers.wait_for(count)
        room.release()
    took_s = time.perf_counter() - began
    sender.join()
    return took_s


def _update(number: int) -> bytes:
    """Return an update of QoS 0: what a device reports of itself."""
    state = {"temperature": number % 40, "battery": number % 100, "firmware": "1.4.2"}
    topic = f"{ROOT}/bench-{number % DEVICES}/shadow/update".encode()
    payload = json.dumps({"state": {"reported": state}}).encode().ljust(PAYLOAD_SIZE)
    body = struct.pack(">H", len(topic)) + topic + payload
    return bytes((0x30, len(body) & 0x7F | 0x80, len(body) >> 7)) + body

"""Loads the WebSocket gateway with plain sockets: one producer to 100 clients, and latency.

Beside it a server that only hands out and stores nothing (websocket_plain.py) gets the same.
"""

import json
import selectors
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import sockets
from benchmarks.peers import free_port
from benchmarks.servers import Running, run_server
from benchmarks.session import Sample, Session
from benchmarks.usage import usage_of

CLIENTS = 100
MESSAGES = 20_000
BATCH = (100, 100)
"""Messages in a batch, and bytes in a message."""
WINDOW = 8
ROUND_TRIPS = 2_000
TIMEOUT_S = 120.0
READ_BYTES = 1 << 20
COMMAND = "python -m benchmarks --case websocket"
OFFSET = b'"offset":'
HANDSHAKE = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
NO_MASK = bytes(4)
LENGTH_MIN = 126
"""From which on a length has two bytes; shorter messages get spaces at their end."""


class Client:
    """A WebSocket that counts records by their offsets, so that the node is the bottleneck."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(HANDSHAKE.encode())
        self.count = 0
        self._rest = b""
        self.read_until(b'"welcome"')

    def send(self, **message: object) -> None:
        """Send a message; masked, as it must be, by zeros."""
        data = json.dumps(message).encode().ljust(LENGTH_MIN)
        self.socket.sendall(struct.pack(">BBH", 0x81, 0xFE, len(data)) + NO_MASK + data)

    def read_until(self, text: bytes) -> None:
        """Read until a text has come."""
        seen = b""
        while text not in seen:
            seen += self._receive()

    def read(self) -> None:
        """Count the records in what has come; one may be cut in two."""
        data = self._rest + self._receive()
        self.count += data.count(OFFSET)
        keep = len(OFFSET) - 1
        self._rest = data[-keep:]

    def _receive(self) -> bytes:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the gateway hung up")
        return data


def websocket(session: Session) -> list[Sample]:
    """Push 100-byte messages to 100 clients, then single ones to one client."""
    if not session.ours:
        return []
    port = int((Path(session.peer.directory) / "ports").read_text().split()[1])
    address = ("127.0.0.1", port)
    topic = session.topic()
    produce = partial(
        sockets.produce_pipelined,
        session.bootstrap, topic, BATCH, (TIMEOUT_S, MESSAGES // BATCH[0]), WINDOW,
    )  # fmt: skip
    samples = _measure("websocket", (address, session.peer.pid), topic, produce)
    with plain() as running:
        samples += _measure("websockets", running, topic, partial(_burst, running[0]))
    return samples


def _measure(
    name: str, running: Running, topic: str, produce: Callable[[], object]
) -> list[Sample]:
    address, pid = running
    before = usage_of(pid)
    rate = _fan_out(address, topic, produce)
    after = usage_of(pid)
    cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
    percentiles = statistics.quantiles(_round_trips_ms(address, topic), n=100)
    return [
        Sample(f"{name}_fan_out_100", rate, "deliveries/s", *cost),
        Sample(f"{name}_latency.p50", percentiles[49], "ms", *cost),
        Sample(f"{name}_latency.p99", percentiles[98], "ms", *cost),
    ]


@contextmanager
def plain() -> Iterator[Running]:
    """Run the server that stores nothing, for the length of a block."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.websocket_plain", str(port)]
    with run_server(command, port) as found:
        yield found


def _burst(address: tuple[str, int]) -> None:
    """Have the plain server send by itself, so that it has nothing to receive."""
    client = Client(address)
    client.send(type="publish", value="x" * BATCH[1], count=MESSAGES)
    client.read_until(b'"published"')
    client.socket.close()


def _fan_out(address: tuple[str, int], topic: str, produce: Callable[[], object]) -> float:
    """Return deliveries a second."""
    clients = [Client(address) for _ in range(CLIENTS)]
    for client in clients:
        client.send(type="subscribe", id=1, topic=topic)
        client.read_until(b'"subscribed"')
    producing = threading.Thread(target=produce)
    began = time.perf_counter()
    producing.start()
    _read_all(clients, MESSAGES)
    took_s = time.perf_counter() - began
    producing.join()
    for client in clients:
        client.socket.close()
    return CLIENTS * MESSAGES / took_s


def _read_all(clients: list[Client], count: int) -> None:
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map():
            ready = selector.select(TIMEOUT_S)
            if not ready:
                raise TimeoutError("no more messages came")
            for key, _ in ready:
                key.data.read()
                if key.data.count >= count:
                    selector.unregister(key.fileobj)


def _round_trips_ms(address: tuple[str, int], topic: str) -> list[float]:
    """Measure from the sending of a message to its arrival at another client."""
    writer, reader = Client(address), Client(address)
    reader.send(type="subscribe", id=1, topic=topic)
    reader.read_until(b'"subscribed"')
    found_ms = []
    for number in range(ROUND_TRIPS):
        began = time.perf_counter()
        writer.send(type="publish", topic=topic, value="x" * 60)
        while reader.count <= number:
            reader.read()
        found_ms.append((time.perf_counter() - began) * 1000)
        writer.read_until(b'"published"')
    writer.socket.close()
    reader.socket.close()
    return found_ms

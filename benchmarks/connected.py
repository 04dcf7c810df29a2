"""Measures the memory of a node for each client that is connected and says nothing."""

import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import sockets, wire
from benchmarks.mqtt import Client
from benchmarks.peers import FRONTS, ROOT, Peer, start_chordmq
from benchmarks.session import Sample, Session
from benchmarks.usage import usage_of

CONNECTIONS = 20_000
SETTLE_S = 1.0
COMMAND = "python -m benchmarks --case connected"

Open = Callable[[Peer, int], socket.socket]
"""Opens the connection with a number, which has been served once when it is returned."""


def devices(node: Peer, number: int) -> socket.socket:
    """Connect a device over MQTT that waits for its commands."""
    port = int((node.directory / "ports").read_text().split()[FRONTS.index("mqtt")])
    client = Client(("127.0.0.1", port), f"device-{number}", source=_source(number))
    client.subscribe(b"devices/%d/commands" % number, 1)
    return client.socket


def clients(node: Peer, number: int) -> socket.socket:
    """Connect a client of Kafka's that has asked for the cluster."""
    sock = wire.connect(node.bootstrap, _source(number))
    wire.ask(sock, wire.metadata_request())
    return sock


def _source(number: int) -> str:
    return sockets.SOURCES[number % len(sockets.SOURCES)]


def connected(session: Session) -> list[Sample]:
    """Report what devices and Kafka clients cost while they are idle, on a node of their own."""
    if not session.ours:
        return []
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = min(CONNECTIONS, hard - 2 * sockets.SPARE_FILES)
    return [_measure("mqtt", devices, count), _measure("kafka", clients, count)]


def _measure(front: str, connect: Open, count: int) -> Sample:
    directory = Path(tempfile.mkdtemp(dir=ROOT / ".cache" / "bench"))
    node = start_chordmq(directory, is_open=False)  # ready only when all fronts are
    opened: list[socket.socket] = []
    try:
        sockets.allow_files(count + sockets.SPARE_FILES)
        connect(node, count).close()  # whatever is made for the first of them
        time.sleep(SETTLE_S)
        before = usage_of(node.pid)
        opened += (connect(node, number) for number in range(count))
        time.sleep(SETTLE_S)
        after = usage_of(node.pid)
    finally:
        sockets.close_connections(opened)
        node.stop()
        shutil.rmtree(directory, ignore_errors=True)
    each_kb = (after.rss_mb - before.rss_mb) * 1024 / count
    cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
    return Sample(f"connected_{front}", each_kb, f"KB each of {count:,}", *cost)

"""Loads MQTT brokers with plain sockets: this node and mosquitto in turn, with the same bytes."""

import shutil
import socket
import statistics
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import free_port
from benchmarks.session import Sample, Session
from benchmarks.usage import usage_of

PAYLOAD = b"x" * 100
MESSAGES = {0: 400_000, 1: 150_000}
WINDOW = 1_000
SEND_BYTES = 64 * 1024
READ_BYTES = 1 << 18
ROUND_TRIPS = 2_000
TIMEOUT_S = 60.0
COMMAND = "python -m benchmarks --case mqtt"
PUBACK = b"\x40\x02"


class Client:
    """A client that counts packets by their size, so that the broker is the bottleneck."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = b"\0\x04MQTT\x04\x02\0\0" + _text(name.encode())
        self.socket.sendall(bytes((0x10, len(body))) + body)
        self.expect(4)

    def subscribe(self, topic: bytes, qos: int) -> None:
        """Subscribe, and wait until that counts."""
        body = b"\0\x01" + _text(topic) + bytes((qos,))
        self.socket.sendall(bytes((0x82, len(body))) + body)
        self.expect(5)

    def expect(self, size: int) -> bytes:
        """Return so many bytes."""
        found = b""
        while len(found) < size:
            more = self.socket.recv(size - len(found))
            if not more:
                raise ConnectionError("the broker hung up")
            found += more
        return found


def _text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def packet(topic: bytes, qos: int, number: int = 0) -> bytes:
    """Return a message."""
    identifier = struct.pack(">H", number) if qos else b""
    body = _text(topic) + identifier + PAYLOAD
    size = (
        bytes((len(body) & 0x7F | 0x80, len(body) >> 7)) if len(body) > 127 else bytes((len(body),))
    )
    return bytes((0x30 | qos << 1,)) + size + body


def _publish(client: Client, topic: bytes, count: int) -> None:
    """Send messages of QoS 0 as fast as the broker takes them."""
    one = packet(topic, 0)
    joined = one * (SEND_BYTES // len(one))
    left = count * len(one)
    while left > 0:
        client.socket.sendall(joined[:left])
        left -= len(joined)


def _publish_certain(client: Client, topic: bytes, count: int) -> None:
    """Send messages of QoS 1, with at most so many unanswered."""
    sent = answered = 0
    numbered = [packet(topic, 1, number) for number in range(1, WINDOW + 1)]
    while answered < count:
        room = min(WINDOW - (sent - answered), count - sent)
        if room >= WINDOW // 4 or (room and sent + room == count):
            client.socket.sendall(
                b"".join(numbered[number % WINDOW] for number in range(sent, sent + room))
            )
            sent += room
        data = client.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker hung up")
        answered += len(data) // 4  # a cut answer is counted a little late
        if len(data) % 4:
            client.expect(4 - len(data) % 4)
            answered += 1


def _receive(client: Client, size: int, count: int) -> None:
    """Count messages of QoS 0 by their bytes."""
    left = size * count
    while left > 0:
        data = client.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker hung up")
        left -= len(data)


def _receive_certain(client: Client, size: int, count: int) -> None:
    """Count messages of QoS 1, and answer all of one read at once."""
    at = size - len(PAYLOAD) - 2  # the identifier stands before the payload
    rest, found = b"", 0
    while found < count:
        data = client.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker hung up")
        data = rest + data
        whole = len(data) // size
        client.socket.sendall(
            b"".join(PUBACK + data[one + at : one + at + 2] for one in range(0, whole * size, size))
        )
        rest = data[whole * size :]
        found += whole


def throughput(address: tuple[str, int], qos: int, count: int, topic: bytes) -> float:
    """Return messages per second from one client to another."""
    reader, writer = Client(address, f"reader{qos}"), Client(address, f"writer{qos}")
    reader.subscribe(topic, qos)
    size = len(packet(topic, qos, 1))
    publish = _publish_certain if qos else _publish
    sending = threading.Thread(target=publish, args=(writer, topic, count))
    began = time.perf_counter()
    sending.start()
    if qos:
        _receive_certain(reader, size, count)
    else:
        _receive(reader, size, count)
    took_s = time.perf_counter() - began
    sending.join()
    for client in (reader, writer):
        client.socket.close()
    return count / took_s


def latency(address: tuple[str, int], topic: bytes) -> tuple[float, float]:
    """Return milliseconds from one client to another at QoS 1, median and 99th percentile."""
    reader, writer = Client(address, "late-reader"), Client(address, "late-writer")
    reader.subscribe(topic, 1)
    size = len(packet(topic, 1, 1))
    found_ms = []
    for number in range(1, ROUND_TRIPS + 1):
        began = time.perf_counter()
        writer.socket.sendall(packet(topic, 1, number))
        data = reader.expect(size)
        found_ms.append((time.perf_counter() - began) * 1000)
        at = size - len(PAYLOAD) - 2
        reader.socket.sendall(PUBACK + data[at : at + 2])
        writer.expect(4)
    for client in (reader, writer):
        client.socket.close()
    percentiles = statistics.quantiles(found_ms, n=100)
    return percentiles[49], percentiles[98]


def mqtt(session: Session) -> list[Sample]:
    """Measure one to one with QoS 0 and 1, and latency; mosquitto gets the same."""
    if not session.ours:
        return []
    port = int((Path(session.peer.directory) / "ports").read_text().split()[4])
    topic = session.topic(durability="os").encode()
    samples = _measure("mqtt", ("127.0.0.1", port), topic, session.peer.pid)
    with mosquitto(session.peer.directory) as (address, pid):
        samples += _measure("mosquitto", address, topic, pid)
    return samples


def _measure(name: str, address: tuple[str, int], topic: bytes, pid: int) -> list[Sample]:
    samples = []
    for qos, count in MESSAGES.items():
        before = usage_of(pid)
        rate = throughput(address, qos, count, topic)
        after = usage_of(pid)
        cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
        samples.append(Sample(f"{name}_qos{qos}", rate, "msg/s", *cost))
    before = usage_of(pid)
    median, slowest = latency(address, topic)
    after = usage_of(pid)
    cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
    samples.append(Sample(f"{name}_latency.p50", median, "ms", *cost))
    samples.append(Sample(f"{name}_latency.p99", slowest, "ms", *cost))
    return samples


@contextmanager
def mosquitto(directory: Path) -> Iterator[tuple[tuple[str, int], int]]:
    """Run a mosquitto for the length of a block; give its address and process id."""
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    address = ("127.0.0.1", free_port())
    settings = Path(directory) / "mosquitto.conf"
    settings.write_text(
        f"listener {address[1]} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\n"
        "max_queued_messages 0\nset_tcp_nodelay true\n"
    )
    process = subprocess.Popen(
        [program, "-c", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(address)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: tuple[str, int]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            socket.create_connection(address, timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)

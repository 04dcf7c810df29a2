"""Durable streams: 100-byte messages, each acknowledged, against NATS JetStream and Redis Streams.

Messages go in one by one over the node's provider protocol, and come out in bulk over Kafka's, as
Redis gives ranges and JetStream pushes to consumers that acknowledge nothing. Equal durability:
JetStream writes to its file and flushes every two minutes, which is `flush=os`; Redis flushes
before it answers (`appendfsync always`), which is `flush=disk`. What was acknowledged is read back,
by clients that count and look at nothing else.
"""

import json
import shutil
import socket
import time
from pathlib import Path

from benchmarks import pushed, sockets
from benchmarks.peers import PeerFailed, free_port
from benchmarks.servers import run_server
from benchmarks.session import CountMismatch, Sample, Session
from benchmarks.usage import usage_of

MESSAGES = 100_000
SIZE = 100
BLOCK = 500
AHEAD = 8_000
TIMEOUT_S = 60.0
READ_BYTES = 1 << 20
COMMAND = "python -m benchmarks --case streams"


def streams(session: Session) -> list[Sample]:
    """Measure writing and reading one stream."""
    if session.ours:
        return [*_ours(session, "nats", "os"), *_ours(session, "redis", "disk")]
    directory = Path(session.peer.directory) / "streams"
    directory.mkdir()
    return [*_nats(directory), *_redis(directory)]


def _ours(session: Session, peer: str, durability: str) -> list[Sample]:
    # The first client has the node load the front; the peers' clients are served before, as well.
    pushed.produce(session, pushed.PROVIDER_DIALECT, session.topic(durability=durability), BLOCK)
    topic = session.topic(durability=durability)
    with session.metered() as meter:
        began = time.perf_counter()
        pushed.produce(session, pushed.PROVIDER_DIALECT, topic, MESSAGES)
        written_s = time.perf_counter() - began
    session.expect(topic, 1, MESSAGES)
    read_s = sockets.read_partition(session.bootstrap, topic, 0, MESSAGES).seconds
    return _samples(peer, durability, (written_s, read_s), (meter.cpu_s, meter.rss_mb))


def _samples(
    peer: str, durability: str, took_s: tuple[float, float], cost: tuple[float, float]
) -> list[Sample]:
    return [
        Sample(
            f"stream_{peer}_{durability}.{way}", MESSAGES / seconds, "msg/s", *cost, COMMAND,
            goal="stream",
        )
        for way, seconds in zip(("in", "out"), took_s, strict=True)
    ]  # fmt: skip


class Line:
    """A connection that is read in whole answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Return what has come next."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the server hung up")
        return data

    def until(self, mark: bytes) -> bytes:
        """Return everything up to a mark."""
        while mark not in self.rest:
            self.rest += self.receive()
        found, _, self.rest = self.rest.partition(mark)
        return found

    def count(self, mark: bytes) -> int:
        """Return how many marks come next, those included that two reads have cut."""
        data = self.rest + self.receive()
        self.rest = data[max(len(data) - len(mark) + 1, 0) :]
        return data.count(mark)


def _written_s(line: Line, block: bytes, answer: bytes) -> float:
    """Send everything with a bounded number under way, and return how long that took.

    Each message is answered once, with something that only answers hold.
    """
    began = time.perf_counter()
    sent = done = 0
    while done < MESSAGES:
        while sent < MESSAGES and sent - done <= AHEAD - BLOCK:
            line.send(block)
            sent += BLOCK
        done += line.count(answer)
    return time.perf_counter() - began


def _nats(directory: Path) -> list[Sample]:
    port = free_port()
    (directory / "nats.conf").write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{directory}/nats" }}\n'
    )
    command = [_program("nats-server"), "-c", str(directory / "nats.conf")]
    with run_server(command, port) as (_, pid):
        line = Line(port)
        line.until(b"\r\n")  # what the server says of itself
        line.send(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB answer.* 1\r\n')
        _ask(line, "STREAM.CREATE.bench", {"name": "bench", "subjects": ["b"], "storage": "file"})
        before = usage_of(pid)
        one = b"PUB b answer.p %d\r\n%b\r\n" % (SIZE, b"x" * SIZE)
        written_s = _written_s(line, one * BLOCK, b"MSG answer.p")
        after = usage_of(pid)
        line.send(b"SUB all 2\r\n")
        settings = {"deliver_subject": "all", "deliver_policy": "all", "ack_policy": "none"}
        began = time.perf_counter()
        asked = {"stream_name": "bench", "config": settings}
        line.send(_request("CONSUMER.CREATE.bench", asked))
        found = 0
        while found < MESSAGES:
            found += line.count(b"\r\nx")
        read_s = time.perf_counter() - began
    cost = (after.cpu_s - before.cpu_s, after.rss_mb)
    return _samples("nats", "os", (written_s, read_s), cost)


def _request(subject: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"PUB $JS.API.%b answer.a %d\r\n%b\r\n" % (subject.encode(), len(text), text)


def _ask(line: Line, subject: str, body: object) -> None:
    line.send(_request(subject, body))
    head = line.until(b"\r\n")
    answer = line.until(b"\r\n")
    if b"error" in answer or not head.startswith(b"MSG"):
        raise PeerFailed(f"NATS: {head!r} {answer!r}")


def _redis(directory: Path) -> list[Sample]:
    port = free_port()
    settings = {"port": port, "bind": "127.0.0.1", "dir": directory, "save": "",
                "appendonly": "yes", "appendfsync": "always"}  # fmt: skip
    command = [_program("redis-server")]
    for name, value in settings.items():
        command += [f"--{name}", str(value)]
    with run_server(command, port) as (_, pid):
        line = Line(port)
        one = _resp("XADD", "bench", "*", "v", "x" * SIZE)
        before = usage_of(pid)
        written_s = _written_s(line, one * BLOCK, b"$")
        after = usage_of(pid)
        began = time.perf_counter()
        line.send(_resp("XRANGE", "bench", "-", "+"))
        found = 0
        while found < MESSAGES:
            found += line.count(b"\nx")
        read_s = time.perf_counter() - began
        if found != MESSAGES:
            raise CountMismatch(f"Redis: {MESSAGES} acknowledged, {found} read back")
    cost = (after.cpu_s - before.cpu_s, after.rss_mb)
    return _samples("redis", "disk", (written_s, read_s), cost)


def _resp(*parts: str) -> bytes:
    texts = [part.encode() for part in parts]
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%b\r\n" % (len(one), one) for one in texts)


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        raise PeerFailed(f"{name} is missing: python scripts/system_packages.py test")
    return found

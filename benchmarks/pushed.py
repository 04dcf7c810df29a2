"""Loads the framed and the provider protocol: messages in, messages out, and latency."""

import json
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.session import Sample, Session

MESSAGES = 200_000
SIZE = 100
BLOCK = 500
"""Messages that one write sends."""
BLOCKS_AHEAD = 16
"""Blocks that may be without an answer."""
ROUND_TRIPS = 2_000
TIMEOUT_S = 120.0
READ_BYTES = 1 << 20
FRAMED, PROVIDER = 2, 3
"""Where the file of ports has theirs."""

FRAMED_ACK = struct.pack(">i", 3) + b"ACK"
DATA, ACK, SUBSCRIBE = 1, 2, 3
HEAD = struct.Struct(">BQi")
PUSHED_SIZE = HEAD.size + 20 + SIZE
STORED_SIZE = HEAD.size + 14


class Client:
    """A socket that counts bytes, so that the node is the bottleneck."""

    def __init__(self, session: Session, which: int) -> None:
        port = int((Path(session.peer.directory) / "ports").read_text().split()[which])
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = 0
        self.stored = 0
        """Messages of this client that are safe."""

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def read(self) -> bytes:
        """Return what has come next."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the node hung up")
        self.received += len(data)
        return data

    def read_until(self, total: int) -> None:
        """Read until so many bytes have come altogether."""
        while self.received < total:
            self.read()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a protocol's clients send, and how large the answers are."""

    name: str
    port: int
    block: Callable[[str], bytes]
    """Messages for a topic, to be sent in one write."""
    writer_hello: Callable[[str], bytes]
    reader_hello: Callable[[str], bytes]
    hello_answer: int
    """Bytes that answer the reader's hello, at least; framed has no answer."""
    pushed_size: int
    stored: Callable[[Client, bytes], int]
    """How many messages are safe altogether, after an answer."""
    acks: Callable[[int, int], bytes]
    """Acknowledgements of messages from one number to before another."""


def framed(session: Session) -> list[Sample]:
    """Measure the framed protocol: each message and each acknowledgement is a frame."""
    return _measure(session, FRAMED_DIALECT) if session.ours else []


def provider(session: Session) -> list[Sample]:
    """Measure the provider's protocol: each message acknowledged, in both directions."""
    return _measure(session, PROVIDER_DIALECT) if session.ours else []


def _measure(session: Session, dialect: Dialect) -> list[Sample]:
    topic = session.topic()
    return [
        _write(session, dialect, topic),
        _push(session, dialect, topic),
        _through(session, dialect),
        *_latency(session, dialect),
    ]


def _write(session: Session, dialect: Dialect, topic: str) -> Sample:
    with session.metered() as meter:
        began = time.perf_counter()
        produce(session, dialect, topic, MESSAGES)
        took_s = time.perf_counter() - began
    session.expect(topic, 1, MESSAGES)
    cost = (meter.cpu_s, meter.rss_mb, _command(dialect))
    return Sample(f"{dialect.name}_in_100b", MESSAGES / took_s, "msg/s", *cost)


def produce(session: Session, dialect: Dialect, topic: str, count: int) -> None:
    """Send so many messages; return when each is acknowledged."""
    writer = Client(session, dialect.port)
    block = dialect.block(topic)
    writer.send(dialect.writer_hello(topic))
    sent = stored = 0
    while stored < count:
        while sent < count and sent - stored < BLOCKS_AHEAD * BLOCK:
            writer.send(block)
            sent += BLOCK
        stored = writer.stored = dialect.stored(writer, writer.read())
    writer.close()


def _push(session: Session, dialect: Dialect, topic: str) -> Sample:
    """Have everything pushed that lies there."""
    with session.metered() as meter:
        reader = _subscribed(session, dialect, topic)
        began = time.perf_counter()
        _consume(dialect, reader, MESSAGES)
        took_s = time.perf_counter() - began
    reader.close()
    cost = (meter.cpu_s, meter.rss_mb, _command(dialect))
    return Sample(f"{dialect.name}_out_100b", MESSAGES / took_s, "msg/s", *cost)


def _through(session: Session, dialect: Dialect) -> Sample:
    """Write and have pushed at the same time."""
    topic = session.topic()
    reader = _subscribed(session, dialect, topic)
    writing = threading.Thread(target=produce, args=(session, dialect, topic, MESSAGES))
    with session.metered() as meter:
        began = time.perf_counter()
        writing.start()
        _consume(dialect, reader, MESSAGES)
        took_s = time.perf_counter() - began
        writing.join()
    reader.close()
    cost = (meter.cpu_s, meter.rss_mb, _command(dialect))
    return Sample(f"{dialect.name}_through_100b", MESSAGES / took_s, "msg/s", *cost)


def _subscribed(session: Session, dialect: Dialect, topic: str) -> Client:
    reader = Client(session, dialect.port)
    reader.send(dialect.reader_hello(topic))
    if dialect.hello_answer:
        head = reader.socket.recv(HEAD.size, socket.MSG_WAITALL)
        reader.socket.recv(HEAD.unpack(head)[2], socket.MSG_WAITALL)
    return reader


def _consume(dialect: Dialect, reader: Client, count: int) -> None:
    acknowledged = 0
    while acknowledged < count:
        reader.read()
        got = reader.received // dialect.pushed_size
        if got > acknowledged:
            reader.send(dialect.acks(acknowledged, got))
            acknowledged = got


def _latency(session: Session, dialect: Dialect) -> list[Sample]:
    """Measure from the sending of a message to its arrival at another client."""
    topic = session.topic()
    reader = _subscribed(session, dialect, topic)
    writer = Client(session, dialect.port)
    writer.send(dialect.writer_hello(topic))
    block = dialect.block(topic)
    one = block[: len(block) // BLOCK]
    found_ms = []
    with session.metered() as meter:
        for number in range(ROUND_TRIPS):
            began = time.perf_counter()
            writer.send(one)
            reader.read_until((number + 1) * dialect.pushed_size)
            found_ms.append((time.perf_counter() - began) * 1000)
            reader.send(dialect.acks(number, number + 1))
            while writer.stored <= number:
                writer.stored = dialect.stored(writer, writer.read())
    writer.close()
    reader.close()
    cost = (meter.cpu_s, meter.rss_mb, _command(dialect))
    percentiles = statistics.quantiles(found_ms, n=100)
    return [
        Sample(f"{dialect.name}_latency.p50", percentiles[49], "ms", *cost),
        Sample(f"{dialect.name}_latency.p99", percentiles[98], "ms", *cost),
    ]


def _command(dialect: Dialect) -> str:
    return f"python -m benchmarks --case {dialect.name}"


def _frame(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def _data(topic: str) -> bytes:
    name = topic.encode()
    place = struct.pack(">iqiHi", -1, -1, -1, 0, SIZE)
    payload = struct.pack(">H", len(name)) + name + place + b"x" * SIZE
    return HEAD.pack(DATA, 1, len(payload)) + payload


def _subscription(topic: str) -> bytes:
    payload = json.dumps({"topic": topic, "credit": 10_000}).encode()
    return HEAD.pack(SUBSCRIBE, 1, len(payload)) + payload


_ACKS = b"".join(HEAD.pack(ACK, offset, 0) for offset in range(MESSAGES))

FRAMED_DIALECT = Dialect(
    name="framed",
    port=FRAMED,
    block=lambda topic: _frame(b"x" * SIZE) * BLOCK,
    writer_hello=lambda topic: _frame(f"PRODUCER topic={topic} ack=each".encode()),
    reader_hello=lambda topic: _frame(f"CONSUMER topic={topic} start=earliest".encode()),
    hello_answer=0,
    pushed_size=4 + SIZE,
    stored=lambda writer, data: writer.stored + data.count(b"K"),
    acks=lambda first, end: FRAMED_ACK * (end - first),
)
PROVIDER_DIALECT = Dialect(
    name="provider",
    port=PROVIDER,
    block=lambda topic: _data(topic) * BLOCK,
    writer_hello=lambda topic: b"",
    reader_hello=_subscription,
    hello_answer=HEAD.size,
    pushed_size=PUSHED_SIZE,
    stored=lambda writer, data: writer.received // STORED_SIZE,
    acks=lambda first, end: _ACKS[first * HEAD.size : end * HEAD.size],
)

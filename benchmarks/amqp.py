"""Loads AMQP brokers with plain sockets: this node and RabbitMQ in turn, with the same bytes."""

import itertools
import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pamqp import base, commands, frame, header

from benchmarks.peers import FRONTS
from benchmarks.rabbitmq import RabbitMQ
from benchmarks.session import Sample, Session, median_of_rounds
from benchmarks.usage import usage_of

PAYLOAD = b"x" * 100
MESSAGES = 60_000
FANNED = 20_000
"""In one round; rounds follow each other for as long as the profile says."""
BACKLOG = 100_000
"""Messages that wait before their consumers come."""
QUEUES = 4
WORKERS = 4
PATIENCE_S = 0.2
"""After which a worker that gets nothing looks whether all has been done."""
WINDOW = 1_000
JOINED = 100
"""Messages in one write of the publisher, and between two acknowledgements of the consumer."""
RATE = 1_000
PACED = 3_000
READ_BYTES = 1 << 18
TIMEOUT_S = 120.0
COMMAND = "python -m benchmarks --case amqp"
CLASSIC: dict[str, Any] = {}
QUORUM = {"x-queue-type": "quorum"}
CONFIRM_SIZE = 21

Answer = TypeVar("Answer", bound=base.Frame)
_names = itertools.count()


class Client:
    """A channel that counts messages by their size, so that the broker is the bottleneck."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = bytearray()
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.expect(commands.Connection.Start)
        login = commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US")
        self.socket.sendall(frame.marshal(login, 0))
        tune = self.expect(commands.Connection.Tune)
        tuned = commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0)
        self.socket.sendall(frame.marshal(tuned, 0))
        self.socket.sendall(frame.marshal(commands.Connection.Open("/"), 0))
        self.expect(commands.Connection.OpenOk)
        self.call(commands.Channel.Open(), commands.Channel.OpenOk)

    def call(self, method: base.Frame, answer: type[Answer]) -> Answer:
        """Send a method and return its answer."""
        self.socket.sendall(frame.marshal(method, 1))
        return self.expect(answer)

    def expect(self, kind: type[Answer]) -> Answer:
        """Return the next frame, which must be of a kind."""
        while True:
            if len(self.rest) >= 7:
                size = int.from_bytes(self.rest[3:7], "big") + 8
                if len(self.rest) >= size:
                    _, _, found = frame.unmarshal(bytes(self.rest[:size]))
                    del self.rest[:size]
                    if not isinstance(found, kind):
                        raise ConnectionError(f"{found} instead of {kind.__name__}")
                    return found
            self.rest += self.receive()

    def receive(self) -> bytes:
        """Return what comes next."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker hung up")
        return data


def message(exchange: str, key: str) -> bytes:
    """Return a persistent message."""
    properties = commands.Basic.Properties(delivery_mode=2)
    return (
        frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), 1)
        + frame.marshal(header.ContentHeader(0, len(PAYLOAD), properties), 1)
        + struct.pack(">BHI", 3, 1, len(PAYLOAD))
        + PAYLOAD
        + b"\xce"
    )


def delivered_size(exchange: str, key: str) -> int:
    """Return how many bytes a delivery of such a message has; the consumer tag has one."""
    method = 8 + 4 + 2 + 8 + 1 + 1 + len(exchange) + 1 + len(key)
    return method + (8 + 12 + 2 + 1) + (8 + len(PAYLOAD))


def publish(client: Client, exchange: str, key: str, count: int) -> None:
    """Publish with confirms, with at most so many unconfirmed."""
    joined = message(exchange, key) * JOINED
    sent = confirmed = 0
    rest = bytearray()
    while confirmed < count:
        while sent < count and sent - confirmed <= WINDOW - JOINED:
            client.socket.sendall(joined)
            sent += JOINED
        rest += client.receive()
        while len(rest) >= CONFIRM_SIZE:
            tag, is_multiple = struct.unpack_from(">QB", rest, 11)
            confirmed = max(confirmed, tag) if is_multiple else confirmed + 1
            del rest[:CONFIRM_SIZE]


def consume(client: Client, size: int, count: int) -> None:
    """Count deliveries, and acknowledge many at once."""
    found = len(client.rest)
    acknowledged = 0
    while acknowledged < count:
        whole = found // size
        if whole - acknowledged >= JOINED or whole >= count:
            ack = struct.pack(">BHIIQBB", 1, 1, 13, 0x003C0050, whole, 1, 0xCE)
            client.socket.sendall(ack)
            acknowledged = whole
        if acknowledged < count:
            found += len(client.receive())


def opened(address: tuple[str, int], queue: str, arguments: dict[str, Any]) -> Client:
    """Return a consumer of a new queue."""
    client = Client(address)
    declare = commands.Queue.Declare(queue=queue, durable=True, arguments=arguments)
    client.call(declare, commands.Queue.DeclareOk)
    return client


def begin(client: Client, queue: str) -> None:
    """Begin to consume."""
    client.call(commands.Basic.Qos(0, WINDOW, False), commands.Basic.QosOk)
    begun = commands.Basic.Consume(queue=queue, consumer_tag="c")
    client.call(begun, commands.Basic.ConsumeOk)


def publisher(address: tuple[str, int]) -> Client:
    """Return a client that gets confirms."""
    client = Client(address)
    client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    return client


def one_to_one(address: tuple[str, int], arguments: dict[str, Any], *, is_read: bool) -> float:
    """Return messages per second through a durable queue, from the first to the last."""
    queue = f"bench-{os.getpid()}-{next(_names)}"
    reader, writer = opened(address, queue, arguments), publisher(address)
    reading = threading.Thread(
        target=consume, args=(reader, delivered_size("", queue), MESSAGES if is_read else 0)
    )
    if is_read:
        begin(reader, queue)
    began = time.perf_counter()
    reading.start()
    publish(writer, "", queue, MESSAGES)
    reading.join()
    took_s = time.perf_counter() - began
    writer.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
    reader.socket.close()
    writer.socket.close()
    return MESSAGES / took_s


class Share:
    """What workers of one queue have got together."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self._lock = threading.Lock()
        self.is_done = threading.Event()

    def add(self, count: int) -> None:
        """Count messages of one worker."""
        with self._lock:
            self._left -= count
            if self._left <= 0:
                self.is_done.set()


def work(client: Client, size: int, share: Share) -> None:
    """Count deliveries and acknowledge those of each read, until all workers together are done."""
    found, acknowledged = len(client.rest), 0
    client.socket.settimeout(PATIENCE_S)
    while not share.is_done.is_set():
        whole = found // size
        if whole > acknowledged:
            ack = struct.pack(">BHIIQBB", 1, 1, 13, 0x003C0050, whole, 1, 0xCE)
            client.socket.sendall(ack)
            share.add(whole - acknowledged)
            acknowledged = whole
        with suppress(TimeoutError):
            found += len(client.receive())


def shared(address: tuple[str, int], count: int = MESSAGES) -> float:
    """Return messages per second through a durable queue that several workers share."""
    queue = f"bench-{os.getpid()}-{next(_names)}"
    declare(address, queue)
    writer = publisher(address)
    took_s = worked_off(address, queue, count, WORKERS, lambda: publish(writer, "", queue, count))
    writer.socket.close()
    return count / took_s


def backlog(address: tuple[str, int], workers: int, count: int = BACKLOG) -> float:
    """Return messages per second of a queue that was filled before its workers came."""
    queue = f"bench-{os.getpid()}-{next(_names)}"
    pile_up(address, queue, count)
    return count / worked_off(address, queue, count, workers)


def pile_up(address: tuple[str, int], queue: str, count: int = BACKLOG) -> None:
    """Publish messages to a new queue that nobody consumes."""
    declare(address, queue)
    writer = publisher(address)
    publish(writer, "", queue, count)
    writer.socket.close()


def declare(address: tuple[str, int], queue: str) -> None:
    """Make a durable queue."""
    opened(address, queue, CLASSIC).socket.close()


def worked_off(
    address: tuple[str, int],
    queue: str,
    count: int,
    workers: int,
    meanwhile: Callable[[], None] = lambda: None,
) -> float:
    """Return in how many seconds workers get so many messages of a queue; then it is deleted."""
    clients = [Client(address) for _ in range(workers)]
    share, size = Share(count), delivered_size("", queue)
    threads = [threading.Thread(target=work, args=(client, size, share)) for client in clients]
    began = time.perf_counter()
    for client, thread in zip(clients, threads, strict=True):
        begin(client, queue)
        thread.start()
    meanwhile()
    is_done = share.is_done.wait(TIMEOUT_S)
    took_s = time.perf_counter() - began
    share.is_done.set()
    for thread in threads:
        thread.join()
    for client in clients:
        client.socket.close()
    last = Client(address)
    last.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
    last.socket.close()
    if not is_done:
        raise ConnectionError("workers have not got all messages")
    return took_s


def fan_out(address: tuple[str, int]) -> float:
    """Return deliveries per second from one publisher to several durable queues."""
    exchange = f"bench-{os.getpid()}-{next(_names)}"
    writer = publisher(address)
    declare = commands.Exchange.Declare(exchange=exchange, exchange_type="fanout", durable=True)
    writer.call(declare, commands.Exchange.DeclareOk)
    readers = []
    for number in range(QUEUES):
        queue = f"{exchange}-{number}"
        reader = opened(address, queue, CLASSIC)
        bind = commands.Queue.Bind(queue=queue, exchange=exchange, routing_key="k")
        reader.call(bind, commands.Queue.BindOk)
        begin(reader, queue)
        size = delivered_size(exchange, "k")
        readers.append(threading.Thread(target=consume, args=(reader, size, FANNED)))
    began = time.perf_counter()
    for one in readers:
        one.start()
    publish(writer, exchange, "k", FANNED)
    for one in readers:
        one.join()
    return FANNED * QUEUES / (time.perf_counter() - began)


def latency(address: tuple[str, int]) -> tuple[float, float]:
    """Return milliseconds to the consumer at a steady rate, median and 99th percentile."""
    queue = f"bench-{os.getpid()}-{next(_names)}"
    reader, writer = opened(address, queue, CLASSIC), publisher(address)
    begin(reader, queue)
    size, found = delivered_size("", queue), 0
    due_s: list[float] = []
    found_ms: list[float] = []
    sending = threading.Thread(target=_pace, args=(writer, message("", queue), due_s))
    sending.start()
    while len(found_ms) < PACED:
        found += len(reader.receive())
        now_s = time.perf_counter()
        whole = found // size
        found_ms += ((now_s - at_s) * 1000 for at_s in due_s[len(found_ms) : whole])
        reader.socket.sendall(struct.pack(">BHIIQBB", 1, 1, 13, 0x003C0050, whole, 1, 0xCE))
    sending.join()
    reader.socket.close()
    writer.socket.close()
    percentiles = statistics.quantiles(found_ms, n=100)
    return percentiles[49], percentiles[98]


def _pace(client: Client, one: bytes, due_s: list[float]) -> None:
    """Send messages at a steady rate, and note when each was due; confirms are not waited for."""
    began = time.perf_counter()
    for number in range(PACED):
        due_s.append(began + number / RATE)
        while (left_s := due_s[-1] - time.perf_counter()) > 0:
            time.sleep(left_s)
        client.socket.sendall(one)


def amqp(session: Session) -> list[Sample]:
    """Measure persistent messages with confirms, workers, backlog, fan-out, latency; RabbitMQ too.

    What a backlog cost in processor time has its publishing in it, its rate has not.
    """
    if not session.ours:
        return []
    ports = (Path(session.peer.directory) / "ports").read_text().split()
    address = ("127.0.0.1", int(ports[FRONTS.index("amqp")]))
    lasting_s = session.profile.produce_s
    samples = _measure("amqp", address, session.peer.pid, lasting_s)
    peer = RabbitMQ(Path(session.peer.directory) / "rabbitmq")
    try:
        peer.start()
        samples += _measure("rabbitmq", ("127.0.0.1", peer.port), peer.pid, lasting_s)
    finally:
        peer.close()
    return samples


def _measure(name: str, address: tuple[str, int], pid: int, lasting_s: float) -> list[Sample]:
    samples = []
    loads: tuple[tuple[str, Callable[[], float]], ...] = (
        ("classic", lambda: one_to_one(address, CLASSIC, is_read=True)),
        ("quorum", lambda: one_to_one(address, QUORUM, is_read=True)),
        ("publish", lambda: one_to_one(address, CLASSIC, is_read=False)),
        ("shared", lambda: shared(address)),
        ("backlog", lambda: backlog(address, 1)),
        ("backlog_shared", lambda: backlog(address, WORKERS)),
        ("fanout", lambda: fan_out(address)),
    )
    for case, load in loads:
        before = usage_of(pid)
        rate = median_of_rounds(load, lasting_s)
        after = usage_of(pid)
        cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
        samples.append(Sample(f"{name}_{case}", rate, "msg/s", *cost))
    os.sync()  # what the loads have written is on disk before the rate is steady
    before = usage_of(pid)
    median, slowest = latency(address)
    after = usage_of(pid)
    cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
    samples.append(Sample(f"{name}_latency.p50", median, "ms", *cost))
    samples.append(Sample(f"{name}_latency.p99", slowest, "ms", *cost))
    return samples

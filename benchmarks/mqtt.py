"""Loads MQTT brokers with plain sockets: this node, mosquitto and amqtt, with the same bytes.

Every message has the number of its sender and its own. Receivers keep what they get, and after the
clock has stopped it is looked at: all must be there, in their order, and none twice.
"""

import os
import selectors
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import load
from benchmarks.mqtt_peers import amqtt, mosquitto
from benchmarks.session import OURS, CountMismatch, Sample, Session, median_of_rounds
from benchmarks.usage import usage_of

SIZE = 100
FILLER = b"x" * (SIZE - 8)
MESSAGES = {0: 400_000, 1: 150_000}
SLOW_MESSAGES = {0: 20_000, 1: 10_000}
"""For amqtt, which would take minutes."""
WINDOW = 1_000
SLOW_WINDOW = 20
SEND_BYTES = 64 * 1024
READ_BYTES = 1 << 18
DEVICES = 500
BELOW = b"devices"
"""The level below which each device has a topic of its own."""
PER_DEVICE = 20
RATE = 1_000
PACED = 3_000
TIMEOUT_S = 60.0
AFTER_S = 0.3
"""How long is waited for messages that come once too often."""
COMMAND = "python -m benchmarks --case mqtt"
PUBACK = b"\x40\x02"

_NUMBERS = struct.Struct(">II")
Address = tuple[str, int]


class Client:
    """A client that counts packets by their size, so that the broker is the bottleneck."""

    def __init__(self, address: Address, name: str, source: str = "") -> None:
        here = (source, 0) if source else None
        self.socket = socket.create_connection(address, TIMEOUT_S, here)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = b"\0\x04MQTT\x04\x02\0\0" + _text(name.encode())
        self.socket.sendall(bytes((0x10, len(body))) + body)
        self.expect(4)

    def subscribe(self, topic: bytes, qos: int) -> None:
        """Subscribe, and wait until that counts."""
        body = b"\0\x01" + _text(topic) + bytes((qos,))
        self.socket.sendall(bytes((0x82, len(body))) + body)
        self.expect(5)

    def read(self) -> bytes:
        """Return what has come."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker hung up")
        return data

    def expect(self, size: int) -> bytes:
        """Return so many bytes."""
        found = b""
        while len(found) < size:
            more = self.socket.recv(size - len(found))
            if not more:
                raise ConnectionError("the broker hung up")
            found += more
        return found

    def rest(self) -> bytes:
        """Return what still comes when everything should be there."""
        self.socket.settimeout(AFTER_S)
        try:
            return self.socket.recv(READ_BYTES)
        except TimeoutError:
            return b""


def _text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def packet(topic: bytes, qos: int, number: int, sender: int = 0) -> bytes:
    """Return a message of a sender."""
    identifier = struct.pack(">H", number % 65_535 + 1) if qos else b""
    body = _text(topic) + identifier + _NUMBERS.pack(sender, number) + FILLER
    size = (
        bytes((len(body) & 0x7F | 0x80, len(body) >> 7)) if len(body) > 127 else bytes((len(body),))
    )
    return bytes((0x30 | qos << 1,)) + size + body


def verify(data: bytes, size: int, wanted: dict[int, int]) -> None:
    """Raise CountMismatch unless each sender's messages are there once, in their order."""
    expected = dict.fromkeys(wanted, 0)
    at = size - SIZE
    for start in range(0, len(data) - size + 1, size):
        sender, number = _NUMBERS.unpack_from(data, start + at)
        if expected.get(sender) != number:
            raise CountMismatch(f"{number} of {sender} came where {expected.get(sender)} was due")
        expected[sender] = number + 1
    if expected != wanted or len(data) % size:
        raise CountMismatch(f"{sum(expected.values())} of {sum(wanted.values())} messages came")


def _publish(client: Client, packets: list[bytes]) -> None:
    """Send messages of QoS 0 as fast as the broker takes them."""
    at_once = SEND_BYTES // len(packets[0])
    for start in range(0, len(packets), at_once):
        client.socket.sendall(b"".join(packets[start : start + at_once]))


def _publish_certain(client: Client, packets: list[bytes], window: int) -> None:
    """Send messages of QoS 1, with at most so many unanswered."""
    sent = answered = 0
    rest = b""
    while answered < len(packets):
        room = min(window - (sent - answered), len(packets) - sent)
        if room >= window // 4 or (room and sent + room == len(packets)):
            client.socket.sendall(b"".join(packets[sent : sent + room]))
            sent += room
        rest += client.read()
        whole = len(rest) // 4
        answered += whole
        rest = rest[whole * 4 :]


def _receive(client: Client, size: int, count: int, *, is_certain: bool) -> bytes:
    """Return the bytes of so many messages; those of QoS 1 are answered by the read."""
    at = size - SIZE - 2  # the identifier stands before the payload
    found: list[bytes] = []
    rest, left = b"", size * count
    while left > 0:
        data = client.read()
        left -= len(data)
        found.append(data)
        if is_certain:
            data = rest + data
            end = len(data) // size * size
            answers = (PUBACK + data[one + at : one + at + 2] for one in range(0, end, size))
            client.socket.sendall(b"".join(answers))
            rest = data[end:]
    return b"".join(found)


def throughput(address: Address, qos: int, count: int, topic: bytes, window: int) -> float:
    """Return messages per second from one client to another."""
    reader, writer = Client(address, f"reader{qos}"), Client(address, f"writer{qos}")
    reader.subscribe(topic, qos)
    packets = [packet(topic, qos, number) for number in range(count)]
    publish = (writer, packets, window) if qos else (writer, packets)
    sending = threading.Thread(target=_publish_certain if qos else _publish, args=publish)
    began = time.perf_counter()
    sending.start()
    data = _receive(reader, len(packets[0]), count, is_certain=bool(qos))
    took_s = time.perf_counter() - began
    sending.join()
    verify(data + reader.rest(), len(packets[0]), {0: count})
    for client in (reader, writer):
        client.socket.close()
    return count / took_s


def fan_out(address: Address, topic: bytes) -> float:
    """Return deliveries per second from one client to many devices, at QoS 0."""
    devices = [Client(address, f"out{number}") for number in range(DEVICES)]
    for device in devices:
        device.subscribe(topic, 0)
    writer = Client(address, "out-writer")
    packets = [packet(topic, 0, number) for number in range(PER_DEVICE)]
    size = len(packets[0])
    began = time.perf_counter()
    writer.socket.sendall(b"".join(packets))
    found = _gather(devices, size * PER_DEVICE)
    took_s = time.perf_counter() - began
    for data in found:
        verify(data, size, {0: PER_DEVICE})
    for client in (*devices, writer):
        client.socket.close()
    return DEVICES * PER_DEVICE / took_s


def _gather(clients: list[Client], size: int) -> list[bytes]:
    """Return what each client gets, so many bytes of it."""
    found = [b""] * len(clients)
    with selectors.DefaultSelector() as selector:
        for number, client in enumerate(clients):
            selector.register(client.socket, selectors.EVENT_READ, number)
        while selector.get_map():
            for key, _ in selector.select(TIMEOUT_S):
                number = key.data
                found[number] += clients[number].read()
                if len(found[number]) >= size:
                    selector.unregister(key.fileobj)
    return found


def fan_in(address: Address, topic: bytes, *, has_own_names: bool = False) -> float:
    """Return messages per second from many devices, each waiting for every answer, to one.

    All of them publish to one topic, or each to a topic of its own below it.
    """
    reader = Client(address, "in-reader")
    reader.subscribe(topic + b"/#" if has_own_names else topic, 1)
    devices = [Client(address, f"in{number}") for number in range(DEVICES)]
    topics = [topic] * DEVICES
    if has_own_names:
        topics = [topic + b"/%b/%04d" % (BELOW, one) for one in range(DEVICES)]
    size = len(packet(topics[0], 1, 0))
    sending = threading.Thread(target=_take_turns, args=(devices, topics))
    began = time.perf_counter()
    sending.start()
    data = _receive(reader, size, DEVICES * PER_DEVICE, is_certain=True)
    took_s = time.perf_counter() - began
    sending.join()
    verify(data + reader.rest(), size, dict.fromkeys(range(DEVICES), PER_DEVICE))
    for client in (*devices, reader):
        client.socket.close()
    return DEVICES * PER_DEVICE / took_s


def _take_turns(devices: list[Client], topics: list[bytes]) -> None:
    """Have each device send its next message when the one before is answered."""
    sent = [0] * len(devices)
    with selectors.DefaultSelector() as selector:
        for number, device in enumerate(devices):
            selector.register(device.socket, selectors.EVENT_READ, number)
            device.socket.sendall(packet(topics[number], 1, 0, number))
        while selector.get_map():
            for key, _ in selector.select(TIMEOUT_S):
                number = key.data
                devices[number].expect(4)
                sent[number] += 1
                if sent[number] == PER_DEVICE:
                    selector.unregister(key.fileobj)
                else:
                    devices[number].socket.sendall(packet(topics[number], 1, sent[number], number))


def latency(address: Address, topic: bytes) -> tuple[float, float]:
    """Return milliseconds from client to client at a steady rate of QoS 1, median and p99."""
    reader, writer = Client(address, "late-reader"), Client(address, "late-writer")
    reader.subscribe(topic, 1)
    size = len(packet(topic, 1, 0))
    sent_s = [0.0] * PACED
    sending = threading.Thread(target=_pace, args=(writer, topic, sent_s))
    sending.start()
    found_ms, data = [], b""
    for number in range(PACED):
        message = reader.expect(size)
        found_ms.append((time.perf_counter() - sent_s[number]) * 1000)
        reader.socket.sendall(PUBACK + message[size - SIZE - 2 : size - SIZE])
        data += message
    sending.join()
    verify(data + reader.rest(), size, {0: PACED})
    for client in (reader, writer):
        client.socket.close()
    percentiles = statistics.quantiles(found_ms, n=100)
    return percentiles[49], percentiles[98]


def _pace(client: Client, topic: bytes, sent_s: list[float]) -> None:
    """Send messages at a steady rate, and note when each was due; answers are not waited for."""
    began = time.perf_counter()
    for number in range(PACED):
        due_s = began + number / RATE
        while (left_s := due_s - time.perf_counter()) > 0:
            time.sleep(left_s)
        sent_s[number] = time.perf_counter()
        client.socket.sendall(packet(topic, 1, number))


def mqtt(session: Session) -> list[Sample]:
    """Measure one to one, fan-out, fan-in and latency; mosquitto and amqtt get the same."""
    if not session.ours:
        return []
    port = int((Path(session.peer.directory) / "ports").read_text().split()[4])
    name = session.topic(durability="os")
    load.create_topic(session.bootstrap, f"{name}.{BELOW.decode()}", 1, OURS["os"])
    topic = name.encode()
    measured = partial(_measure, topic=topic, lasting_s=session.profile.produce_s)
    samples = measured("mqtt", (("127.0.0.1", port), session.peer.pid), (MESSAGES, WINDOW))
    with mosquitto(session.peer.directory) as running:
        samples += measured("mosquitto", running, (MESSAGES, WINDOW))
    with amqtt(session.peer.directory) as running:
        samples += measured("amqtt", running, (SLOW_MESSAGES, SLOW_WINDOW))
    return samples


def _measure(
    name: str,
    running: tuple[Address, int],
    amount: tuple[dict[int, int], int],
    *,
    topic: bytes,
    lasting_s: float,
) -> list[Sample]:
    """Measure one broker; the amount is messages of each QoS in a round, and on their way."""
    (address, pid), (messages, window) = running, amount
    cases: dict[str, Callable[[], float]] = {
        f"{name}_qos{qos}": partial(throughput, address, qos, count, topic, window)
        for qos, count in messages.items()
    }
    cases[f"{name}_fan_out"] = partial(fan_out, address, topic)
    cases[f"{name}_fan_in"] = partial(fan_in, address, topic)
    cases[f"{name}_fan_in_names"] = partial(fan_in, address, topic, has_own_names=True)
    samples = []
    for title, run in cases.items():
        os.sync()  # or the disk would still write what the case before has left
        before = usage_of(pid)
        rate = median_of_rounds(run, lasting_s)
        after = usage_of(pid)
        cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
        samples.append(Sample(title, rate, "msg/s", *cost))
    os.sync()
    before = usage_of(pid)
    median, slowest = latency(address, topic)
    after = usage_of(pid)
    cost = (after.cpu_s - before.cpu_s, after.rss_mb, COMMAND)
    samples.append(Sample(f"{name}_latency.p50", median, "ms", *cost))
    samples.append(Sample(f"{name}_latency.p99", slowest, "ms", *cost))
    return samples

"""How cost grows with what a node holds: `python -m benchmarks.growth` measures, prints and draws.

Each axis is one number that grows while the work stays the same. A point is the processor time of
the node for one piece of that work, so that a machine that does other things spoils it less.
"""

import argparse
import json
import random
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks import load, mqtt, sockets, wire
from benchmarks.peers import ROOT, Peer, start_chordmq
from benchmarks.plots import curve
from benchmarks.report import OUT
from benchmarks.session import OURS
from benchmarks.usage import usage_of
from tests.cluster.ring.whole_ring import exchange, whole_ring

WORK = ROOT / ".cache" / "bench"
REQUESTS = 10_000
FLUSHED_S = 4.0
WINDOW = 64
MIB = 1 << 20
OFFSET_COMMIT = 8
RECORDS, RECORD_BYTES = 128, 1024
FILTERS_AT_ONCE = 500
FILTERS_PER_CLIENT = 1_000
"""All messages are for the first client, so that only one is read from."""
TOPICS_AT_ONCE = 100
WILDCARDS = {"a{0}/+/c": 1_000, "+/b{0}/#": 1_000, "a{0}/#": 1_000, "#": 20}
"""Filters, and how often they come and go; all but the last match one log topic."""


@dataclass(frozen=True, slots=True)
class Point:
    """What one piece of work cost when the axis stood at `at`."""

    axis: str
    at: int
    value: float
    unit: str
    per_s: float | None = None
    """Pieces of work in a second, where the node was asked as fast as it answered."""


class Work:
    """The processor time and the time that the node took for some pieces of work."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu_s, self._started = usage_of(pid).cpu_s, time.perf_counter()

    def point(self, axis: str, at: int, count: int) -> Point:
        """Return what one of `count` pieces has cost since the beginning."""
        cpu_s = usage_of(self._pid).cpu_s - self._cpu_s
        taken_s = time.perf_counter() - self._started
        return Point(axis, at, cpu_s / count * 1e6, "µs", count / taken_s)


def partitions(peer: Peer) -> Iterator[Point]:
    """Requests of ten messages each, over ever more partitions."""
    for count in (1, 10, 100, 1_000, 4_000):
        topic = f"over-{count}"
        load.create_topic(peer.bootstrap, topic, count, OURS["os"])
        batch = wire.record_batch(10, 100)
        frames = [wire.produce_request(topic, index, batch, acks=1) for index in range(count)]
        with wire.connect(peer.bootstrap) as sock:
            _pipelined([sock], frames * (count_of_turns(count)))  # every partition has its files
            work = Work(peer.pid)
            _pipelined([sock], (frames[number % count] for number in range(REQUESTS)))
        yield work.point("partitions", count, REQUESTS * 10)


def count_of_turns(count: int) -> int:
    """Return how often each partition is written to before anything counts."""
    return max(1, 1_000 // count)


def flushed(peer: Peer) -> Iterator[Point]:
    """Requests of one message each that the disk acknowledges, one of each partition at a time."""
    for count in (1, 10, 100, 1_000):
        topic = f"flushed-{count}"
        load.create_topic(peer.bootstrap, topic, count, OURS["disk"])
        sockets.produce_in_turn(peer.bootstrap, topic, count, FLUSHED_S / 2, count, acks=-1)
        work = Work(peer.pid)
        rate = sockets.produce_in_turn(peer.bootstrap, topic, count, FLUSHED_S, count, acks=-1)
        yield work.point("flushed", count, rate.count)


def connections(peer: Peer) -> Iterator[Point]:
    """Requests of one message each, over ever more connections that are all open."""
    load.create_topic(peer.bootstrap, "connected", 1, OURS["os"])
    frame = wire.produce_request("connected", 0, wire.record_batch(1, 100), acks=1)
    open_now: list[socket.socket] = []
    idle_kb = usage_of(peer.pid).rss_mb * 1024
    try:
        for count in (1, 10, 100, 1_000, 10_000, 19_000):
            open_now += sockets.open_connections(peer.bootstrap, count - len(open_now))
            each_kb = (usage_of(peer.pid).rss_mb * 1024 - idle_kb) / count
            work = Work(peer.pid)
            _pipelined(open_now, (frame for _ in range(REQUESTS)))
            yield work.point("connections", count, REQUESTS)
            if count >= 1_000:
                yield Point("memory of an idle connection", count, each_kb, "KB")
    finally:
        sockets.close_connections(open_now)


def groups(peer: Peer) -> Iterator[Point]:
    """Commits of one offset each, by ever more consumer groups."""
    load.create_topic(peer.bootstrap, "grouped", 1, OURS["os"])
    for count in (1, 10, 100, 1_000, 10_000):
        frames = [_commit(f"group-{number}", "grouped") for number in range(count)]
        with wire.connect(peer.bootstrap) as sock:
            _pipelined([sock], frames)
            work = Work(peer.pid)
            _pipelined([sock], (frames[number % count] for number in range(REQUESTS)))
        yield work.point("consumer groups", count, REQUESTS)


def log_size(peer: Peer) -> Iterator[Point]:
    """Look-ups of one batch at a random offset, in an ever longer log."""
    load.create_topic(peer.bootstrap, "long", 1, OURS["os"] | {"segment.bytes": str(64 * MIB)})
    chance, size, end = random.Random(7), 0, 0
    for mib in (16, 64, 256, 1_024, 4_096):
        batches = (mib - size) * MIB // (RECORDS * RECORD_BYTES)
        sockets.produce_pipelined(peer.bootstrap, "long", (RECORDS, RECORD_BYTES), (120.0, batches))
        size, end = mib, end + batches * RECORDS
        asked = [
            wire.fetch_request("long", 0, chance.randrange(end), 1) for _ in range(REQUESTS // 10)
        ]
        with wire.connect(peer.bootstrap) as sock:
            work = Work(peer.pid)
            _pipelined([sock], asked, window=4)
        yield work.point("MiB of log: look-up", mib, len(asked))


def retained(peer: Peer) -> Iterator[Point]:
    """Subscriptions to one name, among ever more that have a retained message."""
    address = _mqtt_address(peer)
    writer, reader = mqtt.Client(address, "growth-w"), mqtt.Client(address, "growth-r")
    known = 0
    for count in (100, 1_000, 10_000, 100_000):
        for start in range(known, count, FILTERS_AT_ONCE):
            until = min(count, start + FILTERS_AT_ONCE)
            writer.socket.sendall(b"".join(map(_retained, range(start, until))))
            writer.expect(4 * (until - start))
        known = count
        work = Work(peer.pid)
        for number in range(1_000):
            reader.subscribe(b"kept/all/%06d" % (number % count), 0)
            reader.expect(2 + 2 + 15 + 20)
        yield work.point("retained messages", count, 1_000)


def filters(peer: Peer) -> Iterator[Point]:
    """Messages that one of ever more filters wants."""
    address = _mqtt_address(peer)
    reader, writer = mqtt.Client(address, "growth-f"), mqtt.Client(address, "growth-p")
    known, chance, clients = 0, random.Random(7), [reader]
    for count in (1, 10, 100, 1_000, 10_000, 100_000):
        while known < count:
            until = min(count, known + FILTERS_AT_ONCE)
            if known >= FILTERS_PER_CLIENT * len(clients):
                clients.append(mqtt.Client(address, f"growth-f{len(clients)}"))
            _subscribe(
                clients[-1], [b"wanted/all/%06d/+" % number for number in range(known, until)]
            )
            known = until
        packets = [
            mqtt.packet(
                b"wanted/all/%06d/x" % chance.randrange(min(count, FILTERS_PER_CLIENT)), 0, number
            )
            for number in range(REQUESTS)
        ]
        work = Work(peer.pid)
        for start in range(0, REQUESTS, 100):
            writer.socket.sendall(b"".join(packets[start : start + 100]))
            reader.expect(len(packets[0]) * 100)
        yield work.point("filters", count, REQUESTS)


def log_topics(peer: Peer) -> Iterator[Point]:
    """Filters with a wildcard that come and go, among ever more log topics."""
    client, known = mqtt.Client(_mqtt_address(peer), "growth-t"), 0
    for count in (100, 1_000, 10_000):
        _create_topics(peer, known, count)
        known = count
        for shape, turns in WILDCARDS.items():
            work = Work(peer.pid)
            for number in range(turns):
                wanted = shape.format(f"{number % count:05}").encode()
                client.subscribe(wanted, 0)
                _unsubscribe(client, wanted)
            yield work.point(f"log topics: {shape.format('x')}", count, turns)


def wildcards(peer: Peer) -> Iterator[Point]:
    """Log topics that are made, among ever more filters with a wildcard that do not match them."""
    address, known, made = _mqtt_address(peer), 0, 0
    client = mqtt.Client(address, "growth-w")
    for count in (1, 100, 1_000, 10_000):
        while known < count:
            until = min(count, known + FILTERS_AT_ONCE)
            if known and known % FILTERS_PER_CLIENT == 0:
                client = mqtt.Client(address, f"growth-w{known}")
            _subscribe(client, [b"none%05d/+/c" % number for number in range(known, until)])
            known = until
        work = Work(peer.pid)
        _create_topics(peer, made, made + TOPICS_AT_ONCE)
        made += TOPICS_AT_ONCE
        yield work.point("filters with a wildcard: new log topics", count, TOPICS_AT_ONCE)


def ring(_: Peer) -> Iterator[Point]:
    """Members that a look-up asks, in ever larger rings that are simulated whole."""
    chance = random.Random(7)
    for count in (10, 100, 1_000, 10_000):
        members = whole_ring(count)
        places = sorted(members)
        hops = 0
        for _turn in range(500):
            me = chance.choice(places)
            members[me].look_up(chance.randrange(2**64))
            exchange(members, me)
            hops += members[me].take_found()[0].hops
        yield Point("nodes of a ring", count, hops / 500, "hops")


AXES: dict[str, Callable[[Peer], Iterator[Point]]] = {
    "partitions": partitions,
    "flushed": flushed,
    "connections": connections,
    "groups": groups,
    "log_size": log_size,
    "retained": retained,
    "filters": filters,
    "log_topics": log_topics,
    "wildcards": wildcards,
    "ring": ring,
}


def _pipelined(
    socks: Sequence[socket.socket], frames: Iterator[bytes] | Sequence[bytes], window: int = WINDOW
) -> None:
    """Send frames over all connections in turn, with so many not answered."""
    waiting: list[socket.socket] = []
    for number, frame in enumerate(frames):
        sock = socks[number % len(socks)]
        sock.sendall(frame)
        waiting.append(sock)
        if len(waiting) == window:
            for one in waiting:
                wire.read_answer(one)
            waiting.clear()
    for one in waiting:
        wire.read_answer(one)


def _commit(group: str, topic: str) -> bytes:
    """Return an OffsetCommit request, version 7, of somebody who is no member."""
    name, where = group.encode(), topic.encode()
    body = struct.pack(">h", len(name)) + name + struct.pack(">ihh", -1, 0, -1)
    body += struct.pack(">ih", 1, len(where)) + where
    body += struct.pack(">iiqih", 1, 0, 0, -1, -1)
    return wire.request(OFFSET_COMMIT, 7, body)


def _subscribe(client: mqtt.Client, wanted: list[bytes]) -> None:
    body = b"\0\1" + b"".join(_text(one) + b"\0" for one in wanted)
    size, rest = b"", len(body)
    while rest > 127:
        size, rest = size + bytes((rest & 127 | 128,)), rest >> 7
    client.socket.sendall(b"\x82" + size + bytes((rest,)) + body)
    answer = 2 + len(wanted)
    client.expect(1 + (1 if answer < 128 else 2) + answer)


def _unsubscribe(client: mqtt.Client, wanted: bytes) -> None:
    body = b"\0\1" + _text(wanted)
    client.socket.sendall(bytes((0xA2, len(body))) + body)
    client.expect(4)


def _create_topics(peer: Peer, start: int, until: int) -> None:
    """Make log topics, none of whose levels another has."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    for first in range(start, until, TOPICS_AT_ONCE):
        numbers = range(first, min(until, first + TOPICS_AT_ONCE))
        new = [NewTopic(f"a{number:05}.b{number:05}", num_partitions=1) for number in numbers]
        for created in admin.create_topics(new, request_timeout=60).values():
            created.result()


def _text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def _retained(number: int) -> bytes:
    body = _text(b"kept/all/%06d" % number) + b"\0\1" + b"x" * 20
    return b"\x33" + bytes((len(body),)) + body


def _mqtt_address(peer: Peer) -> tuple[str, int]:
    numbers = (peer.directory / "ports").read_text().split()
    return "127.0.0.1", int(numbers[4])


@contextmanager
def _node() -> Iterator[Peer]:
    """Run a node of its own for each axis, so that none pays for another."""
    WORK.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=WORK))
    peer = start_chordmq(directory, ["broker.log.flush=os"], is_open=False)
    try:
        yield peer
    finally:
        peer.stop()
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    """Measure the chosen axes, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--axis", action="append", choices=AXES, help="this one only; repeatable")
    parser.add_argument("--pictures", type=Path, help="folder for a curve of each axis")
    options = parser.parse_args()
    sockets.allow_files(19_000 + sockets.SPARE_FILES)
    points: list[Point] = []
    table = Table("axis", "at", "cost of one", "one after the other, per s")
    for name in options.axis or AXES:
        with _node() as peer:
            for point in AXES[name](peer):
                points.append(point)
                rate = f"{point.per_s:,.0f}" if point.per_s is not None else ""
                table.add_row(point.axis, f"{point.at:,}", f"{point.value:,.1f} {point.unit}", rate)
    Console().print(table)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "growth.json").write_text(json.dumps([asdict(one) for one in points], indent=1))
    if options.pictures is not None:
        _draw(points, options.pictures)


def _draw(points: list[Point], folder: Path) -> None:
    for axis in dict.fromkeys(point.axis for point in points):
        found = [point for point in points if point.axis == axis]
        drawn = curve(axis, [(one.at, one.value, None) for one in found], found[0].unit)
        name = "_".join(word for word in axis.replace(":", "").lower().split())
        (folder / f"growth_{name}.svg").write_text(drawn)


if __name__ == "__main__":
    main()

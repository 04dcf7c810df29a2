"""Pipes from parent to child: catch-up over one hop, and live latency over three."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import load, sockets
from benchmarks.peers import FRONTS, Peer, start_chordmq
from benchmarks.session import OURS, Profile, Sample
from benchmarks.usage import usage_of
from benchmarks.wire import WireError

COMMAND = "python -m benchmarks --case pipe"
TOPIC, LIVE = "copied", "live"
SIZE = 100
HOPS = 3
RATE_PER_S = 200
TIMEOUT_S = 300.0
ACKS1 = {"acks": "1", "enable.idempotence": "false"}


def pipe(directory: Path, profile: Profile) -> list[Sample]:
    """Measure how fast a new child gets what its parent has, and how late the last of three is."""
    count_max = profile.bytes_max // SIZE
    with _chain(directory) as nodes:
        root, leaf = nodes[0], nodes[-1]
        load.create_topic(root.bootstrap, TOPIC, 1, OURS["os"])
        load.create_topic(root.bootstrap, LIVE, 1, OURS["os"])
        limit = (4 * profile.produce_s, count_max)
        count = load.produce(root.bootstrap, TOPIC, SIZE, ACKS1, limit).count
        _wait(leaf, TOPIC, count)
        idle_ms = _latencies(root, leaf, profile.latency_s)
        rate, used, busy_ms = _catch_up(directory, root, (leaf, count, profile.latency_s))
    cost = (used[0], used[1], COMMAND)
    samples = [Sample("pipe.catch_up", rate, "messages/s", *cost, mb_s=rate * SIZE / 1e6)]
    for name, found in (("live", idle_ms), ("live_beside_catch_up", busy_ms)):
        for part in (50, 99):
            value = found[min(len(found) - 1, len(found) * part // 100)]
            samples.append(Sample(f"pipe.{name}.p{part}", value, "ms", 0.0, used[1], COMMAND))
    return samples


@contextmanager
def _chain(directory: Path) -> Iterator[list[Peer]]:
    nodes: list[Peer] = []
    try:
        for number in range(HOPS + 1):
            nodes.append(_node(directory / f"node{number}", nodes[-1] if nodes else None))
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def _node(directory: Path, parent: Peer | None) -> Peer:
    if parent is None:
        return start_chordmq(directory)
    pipes = [f"pipes.parent={_http(parent)}", f"pipes.topics={TOPIC},{LIVE}"]
    return start_chordmq(directory, [*pipes, "pipes.topics_interval_s=1"])


def _http(peer: Peer) -> str:
    numbers = (peer.directory / "ports").read_text().split()
    return f"http://127.0.0.1:{dict(zip(FRONTS, numbers, strict=True))['http']}"


def _wait(node: Peer, topic: str, count: int) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while _end(node, topic) < count:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{topic} is not copied in {TIMEOUT_S:g} s")
        time.sleep(0.005)


def _end(node: Peer, topic: str) -> int:
    try:
        return sockets.end_offset(node.bootstrap, topic)
    except (WireError, OSError):  # the topic is not there yet
        return 0


def _catch_up(
    directory: Path, root: Peer, live: tuple[Peer, int, float]
) -> tuple[float, tuple[float, float], list[float]]:
    """Give the root one more child; return its rate and cost, and latencies at the others."""
    leaf, count, seconds = live
    child = _node(directory / "late", root)
    try:
        while not (first := _end(child, TOPIC)):
            time.sleep(0.002)
        began_s, before = time.perf_counter(), usage_of(child.pid)
        _wait(child, TOPIC, count)
        rate = (count - first) / max(1e-6, time.perf_counter() - began_s)
        after = usage_of(child.pid)
        child.kill()
        again = _node(directory / "later", root)
        try:
            busy_ms = _latencies(root, leaf, min(seconds, 2.0))
        finally:
            again.kill()
    finally:
        child.kill()
    return rate, (after.cpu_s - before.cpu_s, after.rss_mb), busy_ms


def _latencies(root: Peer, leaf: Peer, seconds: float) -> list[float]:
    """Return how late records come to the leaf, sorted, in milliseconds."""
    producer = Producer({"bootstrap.servers": root.bootstrap, "linger.ms": 0, "acks": "1"})
    consumer = Consumer(
        {"bootstrap.servers": leaf.bootstrap, "group.id": "live", "fetch.wait.max.ms": 100}
    )
    consumer.assign([TopicPartition(LIVE, 0, _end(leaf, LIVE))])
    consumer.poll(0.5)
    found: list[float] = []
    for _ in range(int(seconds * RATE_PER_S)):
        due_s = time.perf_counter() + 1 / RATE_PER_S
        producer.produce(LIVE, str(time.perf_counter()).encode())
        producer.poll(0)
        while (left_s := due_s - time.perf_counter()) > 0:
            found += _arrived(consumer, left_s)
    producer.flush(10)
    while more := _arrived(consumer, 1.0):
        found += more
    consumer.close()
    return sorted(found)


def _arrived(consumer: Consumer, wait_s: float) -> list[float]:
    message = consumer.poll(wait_s)
    if message is None or message.error():
        return []
    return [(time.perf_counter() - float(message.value() or b"0")) * 1000]

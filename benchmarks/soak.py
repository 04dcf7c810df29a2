"""A long run at half load: memory and latency stay flat, and every message arrives once.

`python -m benchmarks.soak --seconds 3600` finds how many messages a second get from one producer to
one consumer on this machine, then sends half of that for so long. Each message has its number and
the time it was due; the consumer checks both. Every ten seconds a line tells memory, latency and
what is under way.
"""

import argparse
import json
import multiprocessing
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks import load
from benchmarks.peers import Peer, start_chordmq
from benchmarks.report import OUT
from benchmarks.usage import usage_of

SIZE = 100
PARTITIONS = 4
SHARE = 0.5
TRIAL_S = 10.0
WINDOW_S = 10.0
GRACE_S = 60.0
TICK_S = 0.005
AT_ONCE = 1_000
GROWTH_MAX = 1.25
"""How much larger the last quarter of a course may be than the second one; the first warms up."""
RETENTION = {"flush": "os", "retention.bytes": str(256 << 20), "segment.bytes": str(32 << 20)}
HEAD = struct.Struct(">Qd")

Rows = list[dict[str, float]]


@dataclass(slots=True)
class Seen:
    """What the consumer has seen."""

    received: int = 0
    faults: list[str] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    """Since the last report."""


def main() -> int:
    """Run, and say whether everything stayed as it should."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--rate", type=int, help="messages a second instead of half of the most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=_work()) as directory:
        node = start_chordmq(Path(directory))
        try:
            rate = options.rate or int(_most(node) * SHARE)
            print(f"{rate:,} messages a second for {options.seconds:,.0f} s", flush=True)
            rows, faults = soak(node, "soak", rate, options.seconds)
        finally:
            node.stop()
    faults += _growth(rows)
    verdict = {"rate": rate, "seconds": options.seconds, "rows": rows, "faults": faults}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "soak.json").write_text(json.dumps(verdict, indent=1) + "\n")
    print("\n".join(faults) or "nothing lost, nothing repeated; memory and latency are flat")
    return int(bool(faults))


def _work() -> Path:
    work = OUT.parent.parent / ".cache" / "bench"
    work.mkdir(parents=True, exist_ok=True)
    return work


def _most(node: Peer) -> float:
    """Return the messages a second that are received while as many as possible are sent.

    What is left when the sender ends comes faster, in large pieces and with nobody beside.
    """
    rows, faults = soak(node, "trial", None, TRIAL_S)
    if faults:
        raise load.LoadFailed("; ".join(faults[:3]))
    return rows[0]["received"] / rows[0]["at_s"]


class Node(Protocol):
    """A node that runs."""

    @property
    def bootstrap(self) -> str:
        """Return its address."""
        ...

    @property
    def pid(self) -> int:
        """Return its process."""
        ...


def soak(node: Node, topic: str, rate: int | None, seconds: float) -> tuple[Rows, list[str]]:
    """Send at a rate, or as fast as it goes; return a row for each window and what was wrong."""
    load.create_topic(node.bootstrap, topic, PARTITIONS, RETENTION)
    spawn = multiprocessing.get_context("spawn")
    sent, is_over = spawn.Value("Q", 0), spawn.Event()
    reports, report = spawn.Pipe(duplex=False)
    with (
        _running(spawn.Process(target=_read, args=(node.bootstrap, topic, report, is_over))),
        _running(
            spawn.Process(target=_send, args=(node.bootstrap, topic, rate, seconds, sent))
        ) as sending,
    ):
        rows, seen = _watch(node, sending, reports, sent)
        is_over.set()
    if seen.received != sent.value:
        seen.faults.append(f"{sent.value:,} messages acknowledged, {seen.received:,} received")
    if sending.exitcode:
        seen.faults.append("not all messages were acknowledged")
    return rows, seen.faults


def _watch(
    node: Node,
    sending: multiprocessing.process.BaseProcess,
    reports: Connection,
    sent: "Synchronized[int]",
) -> tuple[Rows, Seen]:
    """Write a row for each window, until everything that was sent has come or is overdue."""
    rows: Rows = []
    seen = Seen()
    began = ended = time.monotonic()
    cpu_s = usage_of(node.pid).cpu_s
    while sending.is_alive() or (seen.received < sent.value and time.monotonic() < ended + GRACE_S):
        if sending.is_alive():
            sending.join(WINDOW_S)
            ended = time.monotonic()
        latencies_ms: list[float] = []
        reports.poll(GRACE_S)
        while reports.poll():
            seen = reports.recv()
            latencies_ms += seen.latencies_ms
        used = usage_of(node.pid)
        window = sorted(latencies_ms) or [-1.0]
        row = {
            "at_s": round(time.monotonic() - began, 1),
            "rss_mb": round(used.rss_mb, 1),
            "cpu_s": round(used.cpu_s - cpu_s, 2),
            "p50_ms": round(statistics.median(window), 3),
            "p99_ms": round(window[int(len(window) * 0.99)], 3),
            "received": seen.received,
            "under_way": sent.value - seen.received,
        }
        cpu_s = used.cpu_s
        rows.append(row)
        print("  ".join(f"{name} {value:g}" for name, value in row.items()), flush=True)
    return rows, seen


@contextmanager
def _running(
    process: multiprocessing.process.BaseProcess,
) -> Iterator[multiprocessing.process.BaseProcess]:
    process.start()
    try:
        yield process
        process.join(GRACE_S)
    finally:
        process.kill()
        process.join()


def _send(
    bootstrap: str, topic: str, rate: int | None, seconds: float, sent: "Synchronized[int]"
) -> None:
    """Send messages, each with its number in its partition and the time when it was due."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
         "linger.ms": 2, "queue.buffering.max.messages": 100_000}
    )  # fmt: skip
    padding = bytes(SIZE - HEAD.size)
    began = time.monotonic()
    number = 0
    while (passed := time.monotonic() - began) < seconds:
        due = number + AT_ONCE if rate is None else min(int(passed * rate), number + AT_ONCE)
        while number < due:
            partition, own = number % PARTITIONS, number // PARTITIONS
            due_s = time.monotonic() if rate is None else began + number / rate
            try:
                producer.produce(topic, HEAD.pack(own, due_s) + padding, partition=partition)
            except BufferError:  # as much is under way as may be
                producer.poll(TICK_S)
                continue
            number += 1
        sent.value = number
        producer.poll(0 if rate is None or number < int(passed * rate) else TICK_S)
    if producer.flush(GRACE_S):
        sys.exit(1)


def _read(bootstrap: str, topic: str, report: Connection, is_over: Event) -> None:
    """Check every message, and report once in a while."""
    consumer = Consumer(load.consumer_settings(bootstrap))
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    seen, expected = Seen(), [0] * PARTITIONS
    reported = time.monotonic()
    while not is_over.is_set():
        for message in consumer.consume(AT_ONCE, TICK_S):
            _check(message, seen, expected)
        if time.monotonic() - reported >= 1:
            report.send(seen)
            reported, seen.latencies_ms = time.monotonic(), []
    consumer.close()


def _check(message: Message, seen: Seen, expected: list[int]) -> None:
    if message.error() is not None:
        seen.faults.append(str(message.error()))
        return
    number, due_s = HEAD.unpack_from(message.value() or b"")
    partition = message.partition() or 0
    if number != expected[partition]:
        seen.faults.append(f"partition {partition}: {number} came, not {expected[partition]}")
    expected[partition] = number + 1
    seen.received += 1
    if number % 100 == 0:
        seen.latencies_ms.append((time.monotonic() - due_s) * 1000)


def _growth(rows: list[dict[str, float]]) -> list[str]:
    """Compare the second quarter of the run with the last."""
    quarter = len(rows) // 4
    if quarter == 0:
        return []
    faults = []
    for name in ("rss_mb", "p50_ms"):
        early = statistics.median(row[name] for row in rows[quarter : 2 * quarter])
        late = statistics.median(row[name] for row in rows[-quarter:])
        if late > early * GROWTH_MAX:
            faults.append(f"{name} grew from {early:g} to {late:g}")
    return faults


if __name__ == "__main__":
    sys.exit(main())

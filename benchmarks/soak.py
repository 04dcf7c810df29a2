"""A long run at half load: memory and latency stay flat, and every message arrives once.

`python -m benchmarks.soak --seconds 3600` finds how many messages a second a node takes from one
client, then sends half of that for so long. Each message has its number and the time it was due; a
consumer checks both. Every ten seconds a line tells memory, latency and what is under way.
"""

import argparse
import json
import statistics
import struct
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks import load
from benchmarks.peers import Peer, start_chordmq
from benchmarks.report import OUT
from benchmarks.usage import usage_of

TOPIC = "soak"
SIZE = 100
PARTITIONS = 4
SHARE = 0.5
TRIAL_S = 5.0
WINDOW_S = 10.0
GRACE_S = 30.0
TICK_S = 0.005
READ_AT_ONCE = 1_000
GROWTH_MAX = 1.25
"""How much larger the last quarter of a course may be than the second one; the first warms up."""
RETENTION = {"flush": "os", "retention.bytes": str(256 << 20), "segment.bytes": str(32 << 20)}
HEAD = struct.Struct(">Qd")


@dataclass(slots=True)
class Found:
    """What the consumer has seen."""

    received: int = 0
    faults: list[str] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    next_numbers: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    is_over: bool = False


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
            load.create_topic(node.bootstrap, TOPIC, PARTITIONS, RETENTION)
            rows, faults = _soak(node, rate, options.seconds)
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
    load.create_topic(node.bootstrap, "trial", 1, {"flush": "os"})
    settings = {"acks": "all", "enable.idempotence": "true"}
    return load.produce(node.bootstrap, "trial", SIZE, settings, (TRIAL_S, 10_000_000)).per_s


def _soak(node: Peer, rate: int, seconds: float) -> tuple[list[dict[str, float]], list[str]]:
    found = Found()
    reading = threading.Thread(target=_read, args=(node.bootstrap, found))
    reading.start()
    rows: list[dict[str, float]] = []
    sent = [0]
    sending = threading.Thread(target=_send, args=(node.bootstrap, rate, seconds, sent))
    began = time.monotonic()
    sending.start()
    cpu_s = usage_of(node.pid).cpu_s
    while sending.is_alive():
        sending.join(WINDOW_S)
        used = usage_of(node.pid)
        window, found.latencies_ms = sorted(found.latencies_ms), []
        row = {
            "at_s": round(time.monotonic() - began, 1),
            "rss_mb": round(used.rss_mb, 1),
            "cores": round((used.cpu_s - cpu_s) / WINDOW_S, 3),
            "p50_ms": round(statistics.median(window), 3) if window else -1.0,
            "p99_ms": round(window[int(len(window) * 0.99)], 3) if window else -1.0,
            "behind": float(sent[0] - found.received),
        }
        cpu_s = used.cpu_s
        rows.append(row)
        print("  ".join(f"{name} {value:g}" for name, value in row.items()), flush=True)
    deadline = time.monotonic() + GRACE_S
    while found.received < sent[0] and time.monotonic() < deadline:
        time.sleep(0.1)
    found.is_over = True
    reading.join()
    if found.received != sent[0]:
        found.faults.append(f"{sent[0]:,} messages acknowledged, {found.received:,} received")
    return rows, found.faults


def _send(bootstrap: str, rate: int, seconds: float, sent: list[int]) -> None:
    """Send at a steady rate; a message says its number in its partition and when it was due."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
         "linger.ms": 2, "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    padding = bytes(SIZE - HEAD.size)
    began = time.monotonic()
    number = 0
    while (passed := time.monotonic() - began) < seconds:
        due = min(int(passed * rate), number + rate // 10)
        while number < due:
            partition, own = number % PARTITIONS, number // PARTITIONS
            value = HEAD.pack(own, began + number / rate) + padding
            producer.produce(TOPIC, value, partition=partition)
            number += 1
        sent[0] = number
        producer.poll(TICK_S)
    if left := producer.flush(GRACE_S):
        print(f"{left:,} messages were not acknowledged", file=sys.stderr)


def _read(bootstrap: str, found: Found) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "soak", "auto.offset.reset": "earliest",
         "fetch.wait.max.ms": 100}
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    while not found.is_over:
        for message in consumer.consume(READ_AT_ONCE, TICK_S):
            _check(message, found)
    consumer.close()


def _check(message: Message, found: Found) -> None:
    if message.error() is not None:
        found.faults.append(str(message.error()))
        return
    number, due_s = HEAD.unpack_from(message.value() or b"")
    partition = message.partition() or 0
    expected = found.next_numbers[partition]
    if number != expected:
        found.faults.append(f"partition {partition}: {number} came instead of {expected}")
    found.next_numbers[partition] = number + 1
    found.received += 1
    if number % 100 == 0:
        found.latencies_ms.append((time.monotonic() - due_s) * 1000)


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

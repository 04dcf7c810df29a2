"""Compares versions of the node with each other, on a machine whose speed changes by the minute.

`git worktree add ../before HEAD~1`, then `python -m benchmarks.versions ../before .`: a node of
each version starts in turn, does the same work and stops, several times. The order turns in every
round, so that what the machine does meanwhile hits all of them alike.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import amqp, load, mqtt, sockets
from benchmarks.memory import page_cache
from benchmarks.peers import FRONTS, ROOT, Peer, start_chordmq
from benchmarks.usage import usage_of

WORK = ROOT / ".cache" / "bench"
TOPIC = "versions"
QUEUE = "versions-queue"
SPREAD, PARTITIONS = "versions-spread", 100
KEPT = "versions-kept"
BATCH = (126, 1024)
"""Records, and bytes of each: a batch of 128 KiB."""
BATCHES = 8_000
SECONDS = 4.0
READS = 4
CROWD = 8
FAN_INS = 5
"""How often all devices come, publish twenty messages each, and go; their coming counts."""
ENDLESS = 10**9
GB = 1e9


@dataclass(frozen=True, slots=True)
class Done:
    """Some work of a node: how much in a second, and what it cost for each piece."""

    rate: float
    cost: float


@dataclass(frozen=True, slots=True)
class Load:
    """Something to do: returns how many pieces were done, and in how many seconds."""

    run: Callable[[Peer], tuple[float, float]]
    unit: str
    cost_unit: str
    pieces_in_unit: float = 1.0
    pieces_in_cost: float = 1.0
    prepare: Callable[[Peer], None] = lambda peer: None
    """What is done before, and does not count."""


def _bytes(rate: sockets.Rate) -> tuple[float, float]:
    return rate.size, rate.seconds


def prebuilt(peer: Peer) -> tuple[float, float]:
    """Produce prebuilt batches of 128 KiB on one connection."""
    limit = (10 * SECONDS, BATCHES)
    return _bytes(sockets.produce_pipelined(peer.bootstrap, TOPIC, BATCH, limit))


def librdkafka(peer: Peer) -> tuple[float, float]:
    """Produce messages of 1 KiB through librdkafka."""
    limit = (SECONDS, ENDLESS)
    return _bytes(load.produce(peer.bootstrap, TOPIC, 1024, load.ACKS["acks1"], limit))


def idempotent(peer: Peer) -> tuple[float, float]:
    """Produce them idempotently."""
    limit = (SECONDS, ENDLESS)
    return _bytes(load.produce(peer.bootstrap, TOPIC, 1024, load.ACKS["acksall"], limit))


def keep(peer: Peer) -> None:
    """Create a topic that acknowledges what the disk has, and write to it."""
    load.create_topic(peer.bootstrap, KEPT, 1, {"flush": "disk"})
    kept_one_by_one(peer)


def kept(peer: Peer) -> tuple[float, float]:
    """Produce messages of 1 KiB idempotently through librdkafka, acknowledged by the disk."""
    limit = (SECONDS, ENDLESS)
    return _bytes(load.produce(peer.bootstrap, KEPT, 1024, load.ACKS["acksall"], limit))


def kept_one_by_one(peer: Peer) -> tuple[float, float]:
    """Produce one record a request on one connection, acknowledged by the disk."""
    rate = sockets.produce_in_turn(peer.bootstrap, KEPT, 1, SECONDS / 2, acks=-1)
    return rate.count, rate.seconds


def fill(peer: Peer) -> None:
    """Write what is to be read, and read it once."""
    limit = (10 * SECONDS, BATCHES // 2)
    sockets.produce_pipelined(peer.bootstrap, TOPIC, BATCH, limit)
    fetches(peer)


def fetches(peer: Peer) -> tuple[float, float]:
    """Read a topic of 0.5 GB four times, a megabyte a request, and look at batch headers only."""
    end = sockets.end_offset(peer.bootstrap, TOPIC)
    rates = [sockets.read_partition(peer.bootstrap, TOPIC, 0, end) for _ in range(READS)]
    return sum(rate.size for rate in rates), sum(rate.seconds for rate in rates)


def consume(peer: Peer) -> tuple[float, float]:
    """Read that topic through librdkafka."""
    end = sockets.end_offset(peer.bootstrap, TOPIC)
    rate = load.consume(peer.bootstrap, TOPIC, 1, end)
    return rate.size, rate.seconds * rate.count / (rate.count - rate.before)


def crowd(peer: Peer) -> tuple[float, float]:
    """Have eight consumers read that topic at the same time, all of it each."""
    end = sockets.end_offset(peer.bootstrap, TOPIC)
    with ThreadPoolExecutor(CROWD) as readers:
        began = time.perf_counter()
        read = [
            readers.submit(sockets.read_partition, peer.bootstrap, TOPIC, 0, end)
            for _ in range(CROWD)
        ]
        size = sum(one.result().size for one in read)
        return size, time.perf_counter() - began


def unbatched(peer: Peer) -> tuple[float, float]:
    """Produce one record a request from 50 connections that wait for each answer."""
    rate = sockets.produce_in_turn(peer.bootstrap, TOPIC, 50, SECONDS)
    return rate.count, rate.seconds


def spread(peer: Peer) -> None:
    """Create a topic with many partitions, and write to each of them."""
    load.create_topic(peer.bootstrap, SPREAD, PARTITIONS, {"flush": "disk"})
    flushed(peer)


def flushed(peer: Peer) -> tuple[float, float]:
    """Produce one record a request to each of many partitions, acknowledged by the disk."""
    count = PARTITIONS
    rate = sockets.produce_in_turn(peer.bootstrap, SPREAD, count, SECONDS / 2, count, acks=-1)
    return rate.count, rate.seconds


def workers(peer: Peer) -> tuple[float, float]:
    """Have four workers share an AMQP queue."""
    rate = amqp.shared(_amqp_address(peer))
    return amqp.MESSAGES, amqp.MESSAGES / rate


def pile_up(peer: Peer) -> None:
    """Publish to an AMQP queue that nobody consumes."""
    amqp.pile_up(_amqp_address(peer), QUEUE)


def backlog(peer: Peer) -> tuple[float, float]:
    """Have one consumer take what waits in an AMQP queue."""
    return amqp.BACKLOG, amqp.worked_off(_amqp_address(peer), QUEUE, amqp.BACKLOG, 1)


def shared_backlog(peer: Peer) -> tuple[float, float]:
    """Have four workers take it."""
    count, workers = amqp.BACKLOG, amqp.WORKERS
    return count, amqp.worked_off(_amqp_address(peer), QUEUE, count, workers)


def devices(peer: Peer) -> tuple[float, float]:
    """Have 500 MQTT devices publish to one topic, each waiting for every answer."""
    return _fan_in(peer, has_own_names=False)


def device_names(peer: Peer) -> tuple[float, float]:
    """Have each of them publish to a topic of its own."""
    return _fan_in(peer, has_own_names=True)


def _fan_in(peer: Peer, *, has_own_names: bool) -> tuple[float, float]:
    address, topic = _address(peer, "mqtt"), TOPIC.encode()
    count = mqtt.DEVICES * mqtt.PER_DEVICE
    rates = [mqtt.fan_in(address, topic, has_own_names=has_own_names) for _ in range(FAN_INS)]
    return FAN_INS * count, sum(count / rate for rate in rates)


def name_devices(peer: Peer) -> None:
    """Create the topic that holds the devices' names."""
    load.create_topic(peer.bootstrap, f"{TOPIC}.{mqtt.BELOW.decode()}", 1, {"flush": "os"})


def _amqp_address(peer: Peer) -> tuple[str, int]:
    return _address(peer, "amqp")


def _address(peer: Peer, front: str) -> tuple[str, int]:
    ports = (peer.directory / "ports").read_text().split()
    return "127.0.0.1", int(ports[FRONTS.index(front)])


LOADS = {
    "prebuilt": Load(prebuilt, "MB/s", "s/GB", 1e6, GB),
    "librdkafka": Load(librdkafka, "MB/s", "s/GB", 1e6, GB),
    "idempotent": Load(idempotent, "MB/s", "s/GB", 1e6, GB),
    "kept": Load(kept, "MB/s", "s/GB", 1e6, GB, keep),
    "kept_one_by_one": Load(kept_one_by_one, "requests/s", "µs", 1.0, 1e6, keep),
    "fetches": Load(fetches, "MB/s", "s/GB", 1e6, GB, fill),
    "consume": Load(consume, "MB/s", "s/GB", 1e6, GB, fill),
    "crowd": Load(crowd, "MB/s", "s/GB", 1e6, GB, fill),
    "unbatched": Load(unbatched, "requests/s", "µs", 1.0, 1e6),
    "flushed": Load(flushed, "requests/s", "µs", 1.0, 1e6, spread),
    "devices": Load(devices, "messages/s", "µs", 1.0, 1e6),
    "device_names": Load(device_names, "messages/s", "µs", 1.0, 1e6, name_devices),
    "workers": Load(workers, "messages/s", "µs", 1.0, 1e6),
    "backlog": Load(backlog, "messages/s", "µs", 1.0, 1e6, pile_up),
    "shared_backlog": Load(shared_backlog, "messages/s", "µs", 1.0, 1e6, pile_up),
}


def measure(tree: Path, work: Load) -> Done:
    """Start a node of one version, and have it work."""
    directory = Path(tempfile.mkdtemp(dir=WORK))
    try:
        peer = start_chordmq(directory, source=tree.resolve() / "src")
        try:
            load.create_topic(peer.bootstrap, TOPIC, 1, {"flush": "os"})
            sockets.produce_pipelined(peer.bootstrap, TOPIC, BATCH, (1.0, BATCHES // 40))
            work.prepare(peer)
            before_s = usage_of(peer.pid).cpu_s
            pieces, seconds = work.run(peer)
            cpu_s = usage_of(peer.pid).cpu_s - before_s
        finally:
            peer.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    rate = pieces / work.pieces_in_unit / seconds
    return Done(rate, cpu_s / pieces * work.pieces_in_cost)


def compare(trees: Sequence[Path], work: Load, rounds: int) -> dict[Path, list[Done]]:
    """Measure all versions in turn, as often as there are rounds."""
    found: dict[Path, list[Done]] = {tree: [] for tree in trees}
    WORK.mkdir(parents=True, exist_ok=True)
    with page_cache(WORK / "page-cache") as cache:
        for number in range(rounds):
            for tree in trees if number % 2 == 0 else reversed(trees):
                cache.fill()
                found[tree].append(measure(tree, work))
    return found


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("trees", nargs="+", type=Path, help="checkouts of this project")
    parser.add_argument("--load", choices=LOADS, default="prebuilt")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    work = LOADS[options.load]
    for tree, done in compare(options.trees, work, options.rounds).items():
        rates, costs = [one.rate for one in done], [one.cost for one in done]
        print(
            f"{tree}: {median(rates):,.0f} [{min(rates):,.0f}, {max(rates):,.0f}] {work.unit}, "
            f"{median(costs):.3g} [{min(costs):.3g}, {max(costs):.3g}] {work.cost_unit} of the node"
        )


if __name__ == "__main__":
    main()

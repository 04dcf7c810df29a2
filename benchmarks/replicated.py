"""What replication costs: three nodes, three copies, acks=all, as Apache Kafka with the same."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from benchmarks import load
from benchmarks.peers import Peer, PeerFailed, free_port, start_chordmq, start_kafka
from benchmarks.session import GB, OURS, PEERS, Profile, Sample
from benchmarks.usage import usage_of

COMMAND = "python -m benchmarks --case replicated"
NODES = (1, 2, 3)
ACKS_ALL = {"acks": "all", "enable.idempotence": "true"}
LATENCY_RATES = {"os": 1_000, "disk": 100}
"""Messages a second; few enough that both brokers keep up with flushing each of them."""
CRASH_RATE = 500
CRASH_AFTER_S = 2.0
CRASH_WAIT_S = 30.0
KAFKA = """\
node.id={number}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{controller}
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
min.insync.replicas=2
"""


def replicated(directory: Path, ours: bool, profile: Profile) -> list[Sample]:
    """Measure throughput, latency and the time that the loss of a leader takes."""
    with (_chordmq if ours else _kafka)(directory) as peers:
        bootstrap = ",".join(peer.bootstrap for peer in peers)
        samples = []
        for durability in ("os", "disk"):
            settings = {"min.insync.replicas": "2", **(OURS if ours else PEERS)[durability]}
            for topic in (f"copied-{durability}", f"timed-{durability}"):
                load.create_topic(bootstrap, topic, 1, settings, copies=len(NODES))
            samples += _produced(peers, bootstrap, f"copied-{durability}", profile)
            samples += _delayed(peers, bootstrap, f"timed-{durability}", profile)
        return [*samples, _failed_over(peers, bootstrap, "copied-os")]


def _produced(peers: list[Peer], bootstrap: str, topic: str, profile: Profile) -> list[Sample]:
    """Produce 1 KiB messages with acks=all."""
    limit = (profile.produce_s, profile.bytes_max // 1024)
    load.produce(bootstrap, topic, 1024, ACKS_ALL, (1.0, limit[1]))
    before = _cpu_s(peers)
    rate = load.produce(bootstrap, topic, 1024, ACKS_ALL, limit)
    cost = (_cpu_s(peers) - before, _rss_mb(peers), COMMAND)
    name = f"replicated_1k_{topic.removeprefix('copied-')}"
    mb_s = rate.size / rate.seconds / 1e6
    return [
        Sample(name, rate.per_s, "msg/s", *cost, goal="replicated", mb_s=mb_s),
        Sample(f"{name}.cpu_per_gb", cost[0] / (rate.size / GB), "CPU s/GB", *cost),
    ]


def _delayed(peers: list[Peer], bootstrap: str, topic: str, profile: Profile) -> list[Sample]:
    """Measure from produce to arrival at a consumer, which sees only what all copies have."""
    durability = topic.removeprefix("timed-")
    before = _cpu_s(peers)
    rate = LATENCY_RATES[durability]
    found = load.latencies(bootstrap, topic, rate, profile.latency_s, "all")
    cost = (_cpu_s(peers) - before, _rss_mb(peers), COMMAND)
    name = f"replicated_latency_{durability}"
    return [
        Sample(f"{name}.p50", found.p50, "ms", *cost),
        Sample(f"{name}.p99", found.p99, "ms", *cost, goal="replicated_latency"),
    ]


def _failed_over(peers: list[Peer], bootstrap: str, topic: str) -> Sample:
    """Kill the leader with -9 while a producer works; return its longest wait."""
    acked_s = [time.monotonic()]
    waits_s = [0.0]
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        now_s = time.monotonic()
        if error is not None:
            failed.append(error)
        waits_s.append(now_s - acked_s[-1])
        acked_s.append(now_s)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **ACKS_ALL})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    leader = admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader
    began_s, is_killed = time.monotonic(), False
    while time.monotonic() - began_s < CRASH_AFTER_S + CRASH_WAIT_S:
        producer.produce(topic, b"x" * 100, on_delivery=delivered)
        producer.poll(1 / CRASH_RATE)
        if not is_killed and time.monotonic() - began_s > CRASH_AFTER_S:
            is_killed = True
            waits_s.clear()
            peers[leader - 1].kill()
        if is_killed and max(waits_s, default=0.0) > 0.2 and time.monotonic() - acked_s[-1] < 0.1:
            break
    if producer.flush(60) or failed:
        raise load.LoadFailed(f"{len(failed)} messages were refused after the leader was killed")
    cost = (0.0, _rss_mb(peers), COMMAND)
    return Sample("failover_kill9", max(waits_s), "s", *cost)


@contextmanager
def _chordmq(directory: Path) -> Iterator[list[Peer]]:
    """Start an etcd and three nodes on it."""
    etcd = shutil.which("etcd")
    if etcd is None:
        raise PeerFailed("etcd is missing: python scripts/system_packages.py")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [etcd, "--name", "bench", "--data-dir", str(directory / "etcd")]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client]
    command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    command += ["--initial-cluster", f"bench={peer}"]
    with (directory / "etcd.log").open("wb") as log:
        store = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with _started(
            lambda number: start_chordmq(
                directory / f"node{number}",
                (
                    "cluster.store=etcd",
                    f"cluster.endpoints={client}",
                    "cluster.lease_s=2",
                    f"broker.node.id={number}",
                ),
            )
        ) as peers:
            yield peers
    finally:
        store.terminate()
        store.wait()


@contextmanager
def _kafka(directory: Path) -> Iterator[list[Peer]]:
    """Start three Kafka nodes, each broker and controller."""
    controllers = {number: free_port() for number in NODES}
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())

    def start(number: int) -> Peer:
        lines = KAFKA.format(number=number, voters=voters, controller=controllers[number])
        return start_kafka(directory / f"kafka{number}", lines.splitlines())

    with _started(start) as peers:
        yield peers


@contextmanager
def _started(start: Callable[[int], Peer]) -> Iterator[list[Peer]]:
    """Start all nodes at once; the threads stay, for their processes die with them."""
    peers: dict[int, Peer] = {}
    over = threading.Event()

    def run(number: int) -> None:
        peers[number] = start(number)
        over.wait()

    with ThreadPoolExecutor(len(NODES)) as pool:
        running = [pool.submit(run, number) for number in NODES]
        try:
            while len(peers) < len(NODES):
                for one in running:
                    if one.done():
                        one.result()
                time.sleep(0.05)
            yield [peers[number] for number in NODES]
        finally:
            for peer in peers.values():
                peer.kill()
            over.set()


def _cpu_s(peers: list[Peer]) -> float:
    return sum(usage_of(peer.pid).cpu_s for peer in peers if peer.process.poll() is None)


def _rss_mb(peers: list[Peer]) -> float:
    return sum(usage_of(peer.pid).rss_mb for peer in peers if peer.process.poll() is None)

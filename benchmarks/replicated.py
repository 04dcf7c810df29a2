"""What replication costs: three nodes, three copies, acks=all, as Apache Kafka with the same."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
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
WARM_UP_S = 3.0
"""Of a latency that does not count: a Java machine that has just started is slow."""
LOSS_RATE = 500
LOSS_AFTER_S = 2.0
SETTLED_S = 3.0
LOSS_WAIT_S = 60.0
KAFKA = """\
node.id={number}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{controller}
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
min.insync.replicas=2
"""


@dataclass(slots=True)
class Nodes:
    """Three running nodes, and how to start one again."""

    start: Callable[[int], Peer]
    peers: dict[int, Peer] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all."""
        return ",".join(peer.bootstrap for peer in self.peers.values())

    def restart(self, number: int) -> None:
        """Start a node that has ended."""
        self.peers[number].stop()
        self.peers[number] = self.start(number)

    def cpu_s(self) -> float:
        """Return what those that run have spent."""
        return sum(usage_of(peer.pid).cpu_s for peer in self._running())

    def rss_mb(self) -> float:
        """Return what those that run hold."""
        return sum(usage_of(peer.pid).rss_mb for peer in self._running())

    def _running(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.process.poll() is None]


def replicated(directory: Path, ours: bool, profile: Profile) -> list[Sample]:
    """Measure throughput, latency and the time that the loss of a leader takes."""
    with (_chordmq if ours else _kafka)(directory) as nodes:
        samples = []
        for durability in ("os", "disk"):
            settings = {"min.insync.replicas": "2", **(OURS if ours else PEERS)[durability]}
            for use in ("copied", "warm", "timed"):
                topic = f"{use}-{durability}"
                load.create_topic(nodes.bootstrap, topic, 1, settings, copies=len(NODES))
            samples += _produced(nodes, durability, profile)
            samples += _delayed(nodes, durability, profile)
        stopped = _lose(nodes, "copied-os", lambda peer: peer.process.terminate())
        samples.append(_wait_sample("failover_graceful", nodes, stopped.longest_s))
        nodes.restart(stopped.leader)
        load.await_copies(nodes.bootstrap, "copied-os", len(NODES))
        killed = _lose(nodes, "copied-os", Peer.kill)
        samples.append(_wait_sample("failover_kill9", nodes, killed.longest_s))
        return samples


def _produced(nodes: Nodes, durability: str, profile: Profile) -> list[Sample]:
    """Produce 1 KiB messages with acks=all."""
    topic, limit = f"copied-{durability}", (profile.produce_s, profile.bytes_max // 1024)
    load.produce(nodes.bootstrap, topic, 1024, ACKS_ALL, (1.0, limit[1]))
    before = nodes.cpu_s()
    rate = load.produce(nodes.bootstrap, topic, 1024, ACKS_ALL, limit)
    cost = (nodes.cpu_s() - before, nodes.rss_mb(), COMMAND)
    name = f"replicated_1k_{durability}"
    mb_s = rate.bytes_per_s / 1e6
    return [
        Sample(name, rate.per_s, "msg/s", *cost, goal="replicated", mb_s=mb_s),
        Sample(f"{name}.cpu_per_gb", cost[0] / (rate.size / GB), "CPU s/GB", *cost),
        Sample(f"{name}.memory", cost[1], "MB", *cost),
    ]


def _delayed(nodes: Nodes, durability: str, profile: Profile) -> list[Sample]:
    """Measure from produce to arrival at a consumer, which sees only what all copies have."""
    rate = LATENCY_RATES[durability]
    load.latencies(nodes.bootstrap, f"warm-{durability}", rate, WARM_UP_S, "all")
    before = nodes.cpu_s()
    found = load.latencies(nodes.bootstrap, f"timed-{durability}", rate, profile.latency_s, "all")
    cost = (nodes.cpu_s() - before, nodes.rss_mb(), COMMAND)
    name = f"replicated_latency_{durability}"
    return [
        Sample(f"{name}.p50", found.p50, "ms", *cost),
        Sample(f"{name}.p99", found.p99, "ms", *cost, goal="replicated_latency"),
    ]


def _wait_sample(name: str, nodes: Nodes, longest_s: float) -> Sample:
    return Sample(name, longest_s, "s", 0.0, nodes.rss_mb(), COMMAND)


@dataclass(frozen=True, slots=True)
class Loss:
    """The end of a leader: who it was, and how long the producer waited at most."""

    leader: int
    longest_s: float


def _lose(nodes: Nodes, topic: str, end: Callable[[Peer], None]) -> Loss:
    """End the leader while an idempotent producer works, and go on until that does, too."""
    acked_s = [time.monotonic()]
    waits_s: list[float] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        now_s = time.monotonic()
        if error is not None:
            failed.append(error)
        waits_s.append(now_s - acked_s[-1])
        acked_s.append(now_s)

    producer = Producer({"bootstrap.servers": nodes.bootstrap, "linger.ms": 1, **ACKS_ALL})
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    leader = admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader
    end_s = time.monotonic() + LOSS_AFTER_S
    is_over = False
    while time.monotonic() < end_s + LOSS_WAIT_S:
        producer.produce(topic, b"x" * 100, on_delivery=delivered)
        producer.poll(1 / LOSS_RATE)
        now_s = time.monotonic()
        if not is_over and now_s > end_s:
            is_over, end_s = True, now_s
            waits_s.clear()
            end(nodes.peers[leader])
        if is_over and now_s > end_s + SETTLED_S and now_s - acked_s[-1] < 0.1:
            break
    if producer.flush(60) or failed:
        raise load.LoadFailed(f"{len(failed)} messages were refused after the leader was lost")
    return Loss(leader, max(waits_s))


@contextmanager
def _chordmq(directory: Path) -> Iterator[Nodes]:
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
        ) as nodes:
            yield nodes
    finally:
        store.terminate()
        store.wait()


@contextmanager
def _kafka(directory: Path) -> Iterator[Nodes]:
    """Start three Kafka nodes, each broker and controller."""
    controllers = {number: free_port() for number in NODES}
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())

    def start(number: int) -> Peer:
        lines = KAFKA.format(number=number, voters=voters, controller=controllers[number])
        return start_kafka(directory / f"kafka{number}", lines.splitlines())

    with _started(start) as nodes:
        yield nodes


@contextmanager
def _started(start: Callable[[int], Peer]) -> Iterator[Nodes]:
    """Start all nodes at once; the threads stay, for their processes die with them."""
    nodes = Nodes(start)
    over = threading.Event()

    def run(number: int) -> None:
        nodes.peers[number] = start(number)
        over.wait()

    with ThreadPoolExecutor(len(NODES)) as pool:
        running = [pool.submit(run, number) for number in NODES]
        try:
            while len(nodes.peers) < len(NODES):
                for one in running:
                    if one.done():
                        one.result()
                time.sleep(0.05)
            yield nodes
        finally:
            for peer in nodes.peers.values():
                peer.kill()
            over.set()

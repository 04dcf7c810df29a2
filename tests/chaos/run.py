"""One run: a cluster, clients, a nemesis, and what the checker has to say."""

import base64
import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.chaos.checker import check
from tests.chaos.clients import Client, Member, Reader, Transactor, Writer, read_to_end
from tests.chaos.disks import Disk
from tests.chaos.history import History, Write, now_s
from tests.chaos.hosts import EtcdHost, NodeHost
from tests.chaos.nemesis import Nemesis
from tests.chaos.network import Network

PARTITIONS = 4
PLAIN, TRANSACTED = "plain", "transacted"
PLACES = [(PLAIN, index) for index in range(PARTITIONS)]
TRANSACTED_PLACES = [(TRANSACTED, index) for index in range(PARTITIONS)]
PATIENCE_S = 120.0
STORE_PREFIX = "/chordmq/chordmq/parts/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, and for how long."""

    seconds: float
    seed: int
    nodes: int = 5
    etcd: int = 3
    faults: tuple[str, ...] = ()
    """Only these; none means all."""
    disks: bool = True
    clocks: bool = False
    """Whether clocks may go wrong, for which nodes run slower."""


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    plan: Plan
    anomalies: dict[str, list[str]]
    told: list[str]
    counts: dict[str, int]
    gap_s: float
    """The longest time in which nothing was acknowledged."""
    faults: list[str] = field(default_factory=list)

    def report(self) -> str:
        """Return it as text."""
        lines = [*self.told, ""]
        lines += [f"{name}: {count}" for name, count in self.counts.items()]
        lines.append(f"longest time without an acknowledgement: {self.gap_s:.1f} s")
        lines += [f"client began anew: {fault}" for fault in self.faults[:10]]
        for kind, findings in self.anomalies.items():
            lines.append(f"ANOMALY {kind}: {len(findings)}")
            lines += [f"    {finding}" for finding in findings[:10]]
        verdict = "anomalies were found" if self.anomalies else "no anomalies"
        return "\n".join([*lines, f"{verdict} (seed {self.plan.seed})"])


def run(plan: Plan, directory: Path) -> Outcome:
    """Run a cluster under faults for a while and check it."""
    history = History()
    chance = Random(plan.seed)
    with cluster(plan, directory) as (network, nodes, etcd):
        bootstrap = ",".join(node.kafka for node in nodes)
        create_topics(bootstrap, min(3, plan.nodes))
        nemesis = Nemesis(chance, network, nodes, etcd)
        if plan.faults:
            nemesis.faults = {name: nemesis.faults[name] for name in plan.faults}
        writers, readers = clients(bootstrap, history, plan.seed)
        for client in (*readers, *writers):
            client.start()
        wait_for_first(history)
        nemesis.run(plan.seconds)
        time.sleep(3)
        for client in writers:
            client.join()
        history.final, ends = read_to_end(bootstrap, PLACES + TRANSACTED_PLACES, PATIENCE_S)
        catch_up(readers, history)
        for client in readers:
            client.join()
        history.leaders = leaders(etcd[0].endpoint)
        wait_for_copies(bootstrap)
        for node in nodes:
            node.stop()
        history.copies = copies(nodes)
    history.save(directory / "history.jsonl")
    outcomes = [write.outcome for write in history.writes]
    return Outcome(
        plan,
        check(history),
        nemesis.told,
        {
            "acknowledged": outcomes.count("ok"),
            "unknown": outcomes.count("unknown"),
            "transactions": len(history.transactions),
            "committed": [one.outcome for one in history.transactions].count("committed"),
            "read under faults": len(history.reads),
            "there at the end": len(history.final),
            "elections": len(set(history.leaders)),
            "end offsets": sum(ends.values()),
        },
        longest_gap_s(history.writes),
        [f"{client.name}: {fault}" for client in (*writers, *readers) for fault in client.faults],
    )


@contextmanager
def cluster(
    plan: Plan, directory: Path
) -> Iterator[tuple[Network, list[NodeHost], list[EtcdHost]]]:
    """Run nodes and etcd in namespaces; everything is taken away again."""
    etcd_names = [f"e{number}" for number in range(1, plan.etcd + 1)]
    node_names = [f"n{number}" for number in range(1, plan.nodes + 1)]
    with ExitStack() as stack:
        network = stack.enter_context(Network([*etcd_names, *node_names], os.getpid()))
        EtcdHost.members = {name: network.addresses[name] for name in etcd_names}
        etcd = [EtcdHost(name, network, directory) for name in etcd_names]
        settings = {
            "cluster.store": "etcd",
            "cluster.endpoints": ",".join(member.endpoint for member in etcd),
            "cluster.lease_s": "3",
            "broker.default.replication.factor": str(min(3, plan.nodes)),
            "broker.min.insync.replicas": str(min(2, plan.nodes)),
        }
        nodes = [
            NodeHost(number, network, directory, settings) for number in range(1, plan.nodes + 1)
        ]
        for node in nodes:
            node.can_err = plan.clocks
            node.set_clock(0)
            if plan.disks:
                node.disk = Disk(node.data)
                stack.callback(node.disk.close)
                node.disk.make()
            else:
                node.data.mkdir()
        for host in (*etcd, *nodes):
            stack.callback(host.kill)
            host.start()
        for host in (*etcd, *nodes):
            host.wait()
        yield network, nodes, etcd


def clients(
    bootstrap: str, history: History, seed: int
) -> tuple[list[Client], list[Member | Reader]]:
    """Return those who write and those who read."""
    writers: list[Client] = [
        Writer("w1", bootstrap, history, seed, PLACES),
        Writer("w2", bootstrap, history, seed, PLACES),
        Transactor("t1", bootstrap, history, seed, TRANSACTED_PLACES),
    ]
    readers: list[Member | Reader] = [
        Reader("alone", bootstrap, history, seed, PLACES + TRANSACTED_PLACES),
        Member("group/1", bootstrap, history, seed, PLACES + TRANSACTED_PLACES),
        Member("group/2", bootstrap, history, seed, PLACES + TRANSACTED_PLACES),
    ]
    return writers, readers


def create_topics(bootstrap: str, replicas: int) -> None:
    """Make the topics, and wait until all their partitions are led."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = now_s() + PATIENCE_S
    wanted = [
        NewTopic(name, PARTITIONS, replication_factor=replicas) for name in (PLAIN, TRANSACTED)
    ]
    for future in admin.create_topics(wanted, operation_timeout=20).values():
        future.result()
    while True:
        try:
            topics = admin.list_topics(timeout=5).topics
            partitions = [p for n in (PLAIN, TRANSACTED) for p in topics[n].partitions.values()]
            if len(partitions) == 2 * PARTITIONS and all(p.leader >= 0 for p in partitions):
                return
        except (KafkaException, KeyError):
            pass
        assert now_s() < deadline, "the topics have no leaders"
        time.sleep(0.1)


def wait_for_copies(bootstrap: str) -> None:
    """Wait until all copies are in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = now_s() + PATIENCE_S
    while True:
        topics = admin.list_topics(timeout=5).topics
        partitions = [p for n in (PLAIN, TRANSACTED) for p in topics[n].partitions.values()]
        if all(set(p.isrs) == set(p.replicas) for p in partitions):
            return
        assert now_s() < deadline, "some copies do not catch up"
        time.sleep(0.2)


def copies(nodes: list[NodeHost]) -> dict[str, dict[str, str]]:
    """Return the checksum of each copy of each partition, by partition and node."""
    found: dict[str, dict[str, str]] = {}
    for topic, index in PLACES + TRANSACTED_PLACES:
        for node in nodes:
            files = sorted((node.data / "data" / "topics" / f"{topic}-{index}").glob("*.log"))
            if files:
                digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
                found.setdefault(f"{topic}-{index}", {})[node.name] = digest
    return found


def wait_for_first(history: History) -> None:
    """Wait until something was acknowledged."""
    deadline = now_s() + PATIENCE_S
    while not any(write.outcome == "ok" for write in list(history.writes)):
        assert now_s() < deadline, "nothing is acknowledged"
        time.sleep(0.1)


def catch_up(readers: list[Member | Reader], history: History) -> None:
    """Wait until everything that is there was read by each reader or its group."""
    there = {read.value for read in history.final}
    deadline = now_s() + PATIENCE_S
    groups = {reader.name.partition("/")[0] for reader in readers}
    missing: dict[str, int] = {}
    while True:
        seen: dict[str, set[str]] = {group: set() for group in groups}
        for read in list(history.reads):
            seen[read.consumer.partition("/")[0]].add(read.value)
        missing = {group: len(there - values) for group, values in seen.items()}
        if not any(missing.values()) or now_s() > deadline:
            return
        threading.Event().wait(0.5)


def leaders(endpoint: str) -> list[tuple[str, int, int]]:
    """Return every leader that the store has ever held, from its history."""
    start = base64.b64encode(STORE_PREFIX.encode()).decode()
    end = base64.b64encode((STORE_PREFIX[:-1] + chr(ord("/") + 1)).encode()).decode()
    ask = {"create_request": {"key": start, "range_end": end, "start_revision": "1"}}
    request = urllib.request.Request(
        f"{endpoint}/v3/watch", json.dumps(ask).encode(), {"Content-Type": "application/json"}
    )
    found = []
    with urllib.request.urlopen(request, timeout=3) as answer:
        try:
            for line in answer:
                for event in json.loads(line)["result"].get("events", []):
                    entry = event["kv"]
                    if "value" in entry:
                        key = base64.b64decode(entry["key"]).decode()
                        state = json.loads(base64.b64decode(entry["value"]))
                        epoch, leader = state.get("leader_epoch", 0), state.get("leader", -1)
                        found.append((key.removeprefix(STORE_PREFIX), epoch, leader))
        except TimeoutError:
            return found
    return found


def longest_gap_s(writes: list[Write]) -> float:
    """Return the longest time between two acknowledgements."""
    times = sorted(write.ended_s for write in writes if write.outcome == "ok" and write.ended_s)
    return max((after - before for before, after in pairwise(times)), default=0)

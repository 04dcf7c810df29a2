"""A tree of four levels, each node in a network namespace of its own, under random faults; slow."""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import httpx
import pytest
from confluent_kafka import Producer

from tests.chaos.hosts import HTTP, Host, NodeHost
from tests.chaos.network import Network
from tests.topology.reading import numbers_by_partition

COUNT = int(os.environ.get("CHORDMQ_TREE_RECORDS", "100000"))
ROUNDS = 10
TOPIC = "orders"
PATIENCE_S = 300.0
ROLES = ["ROOT", *["L2"] * 2, *["L3"] * 4, *["LOCAL"] * 8]
LEAVES = range(7, 15)


class RegistryHost(Host):
    """The registry of the tree."""

    def __init__(self, network: Network, directory: Path) -> None:
        super().__init__("reg", network, directory)
        self._directory = directory / "registry"
        self.base = f"http://{self.address}:8090"

    def url(self) -> str:
        return f"{self.base}/healthz"

    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "chordmq", "registry", "serve", "--host", self.address,
            "--directory", str(self._directory), "--token", "t", "--dead-after", "4",
        ]  # fmt: skip


class Tree:
    """One root, two regions, four districts and eight shops."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.network = network
        self.registry = RegistryHost(network, directory)
        self.nodes = [
            NodeHost(number, network, directory, self._settings(number, role))
            for number, role in enumerate(ROLES)
        ]

    def _settings(self, number: int, role: str) -> dict[str, str]:
        return {
            "pipes.registry": self.registry.base,
            "pipes.registry_token": "t",
            "pipes.node": f"n{number}",
            "pipes.role": role,
            "pipes.topics": TOPIC,
            "pipes.topics_interval_s": "1",
            "pipes.wait_ms": "3000",
        }

    def start(self) -> None:
        self.registry.start()
        self.registry.wait()
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait()

    def close(self) -> None:
        for host in (self.registry, *self.nodes):
            host.kill()

    def parents(self) -> dict[str, str]:
        answer = httpx.get(
            f"{self.registry.base}/v1/topology", headers={"authorization": "Bearer t"}, timeout=30
        )
        return {name: one["parent"] for name, one in answer.json()["nodes"].items()}

    def retire(self, number: int) -> None:
        """Take a node out of the tree for good."""
        self.nodes[number].kill()
        url = f"{self.registry.base}/v1/nodes/n{number}"
        assert httpx.delete(url, headers={"authorization": "Bearer t"}, timeout=30).is_success


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    hosts = ["reg", *(f"n{number}" for number in range(len(ROLES)))]
    with Network(hosts, os.getpid()) as network:
        grown = Tree(network, tmp_path)
        try:
            grown.start()
            yield grown
        finally:
            grown.close()


class Writer(Thread):
    """Writes all numbers to the root, at a pace that outlasts the faults."""

    def __init__(self, root: NodeHost) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": root.kafka, "enable.idempotence": True, "linger.ms": 5,
                "message.timeout.ms": 600_000, "reconnect.backoff.max.ms": 500, "log_level": 0,
            }
        )  # fmt: skip
        self.failures: list[object] = []

    def run(self) -> None:
        for number in range(COUNT):
            self._producer.produce(
                TOPIC, b"%d" % number, partition=number % 2, on_delivery=self._told
            )
            if number % (COUNT // 100) == 0:
                self._producer.poll(0.3)
        self._producer.flush()

    def _told(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures.append(error)


def disturb(tree: Tree, chance: random.Random) -> None:
    """Let something go wrong for a while, and mend it."""
    kind = chance.choice(["node", "node", "registry", "link", "link"])
    if kind == "registry":
        tree.registry.kill()
        time.sleep(chance.uniform(0.5, 3))
        tree.registry.start()
        tree.registry.wait()
        return
    victim = tree.nodes[chance.randrange(len(tree.nodes))]
    if kind == "node":
        victim.kill()
        time.sleep(chance.uniform(0, 2))
        victim.start()
        victim.wait()
        return
    others = [host.name for host in (tree.registry, *tree.nodes) if host is not victim]
    tree.network.cut([(victim.name, other) for other in others])
    time.sleep(chance.uniform(1, 6))
    tree.network.heal()


def end(node: NodeHost) -> int:
    answer = httpx.get(f"http://{node.address}:{HTTP}/v1/topics/{TOPIC}", timeout=30)
    if answer.status_code != 200:
        return 0
    return sum(row["end_offset"] for row in answer.json()["partitions"])


def wait_for(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if holds():
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline_s, what
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_leaf_has_everything_once_and_in_order_whatever_happens(tree: Tree) -> None:
    """D11, D12: kill -9 of nodes and registry, links that are cut, and a parent that retires."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    root = tree.nodes[0]
    body = {"name": TOPIC, "partitions": 2, "settings": {"flush": "os"}}
    created = httpx.post(f"http://{root.address}:{HTTP}/v1/topics", json=body, timeout=30)
    assert created.is_success
    wait_for(lambda: all(tree.parents()[f"n{n}"] for n in range(1, 15)), "all have a parent")
    writer = Writer(root)
    writer.start()
    for _ in range(ROUNDS):
        disturb(tree, chance)
    tree.retire(1)
    disturb(tree, chance)
    tree.nodes[1].kill()
    writer.join()
    assert not writer.failures
    wait_for(lambda: "n1" not in tree.parents().values(), "the children have another parent")
    for number in LEAVES:
        wait_for(lambda leaf=tree.nodes[number]: end(leaf) >= COUNT, f"n{number} has all")  # type: ignore[misc]
        expected = {index: list(range(index, COUNT, 2)) for index in (0, 1)}
        assert numbers_by_partition(tree.nodes[number].kafka, TOPIC) == expected, (
            f"n{number}, seed {seed}"
        )

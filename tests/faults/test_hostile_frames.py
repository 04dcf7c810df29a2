"""Hostile frames on every API of every kind of listener: only their own connections suffer."""

import asyncio
import json
import os
import random
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from chordmq.client.connection import ConnectionSettings
from chordmq.client.consumer import Consumer
from chordmq.client.producer import Producer
from chordmq.client.security import Security
from tests.faults.hostile_frames import Attack, HostileFrames, spray
from tests.running_node import RunningNode

MIB = 1 << 20
MEMORY_GROWTH_MAX = 150 * MIB
FEW, MANY = 5_000, 100_000
BYSTANDER = "bystander"
SEED = int(os.environ.get("HOSTILE_SEED") or random.SystemRandom().randrange(2**32))
PASSWORDS = {"root": "root-password", "eve": "eve-password"}
LIMITS = {"broker.max.partitions": "150", "kafka.partial_frame_timeout_s": "60"}


@dataclass(frozen=True)
class Target:
    """A node under attack, and how its honest and its hostile clients reach it."""

    node: RunningNode
    honest: ConnectionSettings
    context: ssl.SSLContext | None = None

    def attack(self, login: str | None) -> Attack:
        pair = (login, PASSWORDS[login]) if login else None
        return Attack(self.node.address, context=self.context, login=pair)


def open_node(directory: Path) -> Target:
    return Target(RunningNode(directory, LIMITS), ConnectionSettings())


def secured_node(directory: Path) -> Target:
    """Return a node whose listener demands TLS and a login, and which keeps an audit trail."""
    authority = trustme.CA()
    certificate, ca = directory / "node.pem", directory / "ca.pem"
    directory.mkdir(parents=True)
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(certificate)
    )
    authority.cert_pem.write_to_path(str(ca))
    secured = {"kafka.tls.certificate": str(certificate), "auth.mechanisms": "PLAIN"}
    node = RunningNode(directory, LIMITS | secured | {"auth.super_users": "User:root"})
    for name, password in PASSWORDS.items():
        subprocess.run(
            [sys.executable, "-m", "chordmq", "users", "add", name, "--data-dir", str(node.data)],
            env=os.environ | {"CHORDMQ_NEW_PASSWORD": password}, check=True,
        )  # fmt: skip
    context = ssl.create_default_context(cafile=str(ca))
    security = Security(
        user="root", password=PASSWORDS["root"], mechanism="PLAIN", tls=True, tls_ca=str(ca)
    )
    return Target(node, ConnectionSettings(security=security), context)


@pytest.fixture
def hit(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Give a function that attacks a node and sees that nobody else notices."""
    nodes: list[RunningNode] = []

    def attack(make: Callable[[Path], Target], login: str | None, count: int, seed: int) -> None:
        target = make(tmp_path / f"node-{len(nodes)}")
        nodes.append(target.node)
        target.node.start()
        outcomes = asyncio.run(disturbed(target, login, count, seed))
        print(f"seed {seed}: {outcomes}")
        assert sum(outcomes.values()) == count
        assert target.node.is_running()
        assert faults(target.node) == set(), f"seed {seed}: requests raised errors of ours"

    yield attack
    for node in nodes:
        node.close()


def faults(node: RunningNode) -> set[str]:
    """Return the last lines of each kind of traceback in the node's log."""
    lines = node.log.read_text().splitlines()
    traces = (json.loads(line)["exception"] for line in lines if "Traceback" in line)
    return {"\n".join(trace.splitlines()[-3:]) for trace in traces}


async def disturbed(target: Target, login: str | None, count: int, seed: int) -> dict[str, int]:
    """Attack while an honest client writes; return how the frames ended."""
    over = asyncio.Event()
    frames = HostileFrames(seed)
    attack = target.attack(login)
    await asyncio.wait_for(honest_work(target, over, is_over=True), 60)
    before = target.node.resident_bytes()
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(honest_work(target, over))
        await attack.run(iter(frames), count)
        await spray(target.node.address, frames.chance, 100)
        over.set()
    assert target.node.resident_bytes() - before < MEMORY_GROWTH_MAX
    written = 1 + writing.result()
    assert await stored(target, written) == written
    return dict(attack.outcomes)


async def honest_work(target: Target, over: asyncio.Event, *, is_over: bool = False) -> int:
    """Write records one after the other, each in good time, until told; return how many."""
    count = 0
    async with Producer(target.node.bootstrap, connection=target.honest) as producer:
        while count == 0 or not (is_over or over.is_set()):
            async with asyncio.timeout(60):
                await producer.send(BYSTANDER, b"%d" % count, partition=0)
            count += 1
    return count


async def stored(target: Target, wanted: int) -> int:
    """Return how many honest records there are: so many at least, or the wait is in vain."""
    async with Consumer(target.node.bootstrap, connection=target.honest) as consumer:
        await consumer.assign_topic(BYSTANDER)
        count = 0
        while chunk := await consumer.poll(60.0 if count < wanted else 0.5):
            count += len(chunk.records)
    return count


def test_hostile_frames_on_an_open_listener_hurt_only_their_connections(
    hit: Callable[..., None],
) -> None:
    """C11, C12: made up, mutated and random requests of every API and version."""
    hit(open_node, None, FEW, seed=1)


@pytest.mark.parametrize("login", [None, "eve", "root"])
def test_hostile_frames_on_a_listener_with_tls_and_login_hurt_only_their_connections(
    hit: Callable[..., None], login: str | None
) -> None:
    """C11, C12: of strangers, of a user without rights, and of an administrator gone mad."""
    hit(secured_node, login, FEW // 5, seed=2)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_thousand_hostile_frames_hurt_only_their_connections(
    hit: Callable[..., None],
) -> None:
    """C11, C12: with a seed of its own each time; a failure names it."""
    hit(open_node, None, MANY, seed=SEED)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("login", [None, "eve", "root"])
def test_twenty_thousand_hostile_frames_behind_tls_and_login_hurt_only_their_connections(
    hit: Callable[..., None], login: str | None
) -> None:
    hit(secured_node, login, MANY // 5, seed=SEED)

"""Connections of the procedure-call fronts: garbage, slow readers, limits, TLS, shutdown."""

import asyncio
import os
import random
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.fronts.rpc.clients import Doors
from tests.fronts.rpc.contract import Login, Refused, Row
from tests.running_node import RunningNode
from tests.waiting import wait_until

LIMITS = {"connections_max": "4", "frame_size_max": "100000", "subscriptions_max": "2"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[RunningNode]:
    """Give a node that allows little, and has no clients of other tests."""
    settings = {f"{front}.{name}": LIMITS[name] for front in ("capnp", "grpc") for name in LIMITS}
    yield from running(tmp_path, settings)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningNode, Path]]:
    """Give a node that speaks TLS, and the file of its authority."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    ca, certificate = folder / "ca.pem", folder / "node.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    settings = {f"{front}.tls.certificate": str(certificate) for front in ("capnp", "grpc")}
    for node in running(folder, settings):
        yield node, ca


@pytest.fixture(scope="module")
def sturdy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node whose memory these tests alone use."""
    yield from running(tmp_path_factory.mktemp("sturdy"), {})


def running(folder: Path, settings: dict[str, str]) -> Iterator[RunningNode]:
    node = RunningNode(folder / "node", settings)
    try:
        node.start()
        yield node
    finally:
        node.close()


def garbage() -> list[bytes]:
    """Return what no client should send, the same each time."""
    chance = random.Random(5)
    found = [chance.randbytes(chance.randrange(1, 4_000)) for _ in range(40)]
    found += [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 4_096, b"\xff" * 4_096, PREFACE + b"\xff" * 99]
    found += [PREFACE + chance.randbytes(500) for _ in range(10)]
    # Frames of Cap'n Proto that are whole, and hold nonsense; one that claims to be very large.
    for words in (1, 2, 8, 64):
        found.append(struct.pack("<II", 0, words) + chance.randbytes(words * 8))
    found.append(struct.pack("<II", 0, 2**31))
    found.append(struct.pack("<I", 511) + struct.pack("<I", 2**32 - 1) * 512)
    return found


async def test_garbage_ends_its_own_connection_only(
    sturdy: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(sturdy)
    await client.create_topic(name)

    def send(data: bytes) -> None:
        with socket.create_connection(door.address(sturdy), timeout=60) as one:
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            try:
                while one.recv(65536):
                    pass
            except ConnectionError:
                return

    for data in garbage():
        await asyncio.to_thread(send, data)
    assert await client.publish(name, [Row(b"v")]) == [(0, 0)]
    assert await (await door.open(sturdy)).end_offsets(name) == [1]
    assert sturdy.is_running()
    await asyncio.to_thread(
        wait_until, lambda: sturdy.metric("chordmq_connection_memory_bytes") == 0
    )


async def test_a_slow_reader_holds_no_memory_and_nobody_up(
    sturdy: RunningNode, name: str, door: Doors
) -> None:
    """A client that takes nothing: the node stays small, others are served, nothing is lost."""
    client = await door.open(sturdy)
    await client.create_topic(name)
    brisk = await client.subscribe(name)
    sleeper = await asyncio.to_thread(start_sleeper, sturdy, name, door)
    before = sturdy.resident_bytes()
    value = os.urandom(50_000)
    try:
        for _ in range(40):
            await client.publish(name, [Row(value) for _ in range(25)])
            assert len(await brisk.take(25)) == 25
        assert sturdy.metric("chordmq_connection_memory_bytes") < 4 * 2**20
        tail = 64 * 2**20  # of the log, which the node keeps in memory anyway
        assert sturdy.resident_bytes() - before < 40 * 2**20 + tail
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.stdout is not None
        assert await asyncio.to_thread(sleeper.stdout.readline) == b"has 1000\n"
    finally:
        await asyncio.to_thread(end, sleeper)


def start_sleeper(node: RunningNode, topic: str, door: Doors) -> subprocess.Popen[bytes]:
    """Start a subscriber in a process of its own, and stop it as soon as it is subscribed."""
    script = Path(__file__).with_name("consumer.py")
    host, port = door.address(node)
    arguments = [door.front, host, str(port), topic, "", "1000"]
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, cwd=script.parents[3]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"subscribed\n"
    process.send_signal(signal.SIGSTOP)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


async def test_no_more_clients_come_in_than_may(
    strict: RunningNode, name: str, door: Doors
) -> None:
    clients = [await door.open(strict) for _ in range(4)]
    with pytest.raises((Refused, ConnectionError)):
        await door.open(strict)
    await clients[0].close()
    async with asyncio.timeout(60):
        while True:
            try:
                assert name not in await (await door.open(strict)).topics()
                return
            except (Refused, ConnectionError):  # the node has not noticed yet
                continue


async def test_a_call_that_is_too_large_is_refused(
    strict: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(strict)
    await client.create_topic(name)
    assert await client.publish(name, [Row(b"x" * 90_000)]) == [(0, 0)]
    with pytest.raises(Refused):
        await client.publish(name, [Row(b"x" * 110_000)])
    assert await (await door.open(strict)).end_offsets(name) == [1]


async def test_no_more_subscriptions_are_open_than_may(
    strict: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(strict)
    await client.create_topic(name)
    first = await client.subscribe(name)
    await client.subscribe(name)
    with pytest.raises(Refused) as refusal:
        await client.subscribe(name)
    assert refusal.value.error == "PolicyViolation"
    await first.close()
    async with asyncio.timeout(60):
        while True:
            try:
                await client.subscribe(name)
                return
            except Refused:  # the node has not noticed yet
                continue


async def test_the_front_speaks_tls(
    encrypted: tuple[RunningNode, Path], tmp_path: Path, name: str, door: Doors
) -> None:
    """A10: with the listener's certificates; who does not trust them gets nowhere."""
    node, ca = encrypted
    client = await door.open(node, Login(authority=ca))
    await client.create_topic(name)
    subscription = await client.subscribe(name)
    await client.publish(name, [Row(b"x" * 500_000), Row(b"y")])
    assert [row.value for row in await subscription.take(2)] == [b"x" * 500_000, b"y"]
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    with pytest.raises((Refused, OSError)):
        await door.open(node, Login(authority=stranger))


async def test_a_node_that_stops_ends_subscriptions_and_finishes_calls(
    own_node: RunningNode, name: str, door: Doors
) -> None:
    client = await door.open(own_node)
    await client.create_topic(name)
    subscription = await client.subscribe(name)
    publishing = [asyncio.ensure_future(client.publish(name, [Row(b"v")])) for _ in range(50)]
    await asyncio.wait(publishing, return_when=asyncio.FIRST_COMPLETED)
    stopping = asyncio.ensure_future(asyncio.to_thread(own_node.stop))
    assert (await subscription.ended()).error == "ShuttingDown"
    assert await stopping == 0
    results = await asyncio.gather(*publishing, return_exceptions=True)
    stored = sum(isinstance(result, list) for result in results)
    own_node.start()
    (end,) = await (await door.open(own_node)).end_offsets(name)
    assert stored <= end <= 50

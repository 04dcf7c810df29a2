"""The process that runs Cap'n Proto: what becomes of clients and node when it dies."""

import asyncio
import os
import select
import signal
from pathlib import Path

import pytest

from tests.fronts.capnp.client import CAPNP, Capnp, Sink, told
from tests.fronts.rpc.clients import doors
from tests.fronts.rpc.contract import Received, Refused, Row
from tests.running_node import RunningNode


def worker_of(node: RunningNode) -> int:
    """Return the process id of the node's one child that runs Cap'n Proto."""
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    (found,) = [
        int(child)
        for child in children
        if b"fronts.capnp.worker" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return found


async def test_a_process_that_dies_takes_its_clients_along_and_nothing_else(
    own_node: RunningNode, name: str
) -> None:
    async with doors("capnp") as door:
        client = await door.open(own_node)
        await client.create_topic(name)
        await client.publish(name, [Row(b"v")])
        os.kill(worker_of(own_node), signal.SIGKILL)
        with pytest.raises(Refused):
            await client.publish(name, [Row(b"w")])
        again = await door.open(own_node)
        assert await again.end_offsets(name) == [1]


async def test_the_process_ends_with_the_node(own_node: RunningNode) -> None:
    async with doors("capnp") as door:
        await door.open(own_node)
        ended = os.pidfd_open(worker_of(own_node))
        await asyncio.to_thread(own_node.kill9)
        assert (await asyncio.to_thread(select.select, [ended], [], [], 60))[0] == [ended]
        os.close(ended)


async def test_a_subscription_ends_when_the_client_drops_it(node: RunningNode, name: str) -> None:
    """Capabilities: what nobody holds any more is given back, without a word."""
    async with doors("capnp") as door:
        client = await door.open(node)
        assert isinstance(client, Capnp)
        await client.create_topic(name)
        wanted = {"topic": name, "index": {"shared": f"{name}-group"}, "credit": 1}
        answer = await client.node.subscribe(wanted, Sink(Received({})))
        await client.publish(name, [Row(b"v")])
        other = await client.subscribe(name, shared=f"{name}-group")
        del answer
        (row,) = await other.take(1)
        assert row.value == b"v"


async def test_a_client_logs_in_once(node: RunningNode) -> None:
    async with doors("capnp") as door:
        client = await door.open(node)
        assert isinstance(client, Capnp)
        door_again = client.connection.bootstrap().cast_as(CAPNP.Door)
        with pytest.raises(Refused, match="logged in already"):
            await told(door_again.login({"none": None}, ""))

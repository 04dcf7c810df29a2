"""A node's side of the registry: follows changes, and works on without it."""

import asyncio
from pathlib import Path

from chordmq.topology.registry.client import Follower, Seat
from chordmq.topology.registry.nodes import Registration
from tests.topology.conftest import StartRegistry


async def test_a_node_follows_the_tree_and_keeps_it_when_the_registry_dies(
    start_registry: StartRegistry, tmp_path: Path
) -> None:
    """D11: heard of without asking; the last topology is on disk; a new start works without."""
    registry = start_registry()
    changed = asyncio.Event()
    seat = Seat(registry=registry.url, node="root", cache=tmp_path / "topology.json")
    follower = Follower(seat, lambda: Registration(url="http://here", role="ROOT"), changed.set)
    assert not follower.topology.nodes
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(follower.run())
        await changed.wait()
        changed.clear()
        assert follower.topology.nodes["root"].role == "ROOT"
        await asyncio.to_thread(
            registry.call, "PUT", "/v1/nodes/shop", {"url": "http://shop", "role": "POS"}
        )
        await changed.wait()
        changed.clear()
        assert [one.id for one in follower.topology.children_of("root")] == ["shop"]
        await asyncio.to_thread(registry.kill9)
        again = Follower(seat, lambda: Registration(url=""), changed.set)
        assert again.topology.nodes["shop"].role == "POS"
        await asyncio.to_thread(registry.start)
        await asyncio.to_thread(registry.call, "DELETE", "/v1/nodes/shop")
        await changed.wait()
        assert "shop" not in follower.topology.nodes
        running.cancel()

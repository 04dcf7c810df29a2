"""Leaders tell every node which partitions are popular, over the ring."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chordmq.broker.announcements import BELIEVED_S, Announcements
from chordmq.clock import ManualClock
from chordmq.cluster.state import NO_LEADER, PartitionState
from tests.cluster.test_routes import is_whole, ring_of, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chordmq.cluster.routes.TICK_INTERVAL_S", 0.02)


def partition(leader: int = 1) -> Any:
    state = PartitionState(replicas=(1, 2, 3), leader=leader, isr=(1, 2, 3))
    return SimpleNamespace(topic="news", index=0, replica=SimpleNamespace(state=state))


def copies(announcements: Announcements) -> set[int]:
    """Return to whom some readers are sent."""
    return {announcements.copy_of(partition()) for _ in range(6)}


async def test_every_node_hears_of_it_and_sends_readers_to_the_copies_in_turn(
    tmp_path: Path,
) -> None:
    """A7: what is popular is told along the finger table, and its readers are spread."""
    async with ring_of(5, tmp_path) as nodes:
        await until(lambda: is_whole(nodes))
        clock = ManualClock()
        told = [Announcements(node.routes, clock) for node in nodes]
        assert told[4].copy_of(partition()) == 1, "the leader"
        told[0].tell(partition(), True)
        await until(lambda: all(copies(other) == {1, 2, 3} for other in told[1:]))
        assert told[4].copy_of(partition(leader=2)) == 2, "of another leader nothing is known"
        told[0].tell(partition(), False)
        await until(lambda: copies(told[4]) == {1})


async def test_old_announcements_and_those_not_understood_count_for_nothing(
    tmp_path: Path,
) -> None:
    async with ring_of(1, tmp_path) as (node,):
        clock = ManualClock()
        heard = Announcements(node.routes, clock)
        heard.hear(1, b"\xc1")
        heard.hear(1, b"\x93\xa4news\x00\xc3")
        assert copies(heard) == {1, 2, 3}
        heard.hear(2, b"\x93\xa4news\x00\xc2")
        assert copies(heard) == {1, 2, 3}
        clock.advance(round(BELIEVED_S * 1000))
        assert copies(heard) == {1}
        nobody: Any = SimpleNamespace(topic="news", index=0, replica=None)
        assert heard.copy_of(nobody) == NO_LEADER

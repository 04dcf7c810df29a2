"""Leaders tell every node which partitions are popular, over the ring."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chordmq.broker.announcements import BELIEVED_S, Announcements
from chordmq.clock import ManualClock
from tests.cluster.test_routes import is_whole, ring_of, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chordmq.cluster.routes.TICK_INTERVAL_S", 0.02)


def partition(leader: int = 1) -> Any:
    return SimpleNamespace(topic="news", index=0, replica=SimpleNamespace(leader_hint=(leader, 0)))


async def test_every_node_hears_of_it(tmp_path: Path) -> None:
    """A7: what is popular is told along the finger table."""
    async with ring_of(5, tmp_path) as nodes:
        await until(lambda: is_whole(nodes))
        clock = ManualClock()
        told = [Announcements(node.routes, clock) for node in nodes]
        assert not told[4].is_popular(partition())
        told[0].tell(partition(), True)
        await until(lambda: all(other.is_popular(partition()) for other in told[1:]))
        assert not told[4].is_popular(partition(leader=2)), "of another leader nothing is known"
        told[0].tell(partition(), False)
        await until(lambda: not told[4].is_popular(partition()))


async def test_old_announcements_and_those_not_understood_count_for_nothing(
    tmp_path: Path,
) -> None:
    async with ring_of(1, tmp_path) as (node,):
        clock = ManualClock()
        heard = Announcements(node.routes, clock)
        heard.hear(1, b"\xc1")
        heard.hear(1, b"\x93\xa4news\x00\xc3")
        assert heard.is_popular(partition())
        heard.hear(2, b"\x93\xa4news\x00\xc2")
        assert heard.is_popular(partition())
        clock.advance(round(BELIEVED_S * 1000))
        assert not heard.is_popular(partition())
        nobody: Any = SimpleNamespace(topic="news", index=0, replica=None)
        assert not heard.is_popular(nobody)

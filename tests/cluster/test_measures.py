"""What the links and the ring count."""

from pathlib import Path

from chordmq.cluster.measures import ring_measures
from tests.cluster.test_routes import is_whole, ring_of, until


async def test_links_and_ring_are_counted(tmp_path: Path) -> None:
    async with ring_of(2, tmp_path) as nodes:
        await until(lambda: is_whole(nodes))
        await nodes[0].routes.look_up(1)
        found = {metric.name: metric for metric in ring_measures(nodes[0].routes)}
        assert found["chordmq_link_up"].samples == [({"node": "2"}, 1.0)]
        assert found["chordmq_breaker_state"].samples == [({"peer": "node 2"}, 0)]
        assert found["chordmq_ring_members"].samples == [({}, 2)]
        ((_, lookups),) = found["chordmq_ring_lookups"].samples
        assert isinstance(lookups, int)
        assert lookups >= 1

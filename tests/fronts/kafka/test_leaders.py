"""Proves what clients are told of leaders, and which copy is nearer."""

from pathlib import Path

from chordmq.broker.settings import TopicSettings
from chordmq.cluster.members import Member
from chordmq.cluster.state import BrokerRegistration, Endpoint
from chordmq.codecs.kafka.fetch import NO_REPLICA
from chordmq.codecs.kafka.leader_hints import Hint, NodeAddress
from chordmq.fronts.kafka.leaders import addresses, leader_of, nearer_replica
from tests.broker.replicated import batch, replicated, until

SETTINGS = TopicSettings(min_insync_replicas=2)


class Racks:
    """A broker that knows three nodes, each in a rack of its own."""

    class Members:
        def get(self, node: int) -> Member | None:
            about = BrokerRegistration(
                uuid=f"uuid-{node}",
                endpoints={"kafka": Endpoint(host=f"host-{node}", port=9092)},
                rack=f"rack-{node}",
            )
            return Member(node, 1, about, True) if node in (1, 2, 3) else None

    members = Members()


async def test_followers_name_the_leader_and_its_address(tmp_path: Path) -> None:
    """C1: KIP-951."""
    async with replicated(tmp_path, SETTINGS) as copies:
        assert leader_of(copies.nodes[1].partition) is None
        hint = leader_of(copies.nodes[2].partition)
        assert hint == Hint(1, 0)
        found = addresses(Racks(), [hint, None, Hint(9, 1)])  # type: ignore[arg-type]
        assert found == [NodeAddress(1, "host-1", 9092, "rack-1")]


async def test_the_copy_in_the_clients_rack_is_nearer_if_it_has_the_offset(tmp_path: Path) -> None:
    """C17: KIP-392."""
    async with replicated(tmp_path, SETTINGS) as copies:
        partition = copies.nodes[1].partition
        partition.append(batch(b"a"))
        await until(lambda: partition.high_watermark == 1)
        racks = Racks()
        near = [
            nearer_replica(racks, rack, partition, 1)  # type: ignore[arg-type]
            for rack in ("rack-1", "rack-3", "rack-9", "")
        ]
        assert near == [NO_REPLICA, 3, NO_REPLICA, NO_REPLICA]
        assert nearer_replica(racks, "rack-3", partition, 5) == NO_REPLICA  # type: ignore[arg-type]
        follower = copies.nodes[2].partition
        assert nearer_replica(racks, "rack-3", follower, 0) == NO_REPLICA  # type: ignore[arg-type]

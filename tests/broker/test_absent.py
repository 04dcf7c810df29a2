"""Proves that a partition of other nodes refuses what it cannot do, and gets in nobody's way."""

import pytest

from chordmq.broker.absent import AbsentPartition
from chordmq.broker.flusher import Flusher
from chordmq.broker.replica import Replica
from chordmq.broker.replicas import Replicas
from chordmq.broker.settings import TopicSettings
from chordmq.broker.shared import Shared
from chordmq.clock import SystemClock
from chordmq.cluster.state import PartitionState
from chordmq.errors import NotLeader
from tests.broker.replicated import TOPIC_ID, batch


async def test_it_knows_who_leads_and_refuses_all_else() -> None:
    clock = SystemClock()
    shared = Shared(Flusher(), clock)
    replicas = Replicas(1, clock, lambda topic_id, index: partition.replica)
    shared.new_replica = lambda partition: Replica(replicas, partition)
    partition = AbsentPartition("t", 0, TopicSettings(), shared)
    state = PartitionState(replicas=(2, 3), leader=3, leader_epoch=4, isr=(2, 3))
    replicas.on_state(TOPIC_ID, 0, state, 5)
    assert partition.is_absent
    assert not partition.is_leader
    assert partition.replica is not None
    assert partition.replica.leader_hint == (3, 4)
    with pytest.raises(NotLeader, match="node 3 leads"):
        partition.append(batch(b"x"))
    with pytest.raises(NotLeader):
        partition.read(0, 1000)
    with pytest.raises(NotLeader):
        await partition.delete_records(0)
    partition.save()
    await partition.discard()
    shared.flusher.close()

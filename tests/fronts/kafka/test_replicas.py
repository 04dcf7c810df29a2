"""ElectLeaders and the reassignment APIs on a cluster of one node."""

import pytest

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from chordmq.codecs.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from chordmq.codecs.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tests.fronts.kafka.conftest import NODE_ID, Ask

UNKNOWN_TOPIC, INVALID_ASSIGNMENT = 3, 39
ELECTION_NOT_NEEDED, NO_REASSIGNMENT = 84, 85


@pytest.mark.parametrize("version", ElectLeadersRequest.versions)
async def test_a_partition_that_has_its_leader_needs_no_election(
    ask: Ask, broker: Broker, version: int
) -> None:
    """C2: ElectLeaders."""
    await broker.topics.create("t", 1)
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 1])])
    (row,) = (await ask(request, version)).replica_election_results
    assert [(p.partition_id, p.error_code) for p in row.partition_result] == [
        (0, ELECTION_NOT_NEEDED),
        (1, UNKNOWN_TOPIC),
    ]
    everything = await ask(ElectLeadersRequest(topic_partitions=None), version)
    assert everything.replica_election_results == []


@pytest.mark.parametrize("version", AlterPartitionReassignmentsRequest.versions)
async def test_replicas_can_only_be_where_they_are(ask: Ask, broker: Broker, version: int) -> None:
    """C12: what cannot be done is refused, not pretended."""
    await broker.topics.create("t", 1)
    for replicas, code in (
        ([NODE_ID], 0),
        ([NODE_ID + 1], INVALID_ASSIGNMENT),
        ([NODE_ID, NODE_ID + 1], INVALID_ASSIGNMENT),
        ([], INVALID_ASSIGNMENT),
        (None, NO_REASSIGNMENT),
    ):
        partitions = [ReassignablePartition(partition_index=0, replicas=replicas)]
        topics = [ReassignableTopic(name="t", partitions=partitions)]
        request = AlterPartitionReassignmentsRequest(topics=topics)
        (row,) = (await ask(request, version)).responses[0].partitions
        assert row.error_code == code
        assert bool(row.error_message) == bool(code)


async def test_no_move_is_under_way(ask: Ask, broker: Broker) -> None:
    await broker.topics.create("t", 1)
    answer = await ask(ListPartitionReassignmentsRequest())
    assert (answer.error_code, answer.topics) == (0, [])

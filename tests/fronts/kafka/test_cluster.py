"""DescribeCluster, FindCoordinator, DescribeLogDirs and DescribeProducers."""

import pytest

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages.describe_cluster import DescribeClusterRequest
from chordmq.codecs.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from chordmq.codecs.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from chordmq.codecs.kafka.messages.find_coordinator import FindCoordinatorRequest
from chordmq.records.record import NewRecord, build_batch
from tests.fronts.kafka.conftest import ADVERTISED, NODE_ID, Ask

UNKNOWN_TOPIC, INVALID_REQUEST = 3, 42
MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE = 114, 115
GROUP, TRANSACTION, SHARE = range(3)


@pytest.mark.parametrize("version", DescribeClusterRequest.versions)
async def test_the_cluster_is_this_node(ask: Ask, broker: Broker, version: int) -> None:
    """C2: DescribeCluster tells the advertised address and the cluster's id."""
    answer = await ask(DescribeClusterRequest(), version)
    (node,) = answer.brokers
    assert (node.broker_id, node.host, node.port) == (NODE_ID, *ADVERTISED)
    assert (answer.cluster_id, answer.controller_id) == (broker.cluster_id, NODE_ID)
    assert answer.error_code == 0


async def test_this_listener_knows_no_controllers(ask: Ask) -> None:
    """C12: an end point of another type has its own error."""
    answer = await ask(DescribeClusterRequest(endpoint_type=2))
    assert answer.error_code == MISMATCHED_ENDPOINT_TYPE
    answer = await ask(DescribeClusterRequest(endpoint_type=3))
    assert answer.error_code == UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", range(4))
async def test_the_coordinator_of_a_group_is_this_node(ask: Ask, version: int) -> None:
    """C1: FindCoordinator versions 0 to 3, one key."""
    answer = await ask(FindCoordinatorRequest(key="g", key_type=GROUP), version)
    assert (answer.error_code, answer.node_id) == (0, NODE_ID)
    assert (answer.host, answer.port) == ADVERTISED


@pytest.mark.parametrize("version", range(4, 7))
async def test_the_coordinators_of_several_groups_are_found_at_once(ask: Ask, version: int) -> None:
    """C1: FindCoordinator from version 4 on, many keys."""
    answer = await ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), version)
    assert [(c.key, c.error_code, c.node_id) for c in answer.coordinators] == [
        ("g", 0, NODE_ID),
        ("h", 0, NODE_ID),
    ]


@pytest.mark.parametrize("version", FindCoordinatorRequest.versions[1:])
async def test_a_coordinator_that_is_not_there_is_refused_with_the_reason(
    ask: Ask, version: int
) -> None:
    """C12: a feature that is not there answers with an error."""
    for key_type in (SHARE, 9):
        request = FindCoordinatorRequest(key_type=key_type)
        if version < 4:
            request.key = "x"
            row = await ask(request, version)
        else:
            request.coordinator_keys = ["x"]
            (row,) = (await ask(request, version)).coordinators
        assert (row.error_code, row.node_id) == (INVALID_REQUEST, -1)
        assert row.error_message


async def test_the_state_of_a_share_group_has_a_coordinator(ask: Ask) -> None:
    request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[f"g:{'A' * 22}:0", "g:0"])
    rows = (await ask(request, 6)).coordinators
    assert [(row.error_code, row.node_id) for row in rows] == [(0, NODE_ID), (INVALID_REQUEST, -1)]


@pytest.mark.parametrize("version", range(1, 6))
async def test_sizes_on_disk_are_real(ask: Ask, broker: Broker, version: int) -> None:
    """C2: DescribeLogDirs tells the bytes of each partition."""
    topic = await broker.topics.create("t", 2)
    batch = build_batch([NewRecord(1, None, b"x" * 1000)])
    topic.partitions[1].append(memoryview(batch))
    answer = await ask(DescribeLogDirsRequest(topics=None), version)
    (directory,) = answer.results
    sizes = {
        (row.name, p.partition_index): p.partition_size
        for row in directory.topics
        for p in row.partitions
    }
    assert (sizes["t", 0], sizes["t", 1]) == (0, len(batch))
    assert directory.log_dir == str(broker.topics.directory)
    if version >= 4:
        assert 0 < directory.usable_bytes <= directory.total_bytes


async def test_only_the_partitions_asked_for_are_measured(ask: Ask, broker: Broker) -> None:
    await broker.topics.create("t", 2)
    asked = [
        DescribableLogDirTopic(topic="t", partitions=[1, 5]),
        DescribableLogDirTopic(topic="nope", partitions=[0]),
    ]
    (directory,) = (await ask(DescribeLogDirsRequest(topics=asked))).results
    (row,) = directory.topics
    assert [p.partition_index for p in row.partitions] == [1]


async def test_producers_of_a_partition_are_shown(ask: Ask, broker: Broker) -> None:
    """C2: DescribeProducers tells id, epoch and last sequence."""
    topic = await broker.topics.create("t", 1)
    batch = build_batch(
        [NewRecord(1, None, b"a"), NewRecord(2, None, b"b")], producer_id=5, epoch=3, sequence=0
    )
    topic.partitions[0].append(memoryview(batch))
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])])
    known, unknown = (await ask(request)).topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (5, 3, 1)
    assert producer.current_txn_start_offset == -1
    assert unknown.error_code == UNKNOWN_TOPIC

"""Metadata and DescribeTopicPartitions, version by version."""

import dataclasses

import pytest

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from chordmq.codecs.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.fronts.kafka.conftest import ADVERTISED, NODE_ID, Ask

UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_REQUEST, UNKNOWN_TOPIC_ID = 3, 17, 42, 100
NOT_ASKED = -(2**31)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize("version", MetadataRequest.versions)
async def test_every_version_names_node_topic_and_partitions(
    ask: Ask, broker: Broker, version: int
) -> None:
    """C1: Metadata in all versions from 0 to 13."""
    topic = await broker.topics.create("t", 3)
    answer: MetadataResponse = await ask(MetadataRequest(topics=named("t")), version)
    (node,) = answer.brokers
    assert (node.node_id, node.host, node.port) == (NODE_ID, *ADVERTISED)
    (row,) = answer.topics
    assert (row.error_code, row.name) == (0, "t")
    assert [p.partition_index for p in row.partitions] == [0, 1, 2]
    assert {(p.leader_id, *p.replica_nodes, *p.isr_nodes) for p in row.partitions} == {
        (NODE_ID, NODE_ID, NODE_ID)
    }
    if version >= 1:
        assert answer.controller_id == NODE_ID
    if version >= 2:
        assert answer.cluster_id == broker.cluster_id
    if version >= 7:
        assert {p.leader_epoch for p in row.partitions} == {0}
    if version >= 10:
        assert row.topic_id == topic.id


@pytest.mark.parametrize("version", MetadataRequest.versions)
async def test_all_topics_are_asked_for_by_null_and_in_version_0_by_an_empty_list(
    ask: Ask, broker: Broker, version: int
) -> None:
    """C1: from version 1 on, an empty list asks for no topic."""
    await broker.topics.create("a")
    await broker.topics.create("b")
    everything = await ask(MetadataRequest(topics=None if version else []), version)
    assert {row.name for row in everything.topics} >= {"a", "b"}
    if version:
        assert (await ask(MetadataRequest(topics=[]), version)).topics == []


async def test_asking_for_a_topic_makes_it_with_the_nodes_number_of_partitions(
    ask: Ask, broker: Broker
) -> None:
    """C1: auto-creation uses `num.partitions`."""
    for version in (0, 3, 4, 9, 13):
        answer = await ask(MetadataRequest(topics=named(f"new-{version}")), version)
        (row,) = answer.topics
        assert (row.error_code, len(row.partitions)) == (0, 2)
        assert broker.topics.find(f"new-{version}")


async def test_a_client_can_ask_without_making_the_topic(ask: Ask, broker: Broker) -> None:
    """C12: an unknown topic has its own error row."""
    request = MetadataRequest(topics=named("nope"), allow_auto_topic_creation=False)
    (row,) = (await ask(request)).topics
    assert (row.error_code, row.name, row.partitions) == (UNKNOWN_TOPIC, "nope", [])
    assert broker.topics.find("nope") is None


async def test_the_node_can_refuse_to_make_topics(ask: Ask, broker: Broker) -> None:
    broker.topics.settings = dataclasses.replace(
        broker.topics.settings, auto_create_topics_enable=False
    )
    (row,) = (await ask(MetadataRequest(topics=named("nope")))).topics
    assert row.error_code == UNKNOWN_TOPIC


async def test_a_bad_name_is_refused_and_does_not_hinder_the_others(ask: Ask) -> None:
    """C12: one bad row leaves the others whole."""
    answer = await ask(MetadataRequest(topics=named("a/b", "good", "", "good")))
    assert [(row.name, row.error_code) for row in answer.topics] == [
        ("a/b", INVALID_TOPIC),
        ("good", 0),
        ("", INVALID_TOPIC),
    ]


async def test_the_brokers_own_topics_are_not_made_by_asking(ask: Ask, broker: Broker) -> None:
    (row,) = (await ask(MetadataRequest(topics=named("__transaction_state")))).topics
    assert row.error_code == UNKNOWN_TOPIC
    assert broker.topics.find("__transaction_state") is None


@pytest.mark.parametrize("version", [12, 13])
async def test_a_topic_is_found_by_its_id(ask: Ask, broker: Broker, version: int) -> None:
    topic = await broker.topics.create("t")
    asked = [MetadataRequestTopic(topic_id=i, name=None) for i in (topic.id, b"?" * 16)]
    known, unknown = (await ask(MetadataRequest(topics=asked), version)).topics
    assert (known.error_code, known.name) == (0, "t")
    assert (unknown.error_code, unknown.name) == (UNKNOWN_TOPIC_ID, None)
    assert unknown.topic_id == b"?" * 16


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_are_refused_before_version_12(ask: Ask, version: int) -> None:
    """C12: KIP-516 allows ids in the request from version 12 on."""
    asked = [MetadataRequestTopic(topic_id=b"?" * 16, name=None)]
    (row,) = (await ask(MetadataRequest(topics=asked), version)).topics
    assert row.error_code == INVALID_REQUEST


async def test_permissions_are_told_only_when_asked_for(ask: Ask, broker: Broker) -> None:
    await broker.topics.create("t")
    plain = await ask(MetadataRequest(topics=named("t")), 8)
    assert plain.topics[0].topic_authorized_operations == NOT_ASKED
    assert plain.cluster_authorized_operations == NOT_ASKED
    asked = MetadataRequest(
        topics=named("t"),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    full = await ask(asked, 8)
    assert full.topics[0].topic_authorized_operations == sum(
        1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11)
    )
    assert full.cluster_authorized_operations == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


async def test_partitions_are_described_in_pieces(ask: Ask, broker: Broker) -> None:
    """C2: DescribeTopicPartitions goes on where its cursor says."""
    await broker.topics.create("a", 3)
    await broker.topics.create("b", 2)
    await broker.topics.create("c", 1)
    seen, cursor, pieces = [], None, 0
    while pieces == 0 or cursor is not None:
        request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        answer = await ask(request)
        rows = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        assert len(rows) <= 2
        seen += [row for row in rows if not row[0].startswith("__")]
        cursor, pieces = answer.next_cursor, pieces + 1
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


async def test_described_partitions_hold_no_null_lists(ask: Ask, broker: Broker) -> None:
    """C2: Java's client dies of null eligible leaders."""
    await broker.topics.create("t")
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="t"), TopicRequest(name="nope"), TopicRequest(name="a/b")]
    )
    bad, unknown, good = (await ask(request)).topics
    assert (bad.name, bad.error_code) == ("a/b", INVALID_TOPIC)
    assert (unknown.name, unknown.error_code) == ("nope", UNKNOWN_TOPIC)
    (partition, _) = good.partitions
    assert partition.eligible_leader_replicas == []
    assert partition.last_known_elr == []
    assert partition.offline_replicas == []

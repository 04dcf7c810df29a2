"""The offset APIs as a client sees them, in every version."""

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursors import EARLIEST
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.topic import Topic
from chordmq.codecs.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chordmq.codecs.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from chordmq.codecs.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.fronts.kafka.conftest import Ask

UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_METADATA_TOO_LARGE = 12
COORDINATOR_LOAD_IN_PROGRESS = 14
ILLEGAL_GENERATION = 22
GROUP_ID_NOT_FOUND = 69
UNKNOWN_TOPIC_ID = 100

Row = tuple[int, int, str | None, int]
"""Partition, offset, metadata and error."""


@pytest.fixture
def settings() -> BrokerSettings:
    return BrokerSettings(offsets_topic_num_partitions=1)


@pytest.fixture
async def topic(broker: Broker) -> Topic:
    await broker.groups.loaded.wait()
    return await broker.topics.create("t", 2, 1)


def committing(
    *rows: tuple[int, int, str | None], topic: Topic | None = None
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset, metadata in rows
    ]
    entry = OffsetCommitRequestTopic(name="t", partitions=partitions)
    if topic is not None:
        entry.topic_id = topic.id
    return OffsetCommitRequest(group_id="g", topics=[entry])


async def fetch(
    ask: Ask, version: int, partitions: list[int] | None, topic: Topic, group_id: str = "g"
) -> list[Row]:
    """Fetch the offsets of some partitions, or of all that were committed."""
    if version < 8:
        old = None
        if partitions is not None:
            old = [OffsetFetchRequestTopic(name="t", partition_indexes=partitions)]
        answer = await ask(OffsetFetchRequest(group_id=group_id, topics=old), version)
        topics = answer.topics
    else:
        new = None
        if partitions is not None:
            new = [
                OffsetFetchRequestTopics(name="t", topic_id=topic.id, partition_indexes=partitions)
            ]
        wanted = OffsetFetchRequestGroup(group_id=group_id, topics=new)
        answer = (await ask(OffsetFetchRequest(groups=[wanted]), version)).groups[0]
        assert answer.group_id == group_id
        topics = answer.topics
    assert answer.error_code == 0
    for found in topics:
        assert (found.topic_id == topic.id) if version >= 10 else (found.name == "t")
    return [
        (row.partition_index, row.committed_offset, row.metadata, row.error_code)
        for found in topics
        for row in found.partitions
    ]


@pytest.mark.parametrize("version", OffsetCommitRequest.versions)
async def test_offsets_are_committed_in_every_version(ask: Ask, topic: Topic, version: int) -> None:
    """C1: OffsetCommit 2-10, by topic id in 10."""
    request = committing((0, 5, "note"), (1, 6, None), (2, 7, ""), topic=topic)
    (answer,) = (await ask(request, version)).topics
    assert (answer.topic_id == topic.id) if version >= 10 else (answer.name == "t")
    assert [(row.partition_index, row.error_code) for row in answer.partitions] == [
        (0, 0),
        (1, 0),
        (2, UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert await fetch(ask, version, [0, 1], topic) == [(0, 5, "note", 0), (1, 6, "", 0)]


@pytest.mark.parametrize("version", OffsetFetchRequest.versions)
async def test_offsets_are_fetched_in_every_version(ask: Ask, topic: Topic, version: int) -> None:
    """C1: OffsetFetch 1-10; what was never committed, or an unknown group, has offset -1."""
    await ask(committing((0, 5, "note")), 9)
    assert await fetch(ask, version, [0, 1], topic) == [(0, 5, "note", 0), (1, -1, "", 0)]
    assert await fetch(ask, version, [0], topic, "unknown") == [(0, -1, "", 0)]
    if version >= 2:
        assert await fetch(ask, version, None, topic) == [(0, 5, "note", 0)]
        assert await fetch(ask, version, None, topic, "unknown") == []


async def test_the_leader_epoch_of_a_commit_comes_back(ask: Ask, topic: Topic) -> None:
    request = committing((0, 5, ""))
    request.topics[0].partitions[0].committed_leader_epoch = 3
    await ask(request, 9)
    wanted = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    request_fetch = OffsetFetchRequest(groups=[wanted], require_stable=True)
    (group,) = (await ask(request_fetch, 9)).groups
    assert group.topics[0].partitions[0].committed_leader_epoch == 3


async def test_a_topic_id_that_nobody_has_is_named_in_each_row(ask: Ask, topic: Topic) -> None:
    request = committing((0, 5, ""))
    request.topics[0].topic_id = b"x" * 16
    (answer,) = (await ask(request, 10)).topics
    assert [row.error_code for row in answer.partitions] == [UNKNOWN_TOPIC_ID]
    wanted = OffsetFetchRequestTopics(topic_id=b"x" * 16, partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", topics=[wanted])
    (found,) = (await ask(OffsetFetchRequest(groups=[group]), 10)).groups
    assert found.error_code == 0
    assert [row.error_code for row in found.topics[0].partitions] == [UNKNOWN_TOPIC_ID]


async def test_several_groups_are_fetched_at_once(ask: Ask, topic: Topic) -> None:
    await ask(committing((0, 5, "")), 9)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "unknown")]
    known, unknown = (await ask(OffsetFetchRequest(groups=groups), 8)).groups
    assert [len(known.topics), len(unknown.topics)] == [1, 0]


async def test_metadata_over_the_limit_is_refused_in_its_row(ask: Ask, topic: Topic) -> None:
    request = committing((0, 5, "x" * 4_097), (1, 6, "x" * 4_096))
    (answer,) = (await ask(request, 9)).topics
    assert [row.error_code for row in answer.partitions] == [OFFSET_METADATA_TOO_LARGE, 0]


async def test_a_commit_of_no_current_generation_is_refused_in_every_row(
    ask: Ask, topic: Topic
) -> None:
    request = committing((0, 5, ""), (1, 5, ""))
    request.generation_id_or_member_epoch, request.member_id = 3, "m"
    (answer,) = (await ask(request, 9)).topics
    assert [row.error_code for row in answer.partitions] == [ILLEGAL_GENERATION] * 2


async def test_offsets_are_deleted(ask: Ask, topic: Topic) -> None:
    """C2: OffsetDelete 0."""
    await ask(committing((0, 5, ""), (1, 6, "")), 9)
    rows = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 2)]
    request = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=rows)]
    )
    answer = await ask(request)
    assert answer.error_code == 0
    assert [row.error_code for row in answer.topics[0].partitions] == [
        0,
        UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await fetch(ask, 9, None, topic) == [(1, 6, "", 0)]
    request.group_id = "unknown"
    assert (await ask(request)).error_code == GROUP_ID_NOT_FOUND


async def test_while_groups_are_loaded_clients_are_asked_to_come_back(
    ask: Ask, broker: Broker, topic: Topic
) -> None:
    broker.groups.loaded.clear()
    (row,) = (await ask(committing((0, 5, "")), 9)).topics[0].partitions
    assert row.error_code == COORDINATOR_LOAD_IN_PROGRESS
    old = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    answer = await ask(OffsetFetchRequest(group_id="g", topics=old), 1)
    assert answer.topics[0].partitions[0].error_code == COORDINATOR_LOAD_IN_PROGRESS


async def test_a_share_group_has_no_offsets_to_commit(
    ask: Ask, broker: Broker, topic: Topic
) -> None:
    """C4: as in Apache Kafka, who commits to a share group is told that it is none of its kind."""
    await broker.cursors.loaded.wait()
    await broker.cursors.open("g", "t", 0, start_ms=EARLIEST)
    answer = await ask(committing((0, 5, None), topic=topic))
    assert [row.error_code for row in answer.topics[0].partitions] == [GROUP_ID_NOT_FOUND]
    assert await fetch(ask, 8, [0], topic) == [(0, -1, "", 0)]

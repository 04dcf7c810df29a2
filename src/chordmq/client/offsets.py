"""Asks brokers for offsets: by time from the log, and committed ones from a group's coordinator."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby

from chordmq.client.cluster import Cluster
from chordmq.client.codes import RETRIABLE, Code
from chordmq.client.connection import Connection
from chordmq.client.errors import BrokerRefused, check
from chordmq.codecs.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chordmq.codecs.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from chordmq.codecs.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from chordmq.dataclass import dataclass

TopicPartition = tuple[str, int]

LATEST_TIME = -1
EARLIEST_TIME = -2

_WRONG_LEADER = RETRIABLE - {Code.UNKNOWN_TOPIC_OR_PARTITION}


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins: at an offset, or at a time (with Kafka's codes for both ends)."""

    offset: int | None = None
    timestamp_ms: int = EARLIEST_TIME


EARLIEST = Start(timestamp_ms=EARLIEST_TIME)
LATEST = Start(timestamp_ms=LATEST_TIME)


@dataclass(frozen=True, slots=True)
class Owner:
    """The group member in whose name offsets are committed; the default is an outsider."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Gather partition numbers under their topics."""
    return {
        topic: [index for _, index in rows]
        for topic, rows in groupby(sorted(set(partitions)), key=lambda pair: pair[0])
    }


async def offsets_for(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    *,
    committed: bool = False,
    patience_s: float = 30.0,
) -> dict[TopicPartition, int]:
    """Return the first offset at or after each time; the end of the log where nothing is so new."""

    async def ask() -> dict[TopicPartition, int]:
        try:
            return await _ask_leaders(cluster, times, committed)
        except BrokerRefused:
            for topic, _ in times:
                cluster.forget(topic)
            raise

    found = await cluster.retrying(ask, _WRONG_LEADER, patience_s)
    newer = {pair: LATEST_TIME for pair, offset in found.items() if offset < 0}
    return found | (await offsets_for(cluster, newer, committed=committed) if newer else {})


async def _ask_leaders(
    cluster: Cluster, times: Mapping[TopicPartition, int], committed: bool
) -> dict[TopicPartition, int]:
    leaders: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for pair, time_ms in times.items():
        leaders[await cluster.leader(*pair)][pair] = time_ms
    found: dict[TopicPartition, int] = {}
    for leader, wanted in leaders.items():
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=index, timestamp=wanted[topic, index])
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        connection = await cluster.node(leader)
        answer = await connection.call(request, ListOffsetsResponse)
        for topic in answer.topics:
            for row in topic.partitions:
                check(row.error_code, f"{topic.name} partition {row.partition_index}")
                found[topic.name, row.partition_index] = row.offset
    return found


async def ends_of(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and the next offset of each partition."""
    pairs = list(partitions)
    if not pairs:
        return {}
    first, last = await asyncio.gather(
        offsets_for(cluster, dict.fromkeys(pairs, EARLIEST_TIME)),
        offsets_for(cluster, dict.fromkeys(pairs, LATEST_TIME)),
    )
    return {pair: (first[pair], last[pair]) for pair in pairs}


async def fetch_committed(
    connection: Connection, group: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """Return a group's committed offsets, of all its partitions with None; none for uncommitted."""
    wanted = None
    if partitions is not None:
        wanted = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=wanted)])
    answer = await connection.call(request, OffsetFetchResponse)
    row = answer.groups[0]
    check(row.error_code, f"group {group}")
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in row.topics
        for part in topic.partitions
        if _is_committed(part.error_code, part.committed_offset, group)
    }


def _is_committed(code: int, offset: int, group: str) -> bool:
    check(code, f"group {group}")
    return offset >= 0


async def commit_offsets(
    connection: Connection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    owner: Owner | None = None,
) -> None:
    """Commit offsets for a group; without an owner the group must have no members."""
    owner = owner or Owner()
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=owner.generation,
        member_id=owner.member_id,
        group_instance_id=owner.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[topic, index]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )
    answer = await connection.call(request, OffsetCommitResponse)
    for topic in answer.topics:
        for row in topic.partitions:
            check(row.error_code, f"commit of {topic.name} partition {row.partition_index}")

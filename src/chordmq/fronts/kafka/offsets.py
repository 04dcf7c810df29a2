"""OffsetCommit, OffsetFetch and OffsetDelete."""

from collections.abc import Iterable, Mapping

from chordmq.broker.groups.membership import Identity
from chordmq.broker.groups.offsets import Commit, CommittedOffset, Place
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from chordmq.codecs.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from chordmq.codecs.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from chordmq.errors import ChordMQError, UnstableOffset
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of

COMMIT_BY_TOPIC_ID = 10
FETCH_OF_GROUPS = 8
FETCH_BY_TOPIC_ID = 10
NO_OFFSET = CommittedOffset(offset=-1, commit_ms=-1)


async def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Store how far a group has got; answered when that is safe."""
    rows: list[OffsetCommitResponsePartition] = []
    topics: list[OffsetCommitResponseTopic] = []
    commits: list[Commit] = []
    places: list[OffsetCommitResponsePartition] = []
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        topics.append(answer)
        for commit, row in _commits(call, topic):
            answer.partitions.append(row)
            rows.append(row)
            if commit is not None:
                commits.append(commit)
                places.append(row)
    identity = Identity(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
    )
    try:
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        call.broker.share_groups.refuse(request.group_id)
        results = await call.broker.groups.commit(
            request.group_id, identity, commits, request.retention_time_ms
        )
        for row, result in zip(places, results, strict=True):
            row.error_code = 0 if result is None else code_of(result)
    except ChordMQError as error:
        for row in rows:
            row.error_code = code_of(error)
    return OffsetCommitResponse(topics=topics)


Row = tuple[Commit | None, OffsetCommitResponsePartition]


def _commits(call: Call, topic: OffsetCommitRequestTopic) -> list[Row]:
    """Return each partition's row, and what to commit unless the partition is not there."""
    rows: list[Row] = []
    for wanted in topic.partitions:
        row = OffsetCommitResponsePartition(partition_index=wanted.partition_index)
        commit = None
        try:
            if call.version >= COMMIT_BY_TOPIC_ID:
                partition = call.broker.partition_by_id(topic.topic_id, wanted.partition_index)
                call.check(Operation.READ, Kind.TOPIC, partition.topic)
            else:
                call.check(Operation.READ, Kind.TOPIC, topic.name)
                partition = call.broker.partition(topic.name, wanted.partition_index)
            commit = Commit(
                topic=partition.topic,
                partition=wanted.partition_index,
                offset=wanted.committed_offset,
                leader_epoch=wanted.committed_leader_epoch,
                metadata=wanted.committed_metadata or "",
            )
        except ChordMQError as error:
            row.error_code = code_of(error)
        rows.append((commit, row))
    return rows


def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Say how far groups have got; without a commit, and in an unknown group, that is -1."""
    if call.version >= FETCH_OF_GROUPS:
        groups = [_fetch_group(call, group, request.require_stable) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )
    return _as_single(_fetch_group(call, group, request.require_stable))


def _fetch_group(
    call: Call, wanted: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=wanted.group_id)
    pending: set[Place] = set()
    try:
        call.check(Operation.DESCRIBE, Kind.GROUP, wanted.group_id)
        groups = call.broker.groups
        groups.check_fetch(wanted.group_id, wanted.member_id, wanted.member_epoch)
        committed = groups.committed(wanted.group_id)
        if require_stable:
            pending = groups.pending(wanted.group_id)
    except ChordMQError as error:
        answer.error_code = code_of(error)
        committed = {}
    topics = wanted.topics
    if topics is None:
        topics = _all_topics(call, committed.keys() | pending)
    answer.topics = [_fetch_topic(call, topic, committed) for topic in topics]
    for topic in answer.topics:
        for row in topic.partitions:
            if answer.error_code:
                row.error_code = answer.error_code
            elif (topic.name, row.partition_index) in pending:
                row.error_code, row.committed_offset = code_of(UnstableOffset()), -1
    return answer


def _all_topics(call: Call, places: Iterable[Place]) -> list[OffsetFetchRequestTopics]:
    topics: dict[str, OffsetFetchRequestTopics] = {}
    for name, partition in places:
        topic = call.broker.topics.find(name)
        if topic is None or not call.allows(Operation.DESCRIBE, Kind.TOPIC, name):
            continue
        entry = topics.setdefault(name, OffsetFetchRequestTopics(name=name, topic_id=topic.id))
        entry.partition_indexes.append(partition)
    return list(topics.values())


def _fetch_topic(
    call: Call, wanted: OffsetFetchRequestTopics, committed: Mapping[Place, CommittedOffset]
) -> OffsetFetchResponseTopics:
    name, error_code = wanted.name, 0
    try:
        if call.version >= FETCH_BY_TOPIC_ID:
            name = call.broker.topics.by_id(wanted.topic_id).name
        call.check(Operation.DESCRIBE, Kind.TOPIC, name)
    except ChordMQError as error:
        error_code = code_of(error)
        committed = {}
    rows = []
    for index in wanted.partition_indexes:
        found = committed.get((name, index), NO_OFFSET)
        rows.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=error_code,
            )
        )
    return OffsetFetchResponseTopics(name=name, topic_id=wanted.topic_id, partitions=rows)


def _as_single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Return the answer in the shape it had when a request named one group."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=row.partition_index,
                        committed_offset=row.committed_offset,
                        committed_leader_epoch=row.committed_leader_epoch,
                        metadata=row.metadata,
                        error_code=row.error_code,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


async def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Forget offsets in topics that the group does not read any more."""
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=partition.partition_index)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    known: list[tuple[Place, OffsetDeleteResponsePartition]] = []
    for topic in topics:
        for row in topic.partitions:
            try:
                call.check(Operation.READ, Kind.TOPIC, topic.name)
                call.broker.partition(topic.name, row.partition_index)
                known.append(((topic.name, row.partition_index), row))
            except ChordMQError as error:
                row.error_code = code_of(error)
    try:
        call.check(Operation.DELETE, Kind.GROUP, request.group_id)
        results = await call.broker.groups.delete_offsets(
            request.group_id, [place for place, _ in known]
        )
    except ChordMQError as error:
        return OffsetDeleteResponse(error_code=code_of(error))
    call.audit("offsets.delete", f"group {request.group_id}")
    for (_, row), result in zip(known, results, strict=True):
        row.error_code = 0 if result is None else code_of(result)
    return OffsetDeleteResponse(topics=topics)

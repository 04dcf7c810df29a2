"""DescribeCluster, FindCoordinator, DescribeLogDirs, DescribeProducers: the node itself."""

import re
import shutil
from collections.abc import Coroutine

from chordmq.broker.internal_log import java_hash
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.topic import Topic
from chordmq.codecs.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from chordmq.codecs.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from chordmq.codecs.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from chordmq.codecs.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from chordmq.errors import ChordMQError, InvalidRequest
from chordmq.fronts.kafka.access import cluster_operations
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of
from chordmq.fronts.kafka.nodes import leader, nodes, registered

GROUP, TRANSACTION, SHARE = range(3)
LOGS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
"""The topics that are made for whoever asks for their leaders."""
SHARE_LOG = "__share_group_state"
SHARE_SINCE = 6
SHARE_KEY = r".+:[\w-]{22}:[0-9]{1,9}"
"""Group, topic id and partition of a share group's state."""
BROKERS, CONTROLLERS = 1, 2
MISMATCHED_ENDPOINT_TYPE = 114
UNSUPPORTED_ENDPOINT_TYPE = 115
NO_NODE = -1


def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Name the nodes of the cluster."""
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=MISMATCHED_ENDPOINT_TYPE if is_known else UNSUPPORTED_ENDPOINT_TYPE,
            error_message="This listener serves brokers, not controllers.",
        )
    wanted = registered(call) if request.include_fenced_brokers else nodes(call)
    return DescribeClusterResponse(
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.members.controller(),
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=not node.is_live,
            )
            for node in wanted
        ],
        cluster_authorized_operations=cluster_operations(
            call, request.include_cluster_authorized_operations
        ),
    )


def find_coordinator(
    call: Call, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[None, None, FindCoordinatorResponse]:
    """Name the node that keeps a group's members and offsets, or a producer's transactions."""
    log = LOGS.get(request.key_type)
    if call.broker.members.is_alone or log is None or call.broker.topics.find(log) is not None:
        return _coordinators(call, request)
    return _with_log(call, request)


async def _with_log(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Answer once the topic is there whose leaders are the coordinators."""
    is_group = request.key_type == GROUP
    await (call.broker.groups if is_group else call.broker.transactions).prepare()
    return _coordinators(call, request)


def _coordinators(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version >= 4:
        return FindCoordinatorResponse(
            coordinators=[
                _coordinator(call, request.key_type, key) for key in request.coordinator_keys
            ]
        )
    found = _coordinator(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(call: Call, key_type: int, key: str) -> Coordinator:
    try:
        _check_coordinator(call, key_type, key)
        node = leader(call, *_place(call, key_type, key))
    except ChordMQError as error:
        return Coordinator(
            key=key,
            node_id=NO_NODE,
            port=NO_NODE,
            error_code=code_of(error),
            error_message=reason_of(error),
        )
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message=None)


def _place(call: Call, key_type: int, key: str) -> tuple[str, int]:
    """Return the partition whose leader is the coordinator of a key."""
    if key_type == GROUP:
        return call.broker.groups.place_of(key)
    if key_type == TRANSACTION:
        return call.broker.transactions.place_of(key)
    topic = call.broker.topics.find(SHARE_LOG)
    return SHARE_LOG, java_hash(key) % len(topic.partitions) if topic is not None else 0


def _check_coordinator(call: Call, key_type: int, key: str) -> None:
    if key_type == GROUP:
        call.check(Operation.DESCRIBE, Kind.GROUP, key)
    elif key_type == TRANSACTION:
        call.check(Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, key)
    elif key_type == SHARE:
        call.check(Operation.CLUSTER_ACTION, Kind.CLUSTER)
        if call.version < SHARE_SINCE or not re.fullmatch(SHARE_KEY, key, re.DOTALL):
            raise InvalidRequest("Share coordinator key is invalid")
    else:
        raise InvalidRequest(f"There is no coordinator of type {key_type}.")


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Say how large partitions are on disk, and how much room the disk has."""
    try:
        call.check(Operation.DESCRIBE, Kind.CLUSTER)
    except ChordMQError as error:
        return DescribeLogDirsResponse(error_code=code_of(error))
    topics = call.broker.topics
    rows = []
    if request.topics is None:
        rows = [_sizes(topic, range(len(topic.partitions))) for topic in topics]
    else:
        for asked in request.topics:
            topic = topics.find(asked.topic)
            if topic is not None:
                known = range(len(topic.partitions))
                rows.append(_sizes(topic, [i for i in asked.partitions if i in known]))
    disk = shutil.disk_usage(topics.directory)
    result = DescribeLogDirsResult(
        log_dir=str(topics.directory.absolute()),
        topics=rows,
        total_bytes=disk.total,
        usable_bytes=disk.free,
    )
    return DescribeLogDirsResponse(results=[result])


def _sizes(topic: Topic, indexes: range | list[int]) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=topic.name,
        partitions=[
            DescribeLogDirsPartition(
                partition_index=index, partition_size=topic.partitions[index].log.size
            )
            for index in indexes
        ],
    )


def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Show which producers a partition remembers, and their open transactions."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=asked.name,
                partitions=[_producers(call, asked.name, i) for i in asked.partition_indexes],
            )
            for asked in request.topics
        ]
    )


def _producers(call: Call, topic: str, index: int) -> PartitionResponse:
    try:
        call.check(Operation.READ, Kind.TOPIC, topic)
        partition = call.broker.partition(topic, index)
    except ChordMQError as error:
        return PartitionResponse(
            partition_index=index, error_code=code_of(error), error_message=reason_of(error)
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=partition.producers.transactions.first_offset(producer_id),
            )
            for producer_id, state in partition.producers.producers.items()
        ],
    )

"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: who holds what."""

from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from chordmq.codecs.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from chordmq.codecs.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from chordmq.errors import (
    ChordMQError,
    ElectionNotNeeded,
    InvalidReplicaAssignment,
    NoReassignment,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of

ELECTION_FAILS_AS_A_WHOLE = 1


def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Say of each partition named that it has its leader; asked for all, there is nothing to do."""
    denial: ChordMQError | None = None
    try:
        call.check(Operation.ALTER, Kind.CLUSTER)
    except ChordMQError as error:
        if call.version >= ELECTION_FAILS_AS_A_WHOLE:
            return ElectLeadersResponse(error_code=code_of(error))
        denial = error
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[_elected(call, asked.topic, i, denial) for i in asked.partitions],
            )
            for asked in request.topic_partitions or []
        ]
    )


def _elected(call: Call, topic: str, index: int, denial: ChordMQError | None) -> PartitionResult:
    try:
        if denial is not None:
            raise denial
        call.broker.partition(topic, index)
        raise ElectionNotNeeded("The only replica leads the partition.")
    except ChordMQError as error:
        return PartitionResult(
            partition_id=index, error_code=code_of(error), error_message=reason_of(error)
        )


def alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Take assignments that are so already; no other can be, with one node."""
    try:
        call.check(Operation.ALTER, Kind.CLUSTER)
    except ChordMQError as error:
        return AlterPartitionReassignmentsResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=asked.name,
                partitions=[_reassigned(call, asked.name, p) for p in asked.partitions],
            )
            for asked in request.topics
        ],
    )


def _reassigned(
    call: Call, topic: str, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    row = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
    try:
        call.broker.partition(topic, asked.partition_index)
        if asked.replicas is None:
            raise NoReassignment("No reassignment of this partition is under way.")
        if asked.replicas != [call.broker.node_id]:
            raise InvalidReplicaAssignment(
                f"The cluster has one node, {call.broker.node_id}, and each partition is on it."
            )
    except ChordMQError as error:
        row.error_code, row.error_message = code_of(error), reason_of(error)
    return row


def list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the moves under way; with one node there are none."""
    try:
        call.check(Operation.DESCRIBE, Kind.CLUSTER)
    except ChordMQError as error:
        return ListPartitionReassignmentsResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    return ListPartitionReassignmentsResponse(error_message=None)

"""ElectLeaders, partition reassignments, UnregisterBroker: who holds and who leads what."""

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.topic import Topic
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
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from chordmq.codecs.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from chordmq.errors import ChordMQError, ElectionNotNeeded, InvalidReplicationFactor
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import CODES, code_of, reason_of

ELECTION_FAILS_AS_A_WHOLE = 1
PREFERRED, UNCLEAN = range(2)


async def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Give partitions their preferred leader, or any at the risk of loss; asked for all, all."""
    denial: ChordMQError | None = None
    try:
        call.check(Operation.ALTER, Kind.CLUSTER)
    except ChordMQError as error:
        if call.version >= ELECTION_FAILS_AS_A_WHOLE:
            return ElectLeadersResponse(error_code=code_of(error))
        denial = error
    unclean = request.election_type == UNCLEAN
    if request.topic_partitions is None:
        wanted = {topic.name: [*range(len(topic.partitions))] for topic in call.broker.topics}
    else:
        wanted = {asked.topic: asked.partitions for asked in request.topic_partitions}
    rows = {
        topic: [await _elected(call, topic, i, unclean=unclean, denial=denial) for i in indexes]
        for topic, indexes in wanted.items()
    }
    if request.topic_partitions is None:  # only what there was to do is told
        rows = {
            topic: [row for row in results if row.error_code != CODES[ElectionNotNeeded]]
            for topic, results in rows.items()
        }
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=results)
            for topic, results in rows.items()
            if results or request.topic_partitions is not None
        ]
    )


async def _elected(
    call: Call, topic: str, index: int, *, unclean: bool, denial: ChordMQError | None
) -> PartitionResult:
    administration = call.broker.administration
    row = PartitionResult(partition_id=index, error_message=None)
    try:
        if denial is not None:
            raise denial
        call.broker.partition(topic, index)
        elect = administration.elect_any if unclean else administration.elect_preferred
        await elect(call.broker.topics.get(topic).id, index)
        call.audit("partition.elect", f"{topic}-{index}{', unclean' if unclean else ''}")
    except ChordMQError as error:
        row.error_code, row.error_message = code_of(error), reason_of(error)
    return row


async def alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin to move partitions to other nodes, or let them stay."""
    try:
        call.check(Operation.ALTER, Kind.CLUSTER)
    except ChordMQError as error:
        return AlterPartitionReassignmentsResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    may_resize = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=asked.name,
                partitions=[
                    await _reassigned(call, asked.name, p, may_resize=may_resize)
                    for p in asked.partitions
                ],
            )
            for asked in request.topics
        ],
    )


async def _reassigned(
    call: Call, topic: str, asked: ReassignablePartition, *, may_resize: bool
) -> ReassignablePartitionResponse:
    index = asked.partition_index
    row = ReassignablePartitionResponse(partition_index=index, error_message=None)
    try:
        call.broker.partition(topic, index)
        held = call.broker.topics.get(topic)
        if asked.replicas is None:
            await call.broker.administration.cancel(held.id, index)
            call.audit("partition.stay", f"{topic}-{index}")
            return row
        state = call.broker.topics.state(held, index)
        if not may_resize and len(asked.replicas) != len(state.replicas) - len(state.adding):
            raise InvalidReplicationFactor("The number of replicas must not change.")
        await call.broker.administration.reassign(held.id, index, asked.replicas)
        await call.broker.topics.take_from_ring(topic)
        call.audit("partition.move", f"{topic}-{index} to {asked.replicas}")
    except ChordMQError as error:
        row.error_code, row.error_message = code_of(error), reason_of(error)
    return row


def list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the moves under way."""
    try:
        call.check(Operation.DESCRIBE, Kind.CLUSTER)
    except ChordMQError as error:
        return ListPartitionReassignmentsResponse(
            error_code=code_of(error), error_message=reason_of(error)
        )
    topics = call.broker.topics
    if request.topics is None:
        wanted = {topic.name: [*range(len(topic.partitions))] for topic in topics}
    else:
        wanted = {asked.name: asked.partition_indexes for asked in request.topics}
    rows = []
    for name, indexes in wanted.items():
        topic = topics.find(name)
        moving = [_moving(call, topic, i) for i in indexes if topic and i < len(topic.partitions)]
        if found := [row for row in moving if row is not None]:
            rows.append(OngoingTopicReassignment(name=name, partitions=found))
    return ListPartitionReassignmentsResponse(error_message=None, topics=rows)


def _moving(call: Call, topic: Topic, index: int) -> OngoingPartitionReassignment | None:
    state = call.broker.topics.state(topic, index)
    if not state.adding and not state.removing:
        return None
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding),
        removing_replicas=list(state.removing),
    )


async def unregister_broker(
    call: Call, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Forget a node that is gone for good."""
    row = UnregisterBrokerResponse(error_message=None)
    try:
        call.check(Operation.ALTER, Kind.CLUSTER)
        await call.broker.administration.unregister(request.broker_id)
        call.audit("node.unregister", f"node {request.broker_id}")
    except ChordMQError as error:
        row.error_code, row.error_message = code_of(error), reason_of(error)
    return row

"""InitProducerId and the transaction APIs."""

from collections.abc import Iterable, Sequence

from chordmq.broker.groups.log import TOPIC as GROUPS
from chordmq.broker.groups.membership import Identity
from chordmq.broker.groups.offsets import Commit, Place
from chordmq.broker.groups.patterns import matches
from chordmq.broker.producers import Incarnation
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.transactions.machine import NO_ID, State, TransactionSnapshot
from chordmq.codecs.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from chordmq.codecs.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from chordmq.codecs.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from chordmq.codecs.kafka.messages.describe_transactions import (
    TransactionState as DescribedTransaction,
)
from chordmq.codecs.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from chordmq.codecs.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from chordmq.codecs.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from chordmq.codecs.kafka.messages.list_transactions import TransactionState as ListedTransaction
from chordmq.codecs.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from chordmq.codecs.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from chordmq.errors import (
    ChordMQError,
    InvalidTransactionState,
    ProducerFenced,
    StaleProducerEpoch,
)
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import OPERATION_NOT_ATTEMPTED, TRANSACTION_ABORTABLE, code_of
from chordmq.records.marker import Marker

INIT_FENCED_SINCE = 4
FENCED_SINCE = 2
ADD_OF_TRANSACTIONS = 4
ADD_ABORTABLE_SINCE = 5
END_WITH_NEW_EPOCH = 5
COMMIT_ABORTABLE_SINCE = 4
COMMIT_ENLISTS_SINCE = 5
STATE_NAMES = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
}


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give a producer an id that no other has had, or a transactional one a new epoch."""
    try:
        if request.transactional_id is None:
            _check_idempotent(call)
            producer = Incarnation(await call.broker.new_producer_id(), 0)
        else:
            call.check(Operation.WRITE, Kind.TRANSACTIONAL_ID, request.transactional_id)
            expected = None
            if request.producer_id != NO_ID:
                expected = Incarnation(request.producer_id, request.producer_epoch)
            producer = await call.broker.transactions.init(
                request.transactional_id, request.transaction_timeout_ms, expected
            )
    except ChordMQError as error:
        code = _code_of(error, call.version >= INIT_FENCED_SINCE)
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _check_idempotent(call: Call) -> None:
    """Let whoever may write to some topic do so idempotently (KIP-679)."""
    if not call.allows(Operation.IDEMPOTENT_WRITE, Kind.CLUSTER) and not call.allows_any(
        Operation.WRITE, Kind.TOPIC
    ):
        call.check(Operation.IDEMPOTENT_WRITE, Kind.CLUSTER)


async def add_partitions_to_txn(
    call: Call, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Let partitions join transactions; within one, all or none."""
    if call.version >= ADD_OF_TRANSACTIONS:
        try:
            # Clients use the versions below; these are for brokers.
            call.check(Operation.CLUSTER_ACTION, Kind.CLUSTER)
        except ChordMQError as error:
            return AddPartitionsToTxnResponse(error_code=code_of(error))
        results = [
            AddPartitionsToTxnResult(
                transactional_id=wanted.transactional_id,
                topic_results=await _add_partitions(call, wanted),
            )
            for wanted in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    wanted = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    rows = await _add_partitions(call, wanted)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


async def _add_partitions(
    call: Call, wanted: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    producer = Incarnation(wanted.producer_id, wanted.producer_epoch)
    places = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    codes = _denied(call, wanted.transactional_id, places) or _missing(call, wanted.topics)
    if codes:
        codes = {place: codes.get(place, OPERATION_NOT_ATTEMPTED) for place in places}
    elif wanted.verify_only:
        for place in places:
            try:
                call.broker.transactions.check_member(wanted.transactional_id, producer, place)
            except ChordMQError as error:
                codes[place] = _code_of(error, True, call.version >= ADD_ABORTABLE_SINCE)
    else:
        try:
            await call.broker.transactions.add(wanted.transactional_id, producer, places)
        except ChordMQError as error:
            codes = dict.fromkeys(places, _code_of(error, call.version >= FENCED_SINCE))
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes.get((topic.name, index), 0)
                )
                for index in topic.partitions
            ],
        )
        for topic in wanted.topics
    ]


def _denied(call: Call, transactional_id: str, places: Iterable[Place]) -> dict[Place, int]:
    """Return the errors of a client that may not use the transactional id; none if it may."""
    if call.version >= ADD_OF_TRANSACTIONS:
        return {}
    try:
        call.check(Operation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id)
    except ChordMQError as error:
        return dict.fromkeys(places, code_of(error))
    return {}


def _missing(call: Call, topics: Iterable[AddPartitionsToTxnTopic]) -> dict[Place, int]:
    """Return the error of each partition that is not there, or not for this client."""
    codes: dict[Place, int] = {}
    for topic in topics:
        for index in topic.partitions:
            try:
                if call.version < ADD_OF_TRANSACTIONS:
                    call.check(Operation.WRITE, Kind.TOPIC, topic.name)
                call.broker.partition(topic.name, index)
            except ChordMQError as error:
                codes[topic.name, index] = code_of(error)
    return codes


async def add_offsets_to_txn(
    call: Call, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Let the partition that keeps a group's offsets join a transaction."""
    producer = Incarnation(request.producer_id, request.producer_epoch)
    place = call.broker.groups.place_of(request.group_id)
    try:
        call.check(Operation.WRITE, Kind.TRANSACTIONAL_ID, request.transactional_id)
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        await call.broker.transactions.add(request.transactional_id, producer, [place])
    except ChordMQError as error:
        return AddOffsetsToTxnResponse(error_code=_code_of(error, call.version >= FENCED_SINCE))
    return AddOffsetsToTxnResponse()


async def end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort; the answer comes when nothing can change the decision any more."""
    try:
        call.check(Operation.WRITE, Kind.TRANSACTIONAL_ID, request.transactional_id)
        producer = await call.broker.transactions.end(
            request.transactional_id,
            Incarnation(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            has_epoch_per_transaction=call.version >= END_WITH_NEW_EPOCH,
        )
    except ChordMQError as error:
        return EndTxnResponse(error_code=_code_of(error, call.version >= FENCED_SINCE))
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


async def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Store how far a group has got, to count when the transaction is committed."""
    commits, rows = _offset_rows(call, request.topics)
    answer = TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    rows[topic.name, wanted.partition_index] for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    try:
        call.check(Operation.WRITE, Kind.TRANSACTIONAL_ID, request.transactional_id)
        call.check(Operation.READ, Kind.GROUP, request.group_id)
        call.broker.share_groups.refuse(request.group_id)
        results = await _commit_offsets(call, request, commits)
    except ChordMQError as error:
        code = _code_of(error, False, call.version >= COMMIT_ABORTABLE_SINCE)
        for row in rows.values():
            row.error_code = code
        return answer
    for commit, result in zip(commits, results, strict=True):
        if result is not None:
            rows[commit.topic, commit.partition].error_code = code_of(result)
    return answer


async def _commit_offsets(
    call: Call, request: TxnOffsetCommitRequest, commits: Sequence[Commit]
) -> list[ChordMQError | None]:
    broker = call.broker
    producer = Incarnation(request.producer_id, request.producer_epoch)
    place = broker.groups.place_of(request.group_id)
    await broker.transactions.enlist(
        request.transactional_id,
        producer,
        [place],
        is_check=call.version < COMMIT_ENLISTS_SINCE,
    )
    identity = Identity(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return await broker.groups.commit_in_transaction(request.group_id, identity, producer, commits)


Rows = dict[Place, TxnOffsetCommitResponsePartition]


def _offset_rows(
    call: Call, topics: Iterable[TxnOffsetCommitRequestTopic]
) -> tuple[list[Commit], Rows]:
    """Return what to commit, and each partition's row; one that is not there has its error."""
    commits: list[Commit] = []
    rows: Rows = {}
    for topic in topics:
        for wanted in topic.partitions:
            index = wanted.partition_index
            row = rows[topic.name, index] = TxnOffsetCommitResponsePartition(partition_index=index)
            try:
                call.check(Operation.READ, Kind.TOPIC, topic.name)
                call.broker.partition(topic.name, index)
            except ChordMQError as error:
                row.error_code = code_of(error)
                continue
            commits.append(
                Commit(
                    topic=topic.name,
                    partition=index,
                    offset=wanted.committed_offset,
                    leader_epoch=wanted.committed_leader_epoch,
                    metadata=wanted.committed_metadata or "",
                )
            )
    return commits, rows


async def write_txn_markers(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """End transactions in partitions by hand, as an administrator does with a hanging one."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=wanted.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            await _write_marker(call, wanted, (topic.name, index))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in wanted.topics
                ],
            )
            for wanted in request.markers
        ]
    )


async def _write_marker(
    call: Call, wanted: WritableTxnMarker, place: Place
) -> WritableTxnMarkerPartitionResult:
    marker = Marker(
        wanted.producer_id,
        wanted.producer_epoch,
        wanted.transaction_result,
        wanted.coordinator_epoch,
    )
    topic, index = place
    row = WritableTxnMarkerPartitionResult(partition_index=index)
    try:
        if not call.allows(Operation.ALTER, Kind.CLUSTER):
            call.check(Operation.CLUSTER_ACTION, Kind.CLUSTER)
        if topic == GROUPS:
            call.broker.partition(topic, index)
            await call.broker.groups.end_transaction(index, marker)
        else:
            await call.broker.append_marker(topic, index, marker)
    except ChordMQError as error:
        row.error_code = code_of(error)
    return row


def describe_transactions(
    call: Call, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Show where transactional ids stand."""
    return DescribeTransactionsResponse(
        transaction_states=[_described(call, name) for name in request.transactional_ids]
    )


def _described(call: Call, transactional_id: str) -> DescribedTransaction:
    try:
        call.check(Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, transactional_id)
        found = call.broker.transactions.find(transactional_id)
    except ChordMQError as error:
        return DescribedTransaction(
            transactional_id=transactional_id, error_code=code_of(error), producer_id=-1
        )
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        if call.allows(Operation.DESCRIBE, Kind.TOPIC, topic):
            topics.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=STATE_NAMES[found.state],
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
    )


def list_transactions(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List transactional ids by state, producer, age and name."""
    known = set(STATE_NAMES.values())
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in known]
    )
    try:
        found = [s for s in call.broker.transactions.snapshots() if _passes(call, request, s)]
    except ChordMQError as error:
        response.error_code = code_of(error)
        return response
    response.transaction_states = [
        ListedTransaction(
            transactional_id=snapshot.transactional_id,
            producer_id=snapshot.producer_id,
            transaction_state=STATE_NAMES[snapshot.state],
        )
        for snapshot in found
    ]
    return response


def _passes(call: Call, request: ListTransactionsRequest, snapshot: TransactionSnapshot) -> bool:
    age_ms = call.broker.clock.now_ms() - snapshot.started_ms
    return (
        (not request.state_filters or STATE_NAMES[snapshot.state] in request.state_filters)
        and (not request.producer_id_filters or snapshot.producer_id in request.producer_id_filters)
        and (
            request.duration_filter < 0
            or (snapshot.started_ms >= 0 and age_ms > request.duration_filter)
        )
        and (
            not request.transactional_id_pattern
            or matches(request.transactional_id_pattern, snapshot.transactional_id)
        )
        and call.allows(Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, snapshot.transactional_id)
    )


def _code_of(error: ChordMQError, knows_fenced: bool, knows_abortable: bool = False) -> int:
    """Return the code that a client of this version understands."""
    if isinstance(error, ProducerFenced) and not knows_fenced:
        return code_of(StaleProducerEpoch())
    if isinstance(error, InvalidTransactionState) and knows_abortable:
        return TRANSACTION_ABORTABLE
    return code_of(error)

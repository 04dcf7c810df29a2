"""The transaction APIs in every version, and the codes that clients of each understand."""

import asyncio

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.producers import Incarnation
from chordmq.broker.transactions.machine import State
from chordmq.codecs.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from chordmq.codecs.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from chordmq.codecs.kafka.messages.api_versions import ApiVersionsRequest
from chordmq.codecs.kafka.messages.describe_producers import DescribeProducersRequest, TopicRequest
from chordmq.codecs.kafka.messages.describe_transactions import DescribeTransactionsRequest
from chordmq.codecs.kafka.messages.end_txn import EndTxnRequest
from chordmq.codecs.kafka.messages.find_coordinator import FindCoordinatorRequest
from chordmq.codecs.kafka.messages.init_producer_id import InitProducerIdRequest
from chordmq.codecs.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from chordmq.codecs.kafka.messages.list_transactions import ListTransactionsRequest
from chordmq.codecs.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from chordmq.codecs.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from chordmq.codecs.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from chordmq.records.record import NewRecord
from tests.fronts.kafka.conftest import NODE_ID, Ask

UNKNOWN_TOPIC, INVALID_EPOCH, INVALID_STATE, UNKNOWN_MAPPING = 3, 47, 48, 49
INVALID_TIMEOUT, NOT_ATTEMPTED, UNSTABLE, FENCED = 50, 55, 88, 90
NOT_FOUND, ABORTABLE, INVALID_PATTERN = 105, 120, 128
LATEST = -1


@pytest.fixture
async def topic(broker: Broker) -> str:
    await broker.transactions.loaded.wait()
    await broker.groups.loaded.wait()
    await broker.topics.create("t", 2, 1)
    return "t"


async def started(ask: Ask, version: int = 5) -> Incarnation:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    answer = await ask(request, version)
    assert answer.error_code == 0
    return Incarnation(answer.producer_id, answer.producer_epoch)


async def add(
    ask: Ask, producer: Incarnation, version: int, partitions: tuple[int, ...] = (0,)
) -> list[int]:
    """Add partitions of the topic in the shape of a version; return their codes."""
    topics = [AddPartitionsToTxnTopic(name="t", partitions=list(partitions))]
    if version >= 4:
        wanted = AddPartitionsToTxnTransaction(
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=topics,
        )
        answer = await ask(AddPartitionsToTxnRequest(transactions=[wanted]), version)
        (result,) = answer.results_by_transaction[0].topic_results
    else:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        (result,) = (await ask(request, version)).results_by_topic_v3_and_below
    return [row.partition_error_code for row in result.results_by_partition]


async def end(ask: Ask, producer: Incarnation, version: int, *, committed: bool = True) -> int:
    request = EndTxnRequest(
        transactional_id="x",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=committed,
    )
    return int((await ask(request, version)).error_code)


async def commit_offset(ask: Ask, producer: Incarnation, version: int, partition: int = 0) -> int:
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=7)
                ],
            )
        ],
    )
    answer = await ask(request, version)
    return int(answer.topics[0].partitions[0].error_code)


async def write(broker: Broker, producer: Incarnation) -> None:
    record = NewRecord(broker.clock.now_ms(), b"k", b"v")
    await broker.append_records("t", 0, [record], producer=producer)


async def completed(broker: Broker) -> None:
    prepared = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
    async with asyncio.timeout(60):
        while broker.transactions.find("x").state in prepared:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0)


async def test_the_node_coordinates_transactions(ask: Ask) -> None:
    """C2: FindCoordinator of type 1."""
    (row,) = (await ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))).coordinators
    assert (row.error_code, row.node_id) == (0, NODE_ID)


async def test_the_second_protocol_is_announced(ask: Ask) -> None:
    """C3: `transaction.version` 2, which makes clients leave AddPartitionsToTxn out."""
    answer = await ask(ApiVersionsRequest(), 4)
    levels = {f.name: f.max_version_level for f in answer.finalized_features}
    assert levels["transaction.version"] == 2
    assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", InitProducerIdRequest.versions)
async def test_a_transactional_producer_keeps_its_id_and_gets_a_new_epoch(
    ask: Ask, topic: str, version: int
) -> None:
    """C2, C3: InitProducerId in every version."""
    first, second = await started(ask, version), await started(ask, version)
    assert first.producer_id == second.producer_id
    assert second.epoch == first.epoch + 1


@pytest.mark.parametrize(("version", "code"), [(3, INVALID_EPOCH), (4, FENCED), (5, FENCED)])
async def test_a_replaced_producer_may_not_begin_anew(
    ask: Ask, topic: str, version: int, code: int
) -> None:
    """KIP-360 and KIP-588: the code depends on what the version knows."""
    zombie = await started(ask)
    await started(ask)
    request = InitProducerIdRequest(
        transactional_id="x",
        transaction_timeout_ms=60_000,
        producer_id=zombie.producer_id,
        producer_epoch=zombie.epoch,
    )
    answer = await ask(request, version)
    assert (answer.error_code, answer.producer_id) == (code, -1)


async def test_a_time_out_over_the_limit_is_refused(ask: Ask, topic: str) -> None:
    """C12: transaction.max.timeout.ms."""
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=2**31 - 1)
    assert (await ask(request)).error_code == INVALID_TIMEOUT


@pytest.mark.parametrize("version", AddPartitionsToTxnRequest.versions)
async def test_partitions_join_all_or_none(ask: Ask, topic: str, version: int) -> None:
    """C2: AddPartitionsToTxn in every version."""
    producer = await started(ask)
    assert await add(ask, producer, version, (0, 9)) == [NOT_ATTEMPTED, UNKNOWN_TOPIC]
    assert await add(ask, producer, version, (0, 1)) == [0, 0]
    stranger = Incarnation(producer.producer_id + 1, 0)
    assert await add(ask, stranger, version) == [UNKNOWN_MAPPING]
    await started(ask)
    assert await add(ask, producer, version) == [INVALID_EPOCH if version < 2 else FENCED]


@pytest.mark.parametrize(("version", "code"), [(4, INVALID_STATE), (5, ABORTABLE)])
async def test_membership_can_be_asked_for_without_joining(
    ask: Ask, topic: str, version: int, code: int
) -> None:
    """KIP-890: as the leader of a partition on another node asks."""
    producer = await started(ask)
    await add(ask, producer, version)
    wanted = AddPartitionsToTxnTransaction(
        transactional_id="x",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
    )
    answer = await ask(AddPartitionsToTxnRequest(transactions=[wanted]), version)
    rows = answer.results_by_transaction[0].topic_results[0].results_by_partition
    assert [row.partition_error_code for row in rows] == [0, code]


@pytest.mark.parametrize("version", EndTxnRequest.versions)
async def test_the_end_is_decided_once_and_may_be_asked_for_again(
    ask: Ask, broker: Broker, topic: str, version: int
) -> None:
    """C2, C3: EndTxn in every version; the opposite answer is never given."""
    producer = await started(ask)
    await add(ask, producer, 3)
    assert await end(ask, producer, version) == 0
    assert await end(ask, producer, version) == 0
    assert await end(ask, producer, version, committed=False) == INVALID_STATE
    epoch = broker.transactions.find("x").epoch
    assert epoch == producer.epoch + (1 if version >= 5 else 0)


@pytest.mark.parametrize("version", EndTxnRequest.versions[:5])
async def test_a_zombie_cannot_end_a_transaction(ask: Ask, topic: str, version: int) -> None:
    """C3: fencing by epoch."""
    zombie = await started(ask)
    await add(ask, zombie, 3)
    await started(ask)
    assert await end(ask, zombie, version) == (INVALID_EPOCH if version < 2 else FENCED)


@pytest.mark.parametrize("version", TxnOffsetCommitRequest.versions)
async def test_offsets_are_unstable_until_their_transaction_ends(
    ask: Ask, broker: Broker, topic: str, version: int
) -> None:
    """C2, C3: AddOffsetsToTxn and TxnOffsetCommit; from version 5 on the commit adds by itself."""
    producer = await started(ask)
    if version < 5:
        expected = INVALID_STATE if version < 4 else ABORTABLE
        assert await commit_offset(ask, producer, version) == expected
        request = AddOffsetsToTxnRequest(
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="g",
        )
        assert (await ask(request, min(version, 4))).error_code == 0
    assert await commit_offset(ask, producer, version, partition=9) == UNKNOWN_TOPIC
    assert await commit_offset(ask, producer, version) == 0
    assert await fetched(ask, stable=True) == (UNSTABLE, -1)
    assert await fetched(ask, stable=False) == (0, -1)
    await end(ask, producer, 4)
    await completed(broker)
    assert await fetched(ask, stable=True) == (0, 7)


async def fetched(ask: Ask, *, stable: bool) -> tuple[int, int]:
    """Return the code and the committed offset of the group in partition 0."""
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", topics=[wanted])
    answer = await ask(OffsetFetchRequest(groups=[group], require_stable=stable), 9)
    row = answer.groups[0].topics[0].partitions[0]
    return row.error_code, row.committed_offset


@pytest.mark.parametrize("version", ListOffsetsRequest.versions[1:])
async def test_the_latest_offset_depends_on_the_isolation(
    ask: Ask, broker: Broker, topic: str, version: int
) -> None:
    """C3: readers of committed records start before the open transaction."""
    producer = await started(ask)
    await add(ask, producer, 3)
    await write(broker, producer)
    for isolation, offset in ((0, 1), (1, 0)):
        wanted = ListOffsetsTopic(
            name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)]
        )
        answer = await ask(
            ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted]), version
        )
        assert answer.topics[0].partitions[0].offset == offset


@pytest.mark.parametrize("version", WriteTxnMarkersRequest.versions)
async def test_an_administrator_ends_a_hanging_transaction(
    ask: Ask, broker: Broker, topic: str, version: int
) -> None:
    """C2: WriteTxnMarkers, and DescribeProducers that shows what hangs."""
    producer = await started(ask)
    await add(ask, producer, 3)
    await write(broker, producer)
    describe = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (active,) = (await ask(describe)).topics[0].partitions[0].active_producers
    assert (active.producer_id, active.current_txn_start_offset) == (producer.producer_id, 0)
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9])],
        coordinator_epoch=3,
    )
    answer = await ask(WriteTxnMarkersRequest(markers=[marker]), version)
    rows = answer.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [0, UNKNOWN_TOPIC]
    assert broker.partition("t", 0).stable_offset == 2
    (active,) = (await ask(describe)).topics[0].partitions[0].active_producers
    assert (active.current_txn_start_offset, active.coordinator_epoch) == (-1, 3)


async def test_transactions_are_described(ask: Ask, topic: str) -> None:
    """C2: DescribeTransactions."""
    producer = await started(ask)
    await add(ask, producer, 3, (0, 1))
    found, missing = (
        await ask(DescribeTransactionsRequest(transactional_ids=["x", "y"]))
    ).transaction_states
    assert (found.transaction_state, found.producer_id) == ("Ongoing", producer.producer_id)
    assert [(entry.topic, entry.partitions) for entry in found.topics] == [("t", [0, 1])]
    assert found.transaction_timeout_ms == 60_000
    assert missing.error_code == NOT_FOUND


async def test_transactions_are_listed_by_state_producer_age_and_name(ask: Ask, topic: str) -> None:
    """C2: ListTransactions with each of its filters."""
    producer = await started(ask)

    async def listed(**filters: object) -> list[str]:
        answer = await ask(ListTransactionsRequest(**filters))  # type: ignore[arg-type]
        assert answer.error_code == 0
        return [entry.transactional_id for entry in answer.transaction_states]

    assert await listed() == ["x"]
    assert await listed(state_filters=["Empty"]) == ["x"]
    assert await listed(state_filters=["Ongoing"]) == []
    assert await listed(producer_id_filters=[producer.producer_id]) == ["x"]
    assert await listed(producer_id_filters=[producer.producer_id + 1]) == []
    assert await listed(duration_filter=0) == []
    assert await listed(transactional_id_pattern="[xy]") == ["x"]
    assert await listed(transactional_id_pattern="y") == []
    answer = await ask(ListTransactionsRequest(state_filters=["Nowhere"]))
    assert answer.unknown_state_filters == ["Nowhere"]
    answer = await ask(ListTransactionsRequest(transactional_id_pattern="["))
    assert answer.error_code == INVALID_PATTERN

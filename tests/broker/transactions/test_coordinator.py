"""The transaction coordinator on a real broker: its log, its markers, its clock and its restart."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.groups.membership import Identity
from chordmq.broker.groups.offsets import Commit, Place
from chordmq.broker.partition import Partition
from chordmq.broker.producers import Incarnation
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.transactions.coordinator import TransactionCoordinator
from chordmq.broker.transactions.machine import State
from chordmq.clock import ManualClock
from chordmq.errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    DiskFull,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    ProducerIdMismatch,
    StaleProducerEpoch,
    TransactionalIdNotFound,
)
from chordmq.records.batch import TRANSACTIONAL, walk
from chordmq.records.marker import Marker, read_marker
from chordmq.records.record import NewRecord, build_batch
from tests.broker.running_broker import running

SETTINGS = BrokerSettings(
    offsets_topic_num_partitions=2,
    transaction_state_log_num_partitions=2,
    transactional_id_expiration_ms=100_000,
)
TIMEOUT_MS = 10_000
PLACE = ("t", 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    async with running(tmp_path, clock, SETTINGS) as broker:
        await broker.topics.create("t", 2, 1)
        yield broker


@pytest.fixture
def transactions(broker: Broker) -> TransactionCoordinator:
    return broker.transactions


async def write(broker: Broker, producer: Incarnation, value: bytes, place: Place = PLACE) -> None:
    """Write one record of a transaction, as Produce does once its partition is enlisted."""
    record = NewRecord(broker.clock.now_ms(), b"k", value)
    await broker.append_records(*place, [record], producer=producer)


async def complete(transactions: TransactionCoordinator, state: State, name: str = "x") -> None:
    """Wait until the markers are written."""
    async with asyncio.timeout(60):
        while transactions.find(name).state is not state:  # noqa: ASYNC110  nobody tells the end
            await asyncio.sleep(0)


def markers(partition: Partition) -> list[Marker]:
    found = []
    for data in partition.log.read(0, 2**20):
        for position, header in walk(data):
            if header.is_control:
                found.append(read_marker(data[position : position + header.size]))
    return found


async def test_a_committed_transaction_is_marked_in_every_partition(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    """C3: the records become stable when the marker is there, in each partition."""
    producer = await transactions.init("x", TIMEOUT_MS)
    await transactions.add("x", producer, [PLACE, ("t", 1)])
    for index in (0, 1):
        await write(broker, producer, b"v", ("t", index))
        assert broker.partition("t", index).stable_offset == 0
    assert await transactions.end("x", producer, is_commit=True) == producer
    await complete(transactions, State.COMPLETE_COMMIT)
    for index in (0, 1):
        partition = broker.partition("t", index)
        assert partition.stable_offset == partition.high_watermark == 2
        assert markers(partition) == [Marker(*producer, is_commit=True)]
        assert partition.aborted_in(0, partition.read(0, 2**20)) == []


async def test_an_aborted_transaction_is_named_to_readers_of_committed_ones(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    """C3: read_committed never shows an aborted record."""
    producer = await transactions.init("x", TIMEOUT_MS)
    await transactions.add("x", producer, [PLACE])
    await write(broker, producer, b"v")
    partition = broker.partition(*PLACE)
    assert partition.read(0, 2**20, only_stable=True) == []
    assert len(partition.read(0, 2**20)) == 1
    await transactions.end("x", producer, is_commit=False)
    await complete(transactions, State.COMPLETE_ABORT)
    found = partition.read(0, 2**20, only_stable=True)
    assert partition.aborted_in(0, found) == [(producer.producer_id, 0)]
    assert partition.aborted_in(2, []) == []


async def test_a_partition_that_was_not_added_takes_no_transactional_batch(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    """KIP-890: no transaction hangs because a late batch opened it where nobody will end it."""
    producer = await transactions.init("x", TIMEOUT_MS)
    with pytest.raises(InvalidTransactionState):
        transactions.check_member("x", producer, PLACE)
    data = build_batch(
        [NewRecord(broker.clock.now_ms(), b"k", b"v")],
        flags=TRANSACTIONAL,
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        sequence=0,
    )
    with pytest.raises(InvalidTransactionState):
        broker.partition(*PLACE).append(memoryview(data))


async def test_a_new_producer_aborts_what_the_one_before_left_open(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    """C3: fencing by epoch, in the coordinator and in the partition."""
    zombie = await transactions.init("x", TIMEOUT_MS)
    await transactions.add("x", zombie, [PLACE])
    await write(broker, zombie, b"v")
    heir = await transactions.init("x", TIMEOUT_MS)
    assert heir.producer_id == zombie.producer_id
    assert heir.epoch == zombie.epoch + 2
    with pytest.raises(ProducerFenced):
        await transactions.end("x", zombie, is_commit=True)
    with pytest.raises(StaleProducerEpoch):
        await write(broker, zombie, b"late")
    assert [marker.is_commit for marker in markers(broker.partition(*PLACE))] == [False]


async def test_a_transaction_that_takes_too_long_is_aborted(
    broker: Broker, transactions: TransactionCoordinator, clock: ManualClock
) -> None:
    """C3: time-outs are aborted by the coordinator, with a new epoch."""
    producer = await transactions.init("x", TIMEOUT_MS)
    await transactions.add("x", producer, [PLACE])
    await write(broker, producer, b"v")
    clock.advance(TIMEOUT_MS - 1)
    await transactions.tick()
    assert transactions.find("x").state is State.ONGOING
    clock.advance(1)
    await transactions.tick()
    await complete(transactions, State.COMPLETE_ABORT)
    assert broker.partition(*PLACE).stable_offset == 2
    with pytest.raises(ProducerFenced):
        await transactions.end("x", producer, is_commit=True)


async def test_offsets_of_a_transaction_count_when_it_is_committed(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    """C3: consume, transform, produce moves the group with the results, or not at all."""
    groups = broker.groups
    for number, is_commit in enumerate((False, True)):
        producer = await transactions.init("x", TIMEOUT_MS)
        await transactions.add("x", producer, [groups.place_of("g")])
        commit = Commit("t", 0, 10 + number)
        assert await groups.commit_in_transaction("g", Identity(), producer, [commit]) == [None]
        assert groups.committed("g") == {}
        assert groups.pending("g") == {PLACE}
        await transactions.end("x", producer, is_commit=is_commit)
        await complete(transactions, State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
        assert groups.pending("g") == set()
    assert groups.committed("g")[PLACE].offset == 11


async def test_a_plain_commit_after_a_transactional_one_wins(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    groups = broker.groups
    producer = await transactions.init("x", TIMEOUT_MS)
    await transactions.add("x", producer, [groups.place_of("g")])
    await groups.commit_in_transaction("g", Identity(), producer, [Commit("t", 0, 10)])
    await groups.commit("g", Identity(), [Commit("t", 0, 20)])
    await transactions.end("x", producer, is_commit=True)
    await complete(transactions, State.COMPLETE_COMMIT)
    assert groups.committed("g")[PLACE].offset == 20


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_decision_is_carried_out_after_a_restart(
    tmp_path: Path, clock: ManualClock, is_commit: bool
) -> None:
    """C3: once it is in the log nothing undoes a decision; here no marker could be written."""
    async with running(tmp_path, clock, SETTINGS) as broker:
        await broker.topics.create("t", 1, 1)
        producer = await broker.transactions.init("x", TIMEOUT_MS)
        places = [PLACE, broker.groups.place_of("g")]
        await broker.transactions.add("x", producer, places)
        await write(broker, producer, b"v")
        await broker.groups.commit_in_transaction("g", Identity(), producer, [Commit("t", 0, 7)])

        async def refuse(*_: object) -> None:
            raise DiskFull("for the test")

        broker.append_marker = refuse  # type: ignore[method-assign, assignment]
        await broker.transactions.end("x", producer, is_commit=is_commit)
        with pytest.raises(ConcurrentTransactions):
            await broker.transactions.add("x", producer, [PLACE])
        assert broker.partition(*PLACE).stable_offset == 0
    async with running(tmp_path, clock, SETTINGS) as broker:
        state = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
        await complete(broker.transactions, state)
        partition = broker.partition(*PLACE)
        assert [marker.is_commit for marker in markers(partition)] == [is_commit]
        assert partition.stable_offset == 2
        assert bool(partition.aborted_in(0, partition.read(0, 2**20))) is not is_commit
        assert dict.fromkeys(broker.groups.committed("g")) == ({PLACE: None} if is_commit else {})


async def test_an_open_transaction_survives_a_restart_and_goes_on(
    tmp_path: Path, clock: ManualClock
) -> None:
    """C3: pending offsets, the stable offset and the deadline are all in the logs."""
    async with running(tmp_path, clock, SETTINGS) as broker:
        await broker.topics.create("t", 1, 1)
        producer = await broker.transactions.init("x", TIMEOUT_MS)
        await broker.transactions.add("x", producer, [PLACE, broker.groups.place_of("g")])
        await write(broker, producer, b"v")
        await broker.groups.commit_in_transaction("g", Identity(), producer, [Commit("t", 0, 7)])
    async with running(tmp_path, clock, SETTINGS) as broker:
        assert broker.partition(*PLACE).stable_offset == 0
        assert broker.groups.pending("g") == {PLACE}
        await broker.transactions.end("x", producer, is_commit=True)
        await complete(broker.transactions, State.COMPLETE_COMMIT)
        assert broker.partition(*PLACE).stable_offset == 2
        assert broker.groups.committed("g")[PLACE].offset == 7


async def test_an_open_transaction_times_out_also_after_a_restart(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with running(tmp_path, clock, SETTINGS) as broker:
        await broker.topics.create("t", 1, 1)
        producer = await broker.transactions.init("x", TIMEOUT_MS)
        await broker.transactions.add("x", producer, [PLACE])
    clock.advance(TIMEOUT_MS)
    async with running(tmp_path, clock, SETTINGS) as broker:
        await broker.transactions.tick()
        await complete(broker.transactions, State.COMPLETE_ABORT)


async def test_a_deleted_topic_does_not_hold_up_the_end(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    producer = await transactions.init("x", TIMEOUT_MS)
    await transactions.add("x", producer, [PLACE])
    await broker.topics.delete("t")
    await transactions.end("x", producer, is_commit=True)
    await complete(transactions, State.COMPLETE_COMMIT)


async def test_the_second_protocol_answers_with_a_new_epoch_each_time(
    broker: Broker, transactions: TransactionCoordinator
) -> None:
    """C3, KIP-890: a late batch of the last transaction cannot join the next."""
    producer = await transactions.init("x", TIMEOUT_MS)
    for _ in range(3):
        await transactions.add("x", producer, [PLACE])
        await write(broker, producer, b"v")
        following = await transactions.end(
            "x", producer, is_commit=True, has_epoch_per_transaction=True
        )
        assert following == Incarnation(producer.producer_id, producer.epoch + 1)
        again = await transactions.end(
            "x", producer, is_commit=True, has_epoch_per_transaction=True
        )
        assert again == following
        with pytest.raises(StaleProducerEpoch):
            await write(broker, producer, b"late")
        producer = following


async def test_requests_of_one_id_take_turns_even_if_their_clients_leave(
    transactions: TransactionCoordinator,
) -> None:
    producer = await transactions.init("x", TIMEOUT_MS)
    leaving = asyncio.ensure_future(transactions.add("x", producer, [PLACE]))
    await asyncio.sleep(0)
    leaving.cancel()
    await transactions.add("x", producer, [("t", 1)])
    assert transactions.find("x").partitions == {PLACE, ("t", 1)}


async def test_idle_ids_are_forgotten_and_busy_ones_are_not(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with running(tmp_path, clock, SETTINGS) as broker:
        await broker.topics.create("t", 1, 1)
        await broker.transactions.init("idle", TIMEOUT_MS)
        busy = await broker.transactions.init("busy", TIMEOUT_MS)
        await broker.transactions.add("busy", busy, [PLACE])
        clock.advance(SETTINGS.transactional_id_expiration_ms + 1)
        await broker.transactions.expire_ids()
    async with running(tmp_path, clock, SETTINGS) as broker:
        assert [s.transactional_id for s in broker.transactions.snapshots()] == ["busy"]
        with pytest.raises(TransactionalIdNotFound):
            broker.transactions.find("idle")


async def test_what_makes_no_sense_is_refused(transactions: TransactionCoordinator) -> None:
    with pytest.raises(InvalidRequest):
        await transactions.init("", TIMEOUT_MS)
    for timeout_ms in (0, SETTINGS.transaction_max_timeout_ms + 1):
        with pytest.raises(InvalidTransactionTimeout):
            await transactions.init("x", timeout_ms)
    with pytest.raises(ProducerIdMismatch):
        await transactions.add("unknown", Incarnation(1, 0), [PLACE])
    with pytest.raises(ProducerIdMismatch):
        await transactions.end("unknown", Incarnation(1, 0), is_commit=True)


async def test_before_its_log_is_read_the_coordinator_asks_for_patience(
    tmp_path: Path, clock: ManualClock
) -> None:
    broker = Broker(tmp_path, SETTINGS, clock, Flusher())
    with pytest.raises(CoordinatorLoading):
        await broker.transactions.init("x", TIMEOUT_MS)
    broker.close()

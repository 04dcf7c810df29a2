"""Idempotent producers: each batch is stored once, whatever is sent again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.producers import ProducerState
from chordmq.errors import (
    CoordinatorFenced,
    CorruptBatch,
    DuplicateSequence,
    InvalidTransactionState,
    OutOfOrderSequence,
    StaleProducerEpoch,
)
from chordmq.records.batch import CONTROL, TRANSACTIONAL, BatchHeader
from chordmq.records.marker import Marker


def batch(sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        size=100,
        leader_epoch=0,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=1000,
        max_timestamp=1000,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def stored(*batches: BatchHeader) -> ProducerState:
    state = ProducerState()
    for header in batches:
        state.replay(header)
    return state


def test_a_batch_sent_again_is_answered_with_its_first_offset() -> None:
    """C3: a retry makes no second copy."""
    state = stored(batch(0, 10, offset=100), batch(10, 5, offset=110))
    assert state.check(batch(0, 10)) == 100
    assert state.check(batch(10, 5)) == 110
    assert state.check(batch(15, 1)) is None


def test_a_gap_in_the_sequence_is_refused() -> None:
    """C3: a lost batch cannot be jumped over."""
    with pytest.raises(OutOfOrderSequence):
        stored(batch(0, 10)).check(batch(11))


def test_a_repetition_older_than_the_five_remembered_is_named_as_such() -> None:
    state = stored(*(batch(n, offset=n) for n in range(10)))
    with pytest.raises(DuplicateSequence):
        state.check(batch(2))


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    state = stored(batch(0, 3, epoch=2))
    with pytest.raises(StaleProducerEpoch):
        state.check(batch(3, epoch=1))
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(3, epoch=3))
    assert state.check(batch(0, epoch=3)) is None


def test_the_sequence_wraps_after_its_largest_number() -> None:
    state = stored(batch(2**31 - 2, 2))
    assert state.check(batch(0)) is None
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(1))


def test_a_producer_that_was_forgotten_may_go_on() -> None:
    state = stored(batch(0, 3))
    state.expire(now_ms=1000, idle_ms=500)
    state.expire(now_ms=1500, idle_ms=500)
    assert not state.producers
    assert state.check(batch(3)) is None


def test_a_producer_is_idle_by_the_brokers_clock_whatever_time_its_records_carry() -> None:
    """C3: else the retry of a batch of old records would be stored twice."""
    state = stored(batch(0, 3))
    state.expire(now_ms=10**15, idle_ms=500)
    assert state.check(batch(0, 3)) == 0
    state.replay(batch(3, offset=3))
    state.expire(now_ms=10**15 + 500, idle_ms=500)
    state.expire(now_ms=10**15 + 999, idle_ms=500)
    assert state.check(batch(3)) == 3


@given(st.lists(st.integers(1, 50), max_size=12))
def test_a_snapshot_holds_everything(counts: list[int]) -> None:
    """C3: the state survives a restart."""
    state = ProducerState()
    sequence = 0
    for count in counts:
        state.replay(batch(sequence, count, offset=sequence))
        sequence += count
    copy = ProducerState()
    copy.restore(state.snapshot())
    assert copy.producers == state.producers


@given(st.binary(max_size=200))
def test_garbage_instead_of_a_snapshot_is_refused(data: bytes) -> None:
    state = ProducerState()
    try:
        state.restore(data)
    except CorruptBatch:
        assert state.producers == {}


def in_transaction(sequence: int, *, epoch: int = 0, offset: int = 0) -> BatchHeader:
    header = batch(sequence, epoch=epoch, offset=offset)
    header.attributes = TRANSACTIONAL
    return header


def ended(state: ProducerState, offset: int, *, epoch: int = 0, is_commit: bool = True) -> None:
    header = batch(-1, epoch=epoch, offset=offset)
    header.attributes = TRANSACTIONAL | CONTROL
    state.replay(header, Marker(7, epoch, is_commit, coordinator_epoch=2))


def test_a_transaction_begins_only_where_its_coordinator_knows_of_it() -> None:
    """C3: nobody would end it otherwise."""
    state = ProducerState()
    with pytest.raises(InvalidTransactionState):
        state.check(in_transaction(0))
    assert state.check(in_transaction(0), is_enlisted=True) is None
    state.replay(in_transaction(0))
    assert state.check(in_transaction(1)) is None
    ended(state, 1)
    assert state.check(in_transaction(0)) == 0, "a repetition is known after the end too"
    with pytest.raises(InvalidTransactionState):
        state.check(in_transaction(1))


def test_within_a_transaction_every_batch_is_part_of_it() -> None:
    state = stored(in_transaction(0))
    with pytest.raises(InvalidTransactionState):
        state.check(batch(1))


def test_a_marker_of_a_newer_epoch_fences_the_late_batches_of_the_older() -> None:
    state = stored(in_transaction(0))
    ended(state, 1, epoch=1)
    with pytest.raises(StaleProducerEpoch):
        state.check(in_transaction(1), is_enlisted=True)
    assert state.check(in_transaction(0, epoch=1), is_enlisted=True) is None


def test_markers_of_an_older_epoch_or_coordinator_are_refused() -> None:
    state = stored(in_transaction(0, epoch=3))
    ended(state, 1, epoch=3)
    with pytest.raises(StaleProducerEpoch):
        state.check_marker(Marker(7, 2, is_commit=True, coordinator_epoch=2))
    with pytest.raises(CoordinatorFenced):
        state.check_marker(Marker(7, 3, is_commit=True, coordinator_epoch=1))
    state.check_marker(Marker(7, 3, is_commit=True, coordinator_epoch=2))
    state.check_marker(Marker(8, 0, is_commit=True))


def test_a_producer_in_a_transaction_does_not_expire() -> None:
    state = stored(in_transaction(0))
    for now_ms in (1000, 2000, 3000):
        state.expire(now_ms=now_ms, idle_ms=500)
    assert 7 in state.producers


def test_a_snapshot_holds_open_and_aborted_transactions() -> None:
    """C3: the stable offset and the aborted transactions survive a restart."""
    state = stored(in_transaction(0, offset=10))
    ended(state, 11, is_commit=False)
    state.replay(in_transaction(1, offset=12))
    copy = ProducerState()
    copy.restore(state.snapshot())
    assert copy.transactions.aborted == state.transactions.aborted != []
    assert copy.transactions.stable_offset(100) == 12
    assert copy.producers[7].coordinator_epoch == 2
    ended(copy, 13)
    assert copy.transactions.stable_offset(100) == 100

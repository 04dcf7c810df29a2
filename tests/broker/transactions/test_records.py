"""Records of `__transaction_state`, as Apache Kafka 4.3 wrote them and in every shape of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.transactions.machine import State, TransactionSnapshot
from chordmq.broker.transactions.records import TransactionRecord, read, write
from chordmq.errors import DecodeError

KEY = "0000000e742d303632303333343637643863"
NAME = "t-062033467d8c"
GOLDEN = {
    State.EMPTY: "0001000000000000000800000000ea600000000001a1e1a36499ffffffffffffffff"
    "0100080000000000000008",
    State.ONGOING: "0001000000000000000800000000ea6001020f742d303632303333343637643863020000000000"
    "000001a1e1a364a1000001a1e1a364a10100080000000000000008",
    State.PREPARE_COMMIT: "0001000000000000000800000000ea6002020f742d303632303333343637643863"
    "020000000000000001a1e1a364af000001a1e1a364a10100080000000000000008",
    State.PREPARE_ABORT: "0001000000000000000800000000ea6003020f742d303632303333343637643863"
    "020000000000000001a1e1a3651b000001a1e1a365170100080000000000000008",
    State.COMPLETE_COMMIT: "0001000000000000000800000000ea600401000001a1e1a364af000001a1e1a364a1"
    "0100080000000000000008",
    State.COMPLETE_ABORT: "0001000000000000000800000000ea600501000001a1e1a3651b000001a1e1a36517"
    "0100080000000000000008",
}
SECOND_PROTOCOL = (
    "00000016742d3238613030613564613637312d66656e63696e67",
    "0001000000000000000300030000ea60020213742d3238613030613564613637312d6f75740200000000000000"
    "01a1e1a34930000001a1e1a3492c020008000000000000000302020002",
)
INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1
ids = st.integers(-1, INT64)
snapshots = st.builds(
    TransactionSnapshot,
    transactional_id=st.just("x"),
    producer_id=ids,
    epoch=st.integers(0, INT16),
    timeout_ms=st.integers(0, INT32),
    state=st.sampled_from([state for state in State if state is not State.EMPTY]),
    partitions=st.frozensets(st.tuples(st.text("abc", max_size=3), st.integers(0, 9))),
    updated_ms=ids,
    started_ms=ids,
    previous_producer_id=ids,
    next_producer_id=ids,
    has_epoch_per_transaction=st.booleans(),
)


@pytest.mark.parametrize("state", GOLDEN)
def test_a_record_of_kafka_is_read_and_written_again_byte_for_byte(state: State) -> None:
    """C3: the log of one is the log of the other."""
    key, value = bytes.fromhex(KEY), bytes.fromhex(GOLDEN[state])
    record = read(key, value)
    assert record is not None
    assert record.transactional_id == NAME
    assert record.snapshot is not None
    assert record.snapshot.state is state
    assert record.snapshot.producer == (8, 0)
    assert write(record) == (key, value)


def test_a_record_of_the_second_protocol_is_the_same_too() -> None:
    key, value = (bytes.fromhex(part) for part in SECOND_PROTOCOL)
    record = read(key, value)
    assert record is not None
    assert record.snapshot is not None
    assert record.snapshot.has_epoch_per_transaction
    assert record.snapshot.partitions == {("t-28a00a5da671-out", 0)}
    assert write(record) == (key, value)


@given(snapshots)
def test_every_snapshot_reads_back_as_it_was_written(snapshot: TransactionSnapshot) -> None:
    record = TransactionRecord("x", snapshot)
    key, value = write(record)
    assert read(key, value) == record


def test_a_null_value_forgets_the_id() -> None:
    assert read(*write(TransactionRecord("x", None))) == TransactionRecord("x", None)


def test_a_key_of_another_version_is_not_for_us() -> None:
    assert read(b"\0\7\0\1x", None) is None


@given(st.binary(max_size=60))
def test_garbage_raises_decode_error_and_nothing_else(data: bytes) -> None:
    key = bytes.fromhex(KEY)
    for arguments in ((data, None), (key, data), (key, b"\0\1" + data)):
        try:
            read(*arguments)
        except DecodeError:
            pass

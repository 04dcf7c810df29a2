"""Cursors are stored as Kafka stores the state of share groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.cursors.records import CursorKey, CursorRecord, CursorSnapshot, read, write
from chordmq.broker.cursors.shared_cursor import Change, State
from chordmq.errors import DecodeError

OFFSETS = st.integers(0, 2**63 - 1)
KEYS = st.builds(
    CursorKey,
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 9999),
)
CHANGES = st.builds(
    lambda a, b, state, deliveries: Change(min(a, b), max(a, b), state, deliveries),
    OFFSETS,
    OFFSETS,
    st.sampled_from(State),
    st.integers(0, 2**15 - 1),
)
SNAPSHOTS = st.builds(
    CursorSnapshot,
    start=OFFSETS,
    changes=st.lists(CHANGES, max_size=5).map(tuple),
    epoch=st.integers(0, 2**31 - 1),
    created_ms=OFFSETS,
    written_ms=OFFSETS,
)


@given(record=st.builds(CursorRecord, KEYS, st.none() | SNAPSHOTS))
def test_what_is_written_reads_the_same(record: CursorRecord) -> None:
    assert read(*write(record)) == record


def test_the_bytes_are_those_of_apache_kafka() -> None:
    key = CursorKey("g", bytes(range(16)), 3)
    done = Change(7, 8, State.DONE, 1)
    snapshot = CursorSnapshot(start=5, changes=(done,), epoch=2, created_ms=10, written_ms=11)
    assert write(CursorRecord(key, snapshot)) == (
        b"\0\0" + b"\0\x01g" + bytes(range(16)) + b"\0\0\0\x03",
        b"\0\0" + b"\0\0\0\0" + b"\0\0\0\x02" + b"\0\0\0\0" + (5).to_bytes(8, "big")
        + (10).to_bytes(8, "big") + (11).to_bytes(8, "big")
        + b"\x02" + (7).to_bytes(8, "big") + (8).to_bytes(8, "big") + b"\x02\0\x01\0"
        + b"\x01\0\x04\0\0\0\x02",
    )  # fmt: skip


@given(key=st.binary(max_size=60), value=st.none() | st.binary(max_size=60))
def test_garbage_raises_decode_error_and_nothing_else(key: bytes, value: bytes | None) -> None:
    for data in (key, b"\0\0" + key):
        try:
            read(data, value)
        except DecodeError:
            pass


def test_a_value_of_another_version_is_refused() -> None:
    key, _ = write(CursorRecord(CursorKey("g", bytes(16), 0), None))
    with pytest.raises(DecodeError):
        read(key, b"\0\x01")

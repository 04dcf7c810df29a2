"""Transaction markers as Kafka writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import CorruptBatch
from chordmq.records.batch import CONTROL, read_header, verify
from chordmq.records.marker import Marker, build_marker, read_marker
from chordmq.records.record import NewRecord, build_batch, read_records

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1


@given(
    st.builds(
        Marker,
        st.integers(0, INT64),
        st.integers(0, INT16),
        st.booleans(),
        st.integers(-1, INT32),
    )
)
def test_a_marker_reads_back_as_it_was_written(marker: Marker) -> None:
    batch = build_marker(marker, 1000)
    header = read_header(batch)
    verify(memoryview(batch), 0, header)
    assert header.is_control
    assert header.is_transactional
    assert read_marker(batch) == marker


@pytest.mark.parametrize(("is_commit", "kind"), [(True, b"\0\1"), (False, b"\0\0")])
def test_a_marker_has_the_bytes_that_kafka_clients_look_for(is_commit: bool, kind: bytes) -> None:
    (record,) = read_records(build_marker(Marker(1, 2, is_commit, 3), 1000))
    assert record.key == b"\0\0" + kind
    assert record.value == b"\0\0\0\0\0\3"


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\0\0\0\7"])
def test_a_control_batch_that_is_no_marker_is_refused(key: bytes | None) -> None:
    batch = build_batch([NewRecord(0, key, b"\0\0\0\0\0\0")], flags=CONTROL)
    with pytest.raises(CorruptBatch):
        read_marker(batch)

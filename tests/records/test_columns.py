"""Batches as columns, compared with the reader of single records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import CorruptBatch
from chordmq.records.batch import HEADER_SIZE, stamp, walk
from chordmq.records.columns import TYPES, read_columns
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch, read_records

BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
RECORDS = st.builds(
    NewRecord,
    st.integers(0, 2**45),
    BYTES,
    BYTES,
    HEADERS.map(tuple),
)


def log_of(batches: list[list[NewRecord]], kinds: list[Compression], first: int = 0) -> bytes:
    data = bytearray()
    for records, kind in zip(batches, kinds, strict=True):
        data += build_batch(records, base_offset=first, compression=kind)
        first += len(records)
    return bytes(data)


def rows_of(data: bytes, **bounds: int) -> list[tuple[object, ...]]:
    view = memoryview(data)
    columns = read_columns(view, walk(view), TYPES, **bounds)
    arrays = [columns.arrays[name] for name in TYPES]
    assert {len(array) for array in arrays} == {columns.count}
    return list(zip(*(array.to_pylist() for array in arrays), strict=True))


def millis(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [(row[2], round(row[3].timestamp() * 1000), *row[:2]) for row in rows]  # type: ignore[attr-defined]


@given(st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=8), st.sampled_from(Compression))))
def test_columns_hold_what_the_record_reader_reads(
    drawn: list[tuple[list[NewRecord], Compression]],
) -> None:
    """P2: the source's decoder and the broker's agree on every record."""
    data = log_of([records for records, _ in drawn], [kind for _, kind in drawn], first=2**40)
    expected = [
        record
        for position, header in walk(memoryview(data))
        for record in read_records(data[position : position + header.size])
    ]
    rows = rows_of(data)
    assert millis(rows) == [(one.offset, one.timestamp, one.key, one.value) for one in expected]
    assert [
        tuple((pair["key"], pair["value"]) for pair in row[5])  # type: ignore[attr-defined]
        for row in rows
    ] == [one.headers for one in expected]


def test_only_the_records_between_two_offsets_are_kept() -> None:
    batches = [[NewRecord(1, None, bytes([i]))] * 3 for i in range(4)]
    data = log_of(batches, [Compression.NONE] * 4, first=100)
    assert [row[2] for row in rows_of(data, start=102, stop=107)] == [102, 103, 104, 105, 106]
    assert rows_of(data, start=200) == []
    assert rows_of(b"") == []


def test_a_batch_with_the_time_of_its_append_gives_that_time() -> None:
    data = bytearray(build_batch([NewRecord(5, b"k", b"v"), NewRecord(6, b"k", b"v")]))
    stamp(memoryview(data), 0, 99_000)
    rows = rows_of(bytes(data))
    assert [(row[3].timestamp(), row[4]) for row in rows] == [(99.0, 1)] * 2  # type: ignore[attr-defined]


def test_only_the_named_columns_are_made() -> None:
    view = memoryview(log_of([[NewRecord(1, b"k", b"v")]], [Compression.NONE]))
    assert list(read_columns(view, walk(view), ["value"]).arrays) == ["value"]


@given(st.data())
def test_a_damaged_record_is_corrupt_and_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(build_batch([NewRecord(1, b"key", b"value", (("h", b"x"),))] * 3))
    at = data.draw(st.integers(HEADER_SIZE, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    view = memoryview(bytes(whole))
    try:
        read_columns(view, walk(view), TYPES)
    except CorruptBatch:
        pass


def test_a_record_count_that_is_too_high_is_corrupt() -> None:
    whole = bytearray(build_batch([NewRecord(1, b"key", b"value")]))
    whole[HEADER_SIZE - 1] = 9
    view = memoryview(bytes(whole))
    with pytest.raises(CorruptBatch):
        read_columns(view, walk(view), TYPES)

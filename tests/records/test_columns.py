"""Batches as columns by each decoder, compared with the reader of single records."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import CorruptBatch
from chordmq.records.arrow import TYPES
from chordmq.records.batch import HEADER_SIZE, stamp, walk
from chordmq.records.columns import DECODER, ROWS_MAX, Decoder, read_columns
from chordmq.records.compression import Compression
from chordmq.records.found import Found
from chordmq.records.record import NewRecord, Record, build_batch, read_records
from chordmq.records.varint import varint

BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
RECORDS = st.builds(
    NewRecord,
    st.integers(0, 2**45),
    BYTES,
    BYTES,
    HEADERS.map(tuple),
)
OVERLONG = b"\xff" * 10 + b"\x01"
each_decoder = pytest.mark.parametrize(
    "decoder", [Found] if DECODER is Found else [Found, DECODER], ids=lambda one: one.__name__
)
"""With NumPy, and compiled where that is built."""


def log_of(batches: list[list[NewRecord]], kinds: list[Compression], first: int = 0) -> bytes:
    data = bytearray()
    for records, kind in zip(batches, kinds, strict=True):
        data += build_batch(records, base_offset=first, compression=kind)
        first += len(records)
    return bytes(data)


def rows_of(decoder: Decoder, data: bytes, **bounds: int) -> list[tuple[Any, ...]]:
    view = memoryview(data)
    rows: list[tuple[Any, ...]] = []
    for columns in read_columns(view, walk(view), TYPES, decoder=decoder, **bounds):
        arrays = [columns.arrays[name] for name in TYPES]
        assert {len(array) for array in arrays} == {columns.count}
        for array in arrays:
            array.validate(full=True)
        rows += zip(
            *(
                array.cast("int64").to_pylist() if name == "timestamp" else array.to_pylist()
                for name, array in zip(TYPES, arrays, strict=True)
            ),
            strict=True,
        )
    return rows


def records_of(decoder: Decoder, data: bytes) -> list[Record]:
    return [
        Record(offset, time // 1000, key, value, tuple((one["key"], one["value"]) for one in pairs))
        for key, value, offset, time, _, pairs in rows_of(decoder, data, start=-(2**63))
    ]  # fmt: skip


def read_singly(data: bytes) -> list[Record]:
    return [
        record
        for position, header in walk(memoryview(data))
        for record in read_records(data[position : position + header.size])
    ]


def batch_of(body: bytes, count: int = 1) -> bytes:
    """Return a batch with these bytes in place of its records; nobody looks at the checksum."""
    head = bytearray(build_batch([NewRecord(1, None, None)])[:HEADER_SIZE])
    head[8:12] = (HEADER_SIZE - 12 + len(body)).to_bytes(4, "big")
    head[-4:] = count.to_bytes(4, "big", signed=True)
    return bytes(head) + body


def test_without_the_compiled_module_numpy_decodes() -> None:
    code = """if True:
        import sys
        sys.modules["chordmq.records.one_pass"] = None
        from chordmq.records.columns import DECODER
        print(DECODER.__name__)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Found\n"


@each_decoder
@given(st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=8), st.sampled_from(Compression))))
def test_columns_hold_what_the_record_reader_reads(
    decoder: Decoder, drawn: list[tuple[list[NewRecord], Compression]]
) -> None:
    """P2: the source's decoder and the broker's agree on every record."""
    data = log_of([records for records, _ in drawn], [kind for _, kind in drawn], first=2**40)
    assert records_of(decoder, data) == read_singly(data)


@each_decoder
def test_many_records_come_a_few_thousand_at_a_time(decoder: Decoder) -> None:
    sizes = [1, 3, 500, 7000, 9000]
    batches = [[NewRecord(i, b"%d" % i, b"v" * (i % 300)) for i in range(size)] for size in sizes]
    data = log_of(batches, [Compression.NONE, Compression.LZ4, *[Compression.NONE] * 3])
    assert records_of(decoder, data) == read_singly(data)
    view = memoryview(data)
    counts = [one.count for one in read_columns(view, walk(view), ["value"], decoder=decoder)]
    assert sum(counts) == sum(sizes)
    assert max(counts) <= ROWS_MAX


@each_decoder
def test_only_the_records_between_two_offsets_are_kept(decoder: Decoder) -> None:
    batches = [[NewRecord(1, None, bytes([i]))] * 3 for i in range(4)]
    data = log_of(batches, [Compression.NONE] * 4, first=100)
    kept = [row[2] for row in rows_of(decoder, data, start=102, stop=107)]
    assert kept == [102, 103, 104, 105, 106]
    assert rows_of(decoder, data, start=200) == []
    assert rows_of(decoder, b"") == []


@each_decoder
def test_a_batch_with_the_time_of_its_append_gives_that_time(decoder: Decoder) -> None:
    data = bytearray(build_batch([NewRecord(5, b"k", b"v"), NewRecord(6, b"k", b"v")]))
    stamp(memoryview(data), 0, 99_000)
    assert [row[3:5] for row in rows_of(decoder, bytes(data))] == [(99_000_000, 1)] * 2


@each_decoder
def test_only_the_named_columns_are_made(decoder: Decoder) -> None:
    view = memoryview(log_of([[NewRecord(1, b"k", b"v")]], [Compression.NONE]))
    (columns,) = read_columns(view, walk(view), ["value"], decoder=decoder)
    assert list(columns.arrays) == ["value"]


@each_decoder
@given(st.data())
def test_a_damaged_record_is_corrupt_or_what_the_record_reader_reads(
    decoder: Decoder, data: st.DataObject
) -> None:
    records = [NewRecord(1, b"key", b"value", (("h", b"x"),)), NewRecord(2, None, b"v" * 70)] * 2
    whole = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_SIZE - 1, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    try:
        found = records_of(decoder, bytes(whole))
    except CorruptBatch:
        return
    assert found == read_singly(bytes(whole))


@each_decoder
@given(body=st.binary(max_size=15), count=st.integers(-1, 3))
def test_garbage_is_corrupt_wherever_the_record_reader_says_so(
    decoder: Decoder, body: bytes, count: int
) -> None:
    try:
        expected = len(read_singly(batch_of(body, count)))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            records_of(decoder, batch_of(body, count))
    else:
        assert len(records_of(decoder, batch_of(body, count))) == expected


@each_decoder
@pytest.mark.parametrize(
    "fields",
    [
        b"\0\0\0" + varint(-2) + b"\1\0",
        b"\0\0\0\1" + varint(-2) + b"\0",
        b"\0\0\0" + varint(9) + b"\1\0",
        b"\0\0\0\1" + varint(2**62) + b"\0",
        b"\0\0\0\1" + varint(2**63 - 1) + b"\0",
        b"\0\0\0\1" + varint(2**31) + b"\0",
        b"\0" + OVERLONG + b"\0\1\1\0",
        b"\0\0\0\1" + OVERLONG + b"\0",
        b"\0\0\0\1\1\x80",
        b"\0\0\0\1\1\0\0",
        b"\0\0\0\1",
    ],
    ids=["key below zero", "value below zero", "key too long", "value of 2**62", "value of 2**63",
         "value of 2**31", "endless time", "endless size", "cut off", "a byte more", "too few"],
)  # fmt: skip
def test_a_field_that_does_not_fit_its_record_is_corrupt(decoder: Decoder, fields: bytes) -> None:
    good = b"\0\0\0\1\1\0"
    damaged = b"".join(varint(len(one)) + one for one in (good, fields, good))
    with pytest.raises(CorruptBatch):
        rows_of(decoder, batch_of(damaged, 3))


@each_decoder
@pytest.mark.parametrize("size", [varint(-1), varint(5), varint(8), varint(2**62), OVERLONG, b""])
def test_a_size_that_does_not_fit_the_batch_is_corrupt(decoder: Decoder, size: bytes) -> None:
    with pytest.raises(CorruptBatch):
        rows_of(decoder, batch_of(size + b"\0\0\0\1\1\0"))


@each_decoder
@pytest.mark.parametrize("count", [-1, 0, 9, 2**31 - 1])
def test_a_record_count_that_is_not_true_is_corrupt(decoder: Decoder, count: int) -> None:
    with pytest.raises(CorruptBatch):
        rows_of(decoder, batch_of(varint(6) + b"\0\0\0\1\1\0", count))

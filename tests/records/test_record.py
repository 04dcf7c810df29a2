"""Tests of building batches from records and reading them back."""

from pathlib import Path
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.errors import CorruptBatch, UnsupportedCompression, UnsupportedFormat
from chordmq.records.batch import CONTROL, TRANSACTIONAL, read_header, stamp, verify
from chordmq.records.compression import Compression
from chordmq.records.record import (
    RUN_LENGTH,
    AlikeRecords,
    Headers,
    NewRecord,
    Record,
    RecordRun,
    UnlikeRecords,
    build_alike,
    build_batch,
    build_compacted,
    build_runs,
    prepare_headers,
    prepare_key,
    read_records,
    read_runs,
    rebuild_batch,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "record_batches.txt"
EVERY = list(Compression)
ORACLES = [kafka_python_records, aiokafka_records]

some_bytes = (
    st.none() | st.binary(max_size=20) | st.sampled_from([b"x" * 63, b"x" * 64, b"y" * 9000])
)
some_headers: st.SearchStrategy[Headers] = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), st.none() | st.binary(max_size=5)),
    max_size=3,
).map(tuple)
some_records = st.lists(
    st.builds(NewRecord, st.integers(0, 2**45), some_bytes, some_bytes, some_headers),
    min_size=1,
    max_size=6,
)

RECORDS = [
    NewRecord(1_700_000_000_000, b"key", b"value"),
    NewRecord(1_700_000_000_500, None, b"x" * 300),
    NewRecord(1_699_999_999_000, b"gone", None),
    NewRecord(1_700_000_000_001, b"", b"", (("trace", b"1"), ("nothing", None))),
]


def stored(records: list[NewRecord], base_offset: int) -> list[Record]:
    return [Record(base_offset + i, *record) for i, record in enumerate(records)]


def resealed(batch: bytearray) -> bytearray:
    """Return a changed batch with the checksum that fits it."""
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
@settings(max_examples=40, deadline=None)
@given(records=some_records, base_offset=st.integers(0, 2**40))
def test_records_come_back(kind: Compression, records: list[NewRecord], base_offset: int) -> None:
    """C5: every compression carries every record."""
    batch = build_batch(records, base_offset=base_offset, compression=kind)
    verify(memoryview(batch), 0, read_header(batch))
    assert read_records(batch) == stored(records, base_offset)


some_values = st.lists(st.binary(max_size=3), min_size=1, max_size=200) | st.sampled_from(
    [[None], [b"x" * 63, b"y" * 64, b"z" * 9000], [b"x" * 100] * 9000]
)
some_runs = st.lists(
    st.builds(RecordRun, st.integers(0, 2**45), some_bytes, some_headers, some_values),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(some_runs)
def test_records_that_are_alike_make_the_same_batch(runs: list[RecordRun]) -> None:
    records = [record for run in runs for record in run.records()]
    assert build_runs(runs) == build_batch(records)


some_rows = st.lists(
    st.tuples(some_bytes, some_headers, st.binary(max_size=3) | st.just(b"x" * 9000)),
    min_size=1,
    max_size=200,
)


@settings(deadline=None)
@given(some_rows, some_rows, st.integers(0, 2**45))
def test_records_that_have_nothing_in_common_make_the_same_batch(
    before: list[tuple[bytes | None, Headers, bytes]],
    behind: list[tuple[bytes | None, Headers, bytes]],
    time: int,
) -> None:
    records = [NewRecord(time, key, value, headers) for key, headers, value in before + behind]
    alike = [AlikeRecords(prepare_key(k), prepare_headers(h), [v]) for k, h, v in before]
    unlike = UnlikeRecords([((prepare_key(k), prepare_headers(h)), v) for k, h, v in behind])
    assert build_alike(time, [*alike, unlike]) == build_batch(records)


def told_apart(batch: bytearray) -> list[NewRecord]:
    """Return the records of a batch, read as runs."""
    return [record for run in read_runs(batch) for record in run.records()]


@settings(deadline=None)
@given(some_runs, st.sampled_from(EVERY), st.integers(0, 2**40))
def test_alike_records_are_read_together_as_they_are_one_by_one(
    runs: list[RecordRun], kind: Compression, base_offset: int
) -> None:
    records = [record for run in runs for record in run.records()]
    batch = build_batch(records, base_offset=base_offset, compression=kind)
    found = read_runs(batch)
    assert (len(records) >= RUN_LENGTH) == bool(found)
    assert len(found) <= len(runs)
    assert not found or stored(told_apart(batch), base_offset) == read_records(batch)


@given(some_records)
def test_any_records_are_read_as_runs_or_not_at_all(records: list[NewRecord]) -> None:
    batch = build_batch(records)
    assert told_apart(batch) in ([], records)


def test_records_that_are_hardly_alike_are_not_read_as_runs() -> None:
    assert read_runs(build_batch([NewRecord(n, None, b"v") for n in range(100)])) == []


def test_a_batch_with_gaps_is_not_read_as_runs() -> None:
    batch = build_runs([RecordRun(5, b"k", (), [b"v"] * 10)])
    records = read_records(batch)
    for kept in (records[:4] + records[5:], records[1:], records[:9]):
        assert read_runs(build_compacted(read_header(batch), kept)) == []


@given(st.data())
def test_damaged_runs_are_refused_or_read_as_the_records_are(data: st.DataObject) -> None:
    batch = build_runs([RecordRun(5, b"k", (("h", b"1"),), [b"v" * 9] * 5)])
    place = data.draw(st.integers(61, len(batch) - 1))
    batch[place] = data.draw(st.integers(0, 255))
    try:
        expected = read_records(batch)
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            read_runs(batch)
        return
    found = read_runs(batch)
    assert not found or stored(told_apart(batch), 0) == expected


@pytest.mark.parametrize("line", GOLDEN.read_text().splitlines(), ids=lambda line: line.split()[0])
def test_batches_written_by_kafka_clients_are_read(line: str) -> None:
    """C5: batches recorded from kafka-clients 4.3 in every compression."""
    batch = bytes.fromhex(line.split()[1])
    verify(memoryview(batch), 0, read_header(batch))
    assert read_records(memoryview(batch)) == stored(RECORDS, 40)


def test_an_uncompressed_batch_is_the_one_that_kafka_clients_writes() -> None:
    name, golden = GOLDEN.read_text().splitlines()[0].split()
    assert name == "none"
    assert build_batch(RECORDS, base_offset=40).hex() == golden


@pytest.mark.parametrize("oracle", ORACLES, ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_other_clients_read_our_batches(kind: Compression, oracle: Any) -> None:
    """C5: kafka-python and aiokafka read every compression that we write."""
    batch = oracle.DefaultRecordBatch(bytes(build_batch(RECORDS, base_offset=7, compression=kind)))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == stored(RECORDS, 7)


@pytest.mark.parametrize("oracle", ORACLES, ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_we_read_the_batches_of_other_clients(kind: Compression, oracle: Any) -> None:
    """C5: kafka-python and aiokafka write, we read."""
    batch = oracle.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(kind),
        is_transactional=0,
        producer_id=11,
        producer_epoch=2,
        base_sequence=5,
        batch_size=1_000_000,
    )
    for i, record in enumerate(RECORDS):
        batch.append(i, record.timestamp, record.key, record.value, list(record.headers))
    built = bytearray(batch.build())
    assert read_records(memoryview(built)) == stored(RECORDS, 0)
    if kind is Compression.NONE:
        ours = build_batch(RECORDS, producer_id=11, epoch=2, sequence=5)
        assert (ours[:12], ours[16:]) == (built[:12], built[16:])  # the leader epoch is the log's


def test_the_header_tells_producer_and_flags() -> None:
    batch = build_batch(
        RECORDS, flags=TRANSACTIONAL | CONTROL, producer_id=9, epoch=3, sequence=100
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 100)
    assert (header.is_transactional, header.is_control) == (True, True)
    assert (header.record_count, header.last_offset_delta) == (4, 3)
    assert (header.base_timestamp, header.max_timestamp) == (
        RECORDS[0].timestamp,
        1_700_000_000_500,
    )


def test_append_time_replaces_the_time_of_every_record() -> None:
    batch = build_batch(RECORDS)
    stamp(memoryview(batch), 0, 42)
    assert {record.timestamp for record in read_records(batch)} == {42}


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_a_batch_can_be_compressed_anew(kind: Compression) -> None:
    """C5: a topic's `compression.type` changes the bytes, not the records or the header."""
    batch = build_batch(RECORDS, base_offset=3, compression=Compression.GZIP, producer_id=9)
    changed = rebuild_batch(memoryview(batch), kind)
    header = read_header(changed)
    verify(memoryview(changed), 0, header)
    assert (header.attributes, header.producer_id, header.size) == (kind, 9, len(changed))
    assert read_records(changed) == stored(RECORDS, 3)


def test_a_compacted_batch_keeps_offsets_and_times() -> None:
    batch = build_batch(RECORDS, base_offset=20, compression=Compression.ZSTD)
    header = read_header(batch)
    kept = [read_records(batch)[i] for i in (1, 3)]
    compacted = build_compacted(header, kept)
    after = read_header(compacted)
    verify(memoryview(compacted), 0, after)
    assert read_records(compacted) == kept
    assert (after.base_offset, after.last_offset, after.record_count) == (20, 23, 2)


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    header = read_header(build_batch(RECORDS))
    assert read_records(build_compacted(header, [])) == []


def test_a_batch_that_grows_beyond_the_limit_is_refused() -> None:
    """C5: a compression bomb raises CorruptBatch before it fills the memory."""
    batch = build_batch([NewRecord(0, None, bytes(3_000_000))], compression=Compression.ZSTD)
    assert len(batch) < 1000
    with pytest.raises(CorruptBatch):
        read_records(batch, size_max=1_000_000)


@pytest.mark.parametrize("count", [-1, 3, 5, 2**31 - 1])
def test_a_wrong_record_count_is_refused(count: int) -> None:
    batch = build_batch(RECORDS)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        read_records(batch)


def test_a_header_count_of_two_billion_is_refused() -> None:
    batch = build_batch([NewRecord(0, None, b"v")])
    batch[-1:] = b"\xfe\xff\xff\xff\x0f"
    batch[61] += 8  # the record is four bytes longer now
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="2147483647 headers"):
        read_records(batch)


def test_an_endless_number_is_refused() -> None:
    batch = build_batch([NewRecord(0, None, b"v" * 40)])
    batch[61:] = b"\xff" * (len(batch) - 61)
    with pytest.raises(CorruptBatch, match="ten bytes"):
        read_records(batch)


def test_a_batch_cut_off_is_refused() -> None:
    batch = build_batch(RECORDS)
    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            read_records(batch[:size])


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_batches_raise_the_errors_of_a_batch_and_nothing_else(data: st.DataObject) -> None:
    """C12: whatever a producer puts under a valid checksum, only a named error comes out."""
    kind = data.draw(st.sampled_from(EVERY))
    batch = build_batch(data.draw(some_records), compression=kind)
    place = data.draw(st.integers(0, len(batch) - 1))
    batch[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        read_records(resealed(batch), size_max=1_000_000)
    except (CorruptBatch, UnsupportedFormat, UnsupportedCompression):
        pass

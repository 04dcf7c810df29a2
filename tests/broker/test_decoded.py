"""Batches that were decoded a moment ago."""

from chordmq.broker.decoded import RECORD_WEIGHT, DecodedBatches
from chordmq.records.batch import BatchHeader, read_header
from chordmq.records.record import NewRecord, Record, RecordRun, build_batch, build_runs

OWNER = object()


def batch(value: bytes, base_offset: int = 0) -> tuple[BatchHeader, memoryview]:
    data = memoryview(build_batch([NewRecord(0, None, value)], base_offset=base_offset))
    return read_header(data), data


def test_a_batch_is_decoded_once_for_all_who_read_it() -> None:
    batches = DecodedBatches()
    first = batches.records(OWNER, *batch(b"a"))
    assert first == [Record(0, 0, None, b"a")]
    assert batches.records(OWNER, *batch(b"a")) is first


def test_batches_of_others_or_with_other_content_are_told_apart() -> None:
    batches = DecodedBatches()
    first = batches.records(OWNER, *batch(b"a"))
    assert batches.records(object(), *batch(b"a")) is not first
    assert batches.records(OWNER, *batch(b"b")) == [Record(0, 0, None, b"b")]
    assert batches.records(OWNER, *batch(b"a", 5)) == [Record(5, 0, None, b"a")]


def test_a_batch_that_was_built_here_needs_no_decoding() -> None:
    batches = DecodedBatches()
    header, data = batch(b"a", 7)
    batches.built((OWNER, 7, header.crc), header.size, [NewRecord(0, b"not decoded", b"a")])
    found = batches.records(OWNER, header, data)
    assert found == [Record(7, 0, b"not decoded", b"a")]
    assert batches.records(OWNER, header, data) is found
    changed, data = batch(b"b", 7)
    assert batches.records(OWNER, changed, data) == [Record(7, 0, None, b"b")]


def test_a_batch_that_was_built_of_runs_is_known_so_until_somebody_reads_its_records() -> None:
    batches = DecodedBatches()
    header, data = batch(b"a", 7)
    run = RecordRun(0, b"not decoded", (), [b"a", b"b"])
    batches.built((OWNER, 7, header.crc), header.size, [run])
    assert batches.runs(OWNER, header, data) == [run]
    assert not batches.runs(object(), header, data)
    found = batches.records(OWNER, header, data)
    assert found == [Record(7, 0, b"not decoded", b"a"), Record(8, 0, b"not decoded", b"b")]
    assert batches.runs(OWNER, header, data) == ()


def test_records_that_are_alike_are_decoded_once_as_runs() -> None:
    batches = DecodedBatches()
    run = RecordRun(5, b"k", (("h", b"1"),), [b"a", b"bb", b"", b"c"])
    data = memoryview(build_runs([run]))
    header = read_header(data)
    found = batches.runs(OWNER, header, data)
    assert found == [run]
    assert batches.runs(OWNER, header, data) is found
    assert [one.value for one in batches.records(OWNER, header, data)] == [*run.values]


def test_what_was_not_used_for_longest_goes_first() -> None:
    batches = DecodedBatches(weight_max=2 * (RECORD_WEIGHT + 1))
    a = batches.records(OWNER, *batch(b"a"))
    b = batches.records(OWNER, *batch(b"b"))
    assert batches.records(OWNER, *batch(b"a")) is a
    batches.records(OWNER, *batch(b"c"))
    assert batches.records(OWNER, *batch(b"a")) is a
    assert batches.records(OWNER, *batch(b"b")) is not b


def test_a_batch_that_would_displace_all_others_is_not_kept() -> None:
    batches = DecodedBatches(weight_max=1_000)
    a = batches.records(OWNER, *batch(b"a"))
    large = batches.records(OWNER, *batch(b"x" * 2_000, 1))
    assert batches.records(OWNER, *batch(b"x" * 2_000, 1)) is not large
    assert batches.records(OWNER, *batch(b"a")) is a

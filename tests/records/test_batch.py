"""Tests of the batch header: reading, walking, checking and placing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.errors import CorruptBatch, UnsupportedFormat
from chordmq.records.batch import (
    CRC_START,
    HEADER_SIZE,
    place,
    read_header,
    stamp,
    verify,
    walk,
)
from chordmq.records.record import NewRecord, build_batch, read_records


def batch_of(*values: bytes, base_offset: int = 0) -> bytearray:
    return build_batch([NewRecord(1000, None, v) for v in values], base_offset=base_offset)


def test_walking_finds_every_batch_with_its_place() -> None:
    first, second = batch_of(b"a", b"b"), batch_of(b"c", base_offset=2)
    found = list(walk(memoryview(first + second)))
    assert [position for position, _ in found] == [0, len(first)]
    assert [(h.base_offset, h.last_offset, h.next_offset) for _, h in found] == [
        (0, 1, 2),
        (2, 2, 3),
    ]
    assert sum(header.size for _, header in found) == len(first) + len(second)


def test_a_batch_cut_off_is_found_when_walking() -> None:
    whole, torn = batch_of(b"a"), batch_of(b"b")
    for size in range(1, len(torn)):
        with pytest.raises(CorruptBatch):
            list(walk(memoryview(whole + torn[:size])))


def test_placing_a_batch_leaves_its_checksum_valid() -> None:
    """D4: the broker gives offset and leader epoch without touching what the checksum covers."""
    batch = batch_of(b"a", b"b")
    place(memoryview(batch), 0, 2**40, 7)
    header = read_header(batch)
    verify(memoryview(batch), 0, header)
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (2**40, 7, 2**40 + 2)


def test_stamping_a_batch_renews_its_checksum() -> None:
    batch = batch_of(b"a")
    stamp(memoryview(batch), 0, 5000)
    header = read_header(batch)
    verify(memoryview(batch), 0, header)
    assert header.max_timestamp == 5000
    assert [record.timestamp for record in read_records(batch)] == [5000]


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_behind_the_checksum_is_found(bit: int) -> None:
    """D4: no bit that the checksum covers changes unseen."""
    batch = batch_of(b"value")
    for position in range(CRC_START, len(batch)):
        batch[position] ^= 1 << bit
        with pytest.raises(CorruptBatch):
            verify(memoryview(batch), 0, read_header(batch))
        batch[position] ^= 1 << bit


def test_older_formats_are_refused_by_name() -> None:
    batch = batch_of(b"a")
    batch[16] = 1
    with pytest.raises(UnsupportedFormat):
        read_header(batch)


def test_a_length_shorter_than_a_header_is_refused() -> None:
    batch = batch_of(b"a")
    batch[8:12] = (HEADER_SIZE - 13).to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        read_header(batch)


def test_sequence_numbers_wrap_at_two_to_the_31() -> None:
    batch = build_batch([NewRecord(0, None, b"")] * 3, producer_id=1, epoch=0, sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_garbage_raises_the_errors_of_a_batch_and_nothing_else(data: bytes) -> None:
    try:
        list(walk(memoryview(data)))
    except (CorruptBatch, UnsupportedFormat):
        pass

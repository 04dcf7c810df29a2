"""Records found side by side in many batches, compared with a reader of one number at a time."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import CorruptBatch
from chordmq.records.positions import SIDE_BY_SIDE_MIN, find_records, read_varints

SIZES = [7, 8, 63, 64, 150, 8191, 8192, 20_000]
"""Of records, around the edges where a size takes one byte more."""


def varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    found = bytearray()
    while raw > 0x7F:
        found.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes(found + bytes([raw]))


def laid_out(batches: list[list[int]]) -> tuple[bytearray, list[tuple[int, int]], list[int]]:
    """Return a buffer with records of these sizes, where each batch lies, and where records do."""
    data, sections, expected = bytearray(b"head"), [], []
    for sizes in batches:
        begin = len(data)
        for size in sizes:
            data += varint(size)
            expected += [len(data), len(data) + size]
            data += bytes([size & 0xFF]) * size
        sections.append((begin, len(data)))
        data += b"between"
    return data, sections, expected


def found(data: bytearray, sections: list[tuple[int, int]], counts: list[int]) -> list[int]:
    octets = np.frombuffer(data, dtype=np.uint8)
    begins, ends = np.array(sections, dtype=np.int64).reshape(-1, 2).T
    places = find_records(octets, begins, ends, np.array(counts, dtype=np.int64))
    return np.column_stack(places).ravel().tolist()


@pytest.mark.parametrize("batches", [1, SIDE_BY_SIDE_MIN - 1, SIDE_BY_SIDE_MIN, 100])
def test_records_of_any_size_are_found_in_batches_of_any_length(batches: int) -> None:
    chance = random.Random(batches)
    sizes = [chance.choices(SIZES, k=chance.choice([0, 1, 2, 5, 5, 40])) for _ in range(batches)]
    data, sections, expected = laid_out(sizes)
    assert found(data, sections, [len(one) for one in sizes]) == expected


@pytest.mark.parametrize("broken", [0, 17, SIDE_BY_SIDE_MIN])
def test_a_size_that_does_not_fit_is_corrupt_among_many_good_batches(broken: int) -> None:
    sizes = [[20, 30, 40] for _ in range(SIDE_BY_SIDE_MIN + 1)]
    data, sections, _ = laid_out(sizes)
    for wrong in (varint(29)[0], varint(31)[0], varint(-1)[0], 0xFF):
        damaged = bytearray(data)
        damaged[sections[broken][0] + 21] = wrong
        with pytest.raises((CorruptBatch, IndexError)):
            found(damaged, sections, [3] * len(sizes))


def test_a_batch_cannot_count_more_records_than_it_has_bytes_for() -> None:
    data, sections, _ = laid_out([[7, 7]])
    with pytest.raises(CorruptBatch):
        found(data, sections, [2**31 - 1])


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3), max_size=9))
def test_numbers_of_any_size_are_read_in_a_row(rows: list[list[int]]) -> None:
    data = bytearray()
    positions, following = [], []
    for row in rows:
        positions.append(len(data))
        for number in row:
            data += varint(number)
        following.append(len(data))
    octets = np.frombuffer(data + b"\0", dtype=np.uint8)
    numbers, after = read_varints(octets, np.array(positions, dtype=np.int64), 3)
    assert np.column_stack(numbers).tolist() == rows
    assert after.tolist() == following

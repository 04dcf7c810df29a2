"""Batches of a fetch become records, without what readers must not see."""

import pytest

from chordmq.client.fetcher import decode_batches
from chordmq.codecs.kafka.messages.fetch import AbortedTransaction
from chordmq.errors import CorruptBatch
from chordmq.records.batch import CONTROL, TRANSACTIONAL, place
from chordmq.records.record import NewRecord, build_batch


def batch(base: int, *values: bytes, flags: int = 0, producer_id: int = -1) -> bytes:
    records = [NewRecord(1_000, None, value) for value in values]
    built = build_batch(records, flags=flags, producer_id=producer_id, epoch=0, sequence=0)
    place(memoryview(built), 0, base, 0)
    return bytes(built)


def values(data: bytes, offset: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> object:
    rows = [AbortedTransaction(producer_id=one, first_offset=first) for one, first in aborted]
    records, following = decode_batches(memoryview(data), offset, rows)
    return [record.value for record in records], following


def test_records_before_the_wanted_offset_are_left_out() -> None:
    data = batch(0, b"a", b"b", b"c") + batch(3, b"d")
    assert values(data, 1) == ([b"b", b"c", b"d"], 4)


def test_a_last_batch_sent_in_part_is_left_for_the_next_fetch() -> None:
    whole, cut = batch(0, b"a"), batch(1, b"b" * 100)
    for length in (1, 20, len(cut) - 1):
        assert values(whole + cut[:length]) == ([b"a"], 1)


def test_markers_are_not_shown_but_passed() -> None:
    marker = batch(1, b"\0\0\0\0", flags=TRANSACTIONAL | CONTROL, producer_id=5)
    assert values(batch(0, b"a") + marker) == ([b"a"], 2)


def test_records_of_aborted_transactions_are_hidden() -> None:
    """A reader never sees an aborted record."""
    data = (
        batch(0, b"kept", flags=TRANSACTIONAL, producer_id=1)
        + batch(1, b"aborted", flags=TRANSACTIONAL, producer_id=2)
        + batch(2, b"plain")
        + batch(3, b"aborted too", flags=TRANSACTIONAL, producer_id=2)
        + batch(4, b"abort", flags=TRANSACTIONAL | CONTROL, producer_id=2)
        + batch(5, b"next transaction", flags=TRANSACTIONAL, producer_id=2)
    )
    assert values(data, 0, ((2, 1),)) == ([b"kept", b"plain", b"next transaction"], 6)


def test_a_damaged_batch_is_never_handed_out() -> None:
    """The client checks what it got, whatever the broker has checked."""
    data = bytearray(batch(0, b"a" * 50))
    data[-5] ^= 1
    with pytest.raises(CorruptBatch):
        values(bytes(data))

"""What nodes say about records of other nodes: bytes as recorded, any value, no garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.peer.reading import (
    Aborted,
    Answer,
    Outcome,
    Read,
    read_answer,
    read_cancel,
    read_read,
    write_answer,
    write_cancel,
    write_read,
)
from chordmq.errors import DecodeError
from chordmq.records.record import NewRecord, build_batch

TOPIC_ID = bytes(range(16))
longs = st.integers(-(2**63), 2**63 - 1)


def joined(answer: Answer) -> memoryview:
    return memoryview(b"".join(write_answer(answer)))


def test_the_bytes_are_those_of_the_first_version() -> None:
    read = write_read(Read(1, TOPIC_ID, 2, 3, 4, 5))
    assert read.hex() == (
        "0000000000000001" + TOPIC_ID.hex() + "00000002" + "0000000000000003" + "0000000400000005"
    )
    assert write_cancel(7).hex() == "0000000000000007"
    answer = Answer(1, Outcome.RECORDS, 2, 3, [Aborted(4, 5, 6)], [memoryview(b"ab")])
    assert bytes(joined(answer)).hex() == (
        "0000000000000001" "00" "0000000000000002" "0000000000000003" "00000001"
        "0000000000000004" "0000000000000005" "0000000000000006" "6162"
    )  # fmt: skip


@given(longs, st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1), longs)
def test_a_read_comes_out_as_it_went_in(
    number: int, topic_id: bytes, index: int, offset: int
) -> None:
    read = Read(number, topic_id, index, offset, 1 << 20, 9)
    assert read_read(memoryview(write_read(read))) == read
    assert read_cancel(memoryview(write_cancel(number))) == number


@given(
    st.sampled_from(Outcome),
    st.lists(st.builds(Aborted, longs, longs, longs), max_size=5),
    st.binary(max_size=50),
)
def test_an_answer_comes_out_as_it_went_in(
    outcome: Outcome, aborted: list[Aborted], records: bytes
) -> None:
    sent = Answer(1, outcome, 2, 3, aborted, [memoryview(records)] if records else [])
    got = read_answer(joined(sent))
    assert (got.number, got.outcome, got.start_offset, got.end_offset) == (1, outcome, 2, 3)
    assert list(got.aborted) == aborted
    assert b"".join(got.records) == records


@given(st.binary(max_size=100))
def test_garbage_raises_decode_error_and_nothing_else(data: bytes) -> None:
    for reads in (read_read, read_cancel, read_answer):
        try:
            reads(memoryview(data))
        except DecodeError:
            pass


def test_an_answer_that_is_cut_off_is_refused() -> None:
    whole = joined(Answer(1, Outcome.RECORDS, 0, 0, [Aborted(1, 2, 3)]))
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            read_answer(whole[:size])


def test_an_answer_says_where_to_read_on() -> None:
    batch = memoryview(build_batch([NewRecord(0, None, b"a"), NewRecord(0, None, b"b")]))
    assert Answer(1, Outcome.RECORDS, 0, 9, (), [batch]).next_offset == 2
    assert Answer(1, Outcome.RECORDS, 0, 9).next_offset == 9

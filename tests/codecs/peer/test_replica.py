"""Proves that what replicas say survives the wire, and that broken bytes are refused."""

import pytest

from chordmq.codecs.peer.replica import (
    Answer,
    Fetch,
    Outcome,
    Place,
    read_answers,
    read_fetches,
    write_answers,
    write_fetches,
)
from chordmq.errors import DecodeError

ONE, TWO = Place(b"0123456789abcdef", 0), Place(b"fedcba9876543210", 9_999)


def test_fetches_come_back_as_they_were_written() -> None:
    rows = [(ONE, Fetch(2**40, 7, 2**35, 6)), (TWO, Fetch(1, 0, 0, -1))]
    assert list(read_fetches(memoryview(write_fetches(rows)))) == rows


def test_answers_come_back_as_they_were_written() -> None:
    records = [memoryview(b"batch one"), memoryview(b"batch two")]
    rows = [
        (ONE, Answer(2**40, 7, Outcome.RECORDS, 12, 3, records=records)),
        (TWO, Answer(2, 0, Outcome.DIVERGED, 0, 0, -1, 5)),
    ]
    read = list(read_answers(memoryview(b"".join(write_answers(rows)))))
    assert [place for place, _ in read] == [ONE, TWO]
    assert b"".join(read[0][1].records) == b"batch onebatch two"
    assert read[1][1] == rows[1][1]


def test_what_is_cut_off_is_refused() -> None:
    fetches = write_fetches([(ONE, Fetch(1, 2, 3, 4))])
    with pytest.raises(DecodeError):
        list(read_fetches(memoryview(fetches[:-1])))
    answers = b"".join(
        write_answers([(ONE, Answer(1, 2, Outcome.RECORDS, records=[memoryview(b"batch")]))])
    )
    for size in range(1, len(answers)):
        with pytest.raises(DecodeError):
            list(read_answers(memoryview(answers[:size])))

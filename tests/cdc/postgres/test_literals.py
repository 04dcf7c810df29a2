"""Values of PostgreSQL as JSON: the same as those that are read and then written."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cdc.postgres.literals import writer_of
from chordmq.cdc.postgres.values import number, text, timestamp_us, truth


@given(st.integers())
def test_a_whole_number_is_told_as_it_comes(value: int) -> None:
    assert json.loads(writer_of(int)(str(value).encode())) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_floating_point_number_stays_one(value: float) -> None:
    told = json.loads(writer_of(number)(f"{value:.17g}".encode()))
    assert isinstance(told, float)
    assert told == value
    assert math.copysign(1, told) == math.copysign(1, value)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_a_text(word: str) -> None:
    assert json.loads(writer_of(number)(word.encode())) == word


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_is_told_with_all_its_signs(value: str) -> None:
    assert json.loads(writer_of(text)(value.encode())) == value


def test_other_values_are_read_and_then_written() -> None:
    assert [writer_of(truth)(one) for one in (b"t", b"f")] == [b"true", b"false"]
    assert writer_of(timestamp_us)(b"1970-01-01 00:00:01") == b"1000000"

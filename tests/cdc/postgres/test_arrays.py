"""PostgreSQL's arrays as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cdc.errors import Malformed
from chordmq.cdc.postgres.arrays import read_array


def test_elements_can_be_quoted_null_and_nested() -> None:
    assert read_array(b'{"a,b","c\\"d",NULL,"NULL",""}', bytes.decode) == [
        "a,b", 'c"d', None, "NULL", "",
    ]  # fmt: skip
    assert read_array(b"{{1,2},{3,4}}", int) == [[1, 2], [3, 4]]
    assert read_array(b"{}", int) == []


def test_bounds_before_an_array_are_passed_over() -> None:
    assert read_array(b"[0:1]={5,6}", int) == [5, 6]


@given(st.lists(st.one_of(st.none(), st.text())))
def test_what_is_quoted_is_read_back(values: list[str | None]) -> None:
    quoted = [
        "NULL" if one is None else '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for one in values
    ]
    assert read_array(("{" + ",".join(quoted) + "}").encode(), bytes.decode) == values


@given(st.binary(max_size=30))
def test_garbage_raises_malformed_and_nothing_else(data: bytes) -> None:
    try:
        read_array(data, bytes)
    except Malformed:
        return


def test_an_array_without_its_end_is_malformed() -> None:
    with pytest.raises(Malformed):
        read_array(b"{1,2", int)

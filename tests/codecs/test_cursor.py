"""Tests of reading numbers of variable length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.cursor import read_uvarint
from chordmq.errors import DecodeError
from chordmq.records.varint import uvarint


@given(st.integers(0, 2**35 - 1))
def test_numbers_come_back_with_the_position_after_them(number: int) -> None:
    wire = uvarint(number)
    assert read_uvarint(b"ab" + wire + b"c", 2) == (number, 2 + len(wire))


@pytest.mark.parametrize("wire", [b"", b"\x80", b"\xff\xff\xff\xff", b"\x80" * 5, b"\xff" * 20])
def test_a_number_that_does_not_end_is_refused(wire: bytes) -> None:
    """C12: a number is at most five bytes long and never runs past the message."""
    with pytest.raises(DecodeError):
        read_uvarint(wire, 0)

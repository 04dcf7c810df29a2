"""Tests of numbers of variable length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.records.varint import SMALL, UVARINTS, uvarint, varint


@pytest.mark.parametrize(
    ("number", "wire"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned_numbers_take_seven_bits_a_byte(number: int, wire: str) -> None:
    assert uvarint(number).hex() == wire


@pytest.mark.parametrize(
    ("number", "wire"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
    ],
)
def test_signed_numbers_are_short_on_both_sides_of_zero(number: int, wire: str) -> None:
    assert varint(number).hex() == wire


@given(st.integers(0, SMALL - 1))
def test_the_table_holds_what_the_function_returns(number: int) -> None:
    assert UVARINTS[number] == uvarint(number)

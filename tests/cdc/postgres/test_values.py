"""PostgreSQL's values as Debezium tells them."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.cdc.postgres.values import Type, placeholder, reader_of, unscaled

TYPES = {
    1: Type("int4"),
    2: Type("numeric"),
    3: Type("money"),
    4: Type("timestamp"),
    5: Type("bytea"),
    6: Type("_int4", element=1, category="A"),
    7: Type("positive", kind="d", base=1),
    8: Type("mood", kind="e"),
    9: Type("box"),
    10: Type("price", kind="d", base=2, modifier=(10 << 16 | 2) + 4),
    11: Type("_bytea", element=5, category="A"),
    12: Type("date"),
    13: Type("timestamptz"),
    14: Type("interval"),
    15: Type("bit"),
}


def read(oid: int, data: bytes, modifier: int = -1, decimals: str = "precise") -> Any:
    reader = reader_of(oid, modifier, TYPES, decimals)
    assert reader is not None
    return reader(data)


@pytest.mark.parametrize(
    ("oid", "data", "value"),
    [
        (1, b"-5", -5),
        (2, b"1234.5678", {"scale": 4, "value": "ALxhTg=="}),
        (2, b"NaN", None),
        (3, b"$1,234.56", "AeJA"),
        (3, b"-$5.00", "/gw="),
        (4, b"1969-12-31 23:59:59.5", -500_000),
        (4, b"infinity", 9223372036825200000),
        (6, b"{{1,NULL},{3,4}}", [[1, None], [3, 4]]),
        (7, b"7", 7),
        (8, b"happy", "happy"),
        (10, b"12.34", "BNI="),
        (12, b"infinity", 2**31 - 1),
        (13, b"2024-02-29 10:34:56+00", "2024-02-29T10:34:56.000000Z"),
        (14, b"-1 days -00:00:01", -86_401_000_000),
        (14, b"1 year 2 mons", 36_817_200_000_000),
        (15, b"0000", ""),
    ],
)
def test_values_are_told_as_debezium_tells_them(oid: int, data: bytes, value: Any) -> None:
    assert read(oid, data) == value


def test_decimal_numbers_can_be_texts_or_floating() -> None:
    assert read(2, b"1.50", decimals="string") == "1.50"
    assert read(3, b"($5.00)", decimals="string") == "-5.00"
    assert read(2, b"1.50", decimals="double") == 1.5
    assert read(2, b"NaN", decimals="double") == "NaN"


def test_times_of_few_digits_are_in_milliseconds() -> None:
    assert read(4, b"2024-02-29 12:34:56.789", modifier=3) == 1709210096789
    assert read(4, b"2024-02-29 12:34:56.789012", modifier=6) == 1709210096789012


def test_types_that_debezium_leaves_out_are_left_out() -> None:
    assert reader_of(9, -1, TYPES, "precise") is None
    assert reader_of(99, -1, TYPES, "precise") is None


def test_what_was_not_sent_has_a_placeholder_of_its_type() -> None:
    assert placeholder(8, TYPES) == "__debezium_unavailable_value"
    assert placeholder(5, TYPES) == "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    assert placeholder(11, TYPES) == ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20
    )
)
def test_the_digits_of_a_number_are_one_big_integer(value: Decimal) -> None:
    from base64 import b64decode

    digits = int.from_bytes(b64decode(unscaled(value, 3)), "big", signed=True)
    assert Decimal(digits).scaleb(-3) == value

"""Field tables: what pamqp reads is what was written, in its order and precision."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.amqp.tables import read_table, write_table
from chordmq.errors import DecodeError

VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20).map(bytearray)
    | st.integers(0, 4_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=5))
def test_tables_come_back_in_their_order(table: dict[str, Any]) -> None:
    found = read_table(write_table(table)[4:])
    assert found == table
    assert list(found) == list(table)


def test_bytes_that_are_no_text_and_decimals_come_back() -> None:
    table = {"bytes": b"\xff\xfe", "decimal": Decimal("1.25"), "whole": Decimal(3)}
    assert read_table(write_table(table)[4:]) == table


def test_what_a_table_cannot_hold_is_our_own_mistake() -> None:
    with pytest.raises(TypeError):
        write_table({"what": object()})


@given(st.binary(max_size=80))
def test_garbage_raises_decode_error_and_nothing_else(data: bytes) -> None:
    try:
        read_table(data)
    except DecodeError:
        pass


def test_tables_that_nest_too_deep_raise_decode_error() -> None:
    data = b""
    for _ in range(3000):
        data = b"\x01aF" + len(data).to_bytes(4, "big") + data
    with pytest.raises(DecodeError):
        read_table(data)

"""The type system of AMQP 1.0 against proton's, in both directions, and whatever is no value."""

import uuid
from contextlib import suppress
from typing import Any

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.amqp1.values import (
    DEPTH_MAX,
    Described,
    Opaque,
    Symbol,
    Timestamp,
    Ulong,
    read_value,
    skip_value,
    symbols,
    write_value,
)
from chordmq.errors import DecodeError

UNDESCRIBED: Any = proton.UNDESCRIBED
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.binary(max_size=300)
    | st.floats(allow_nan=False)
    | st.uuids()
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def as_proton_reads(data: bytes) -> Any:
    """Return what proton makes of a value."""
    decoder = proton.Data()
    assert decoder.decode(data) == len(data)
    decoder.rewind()
    decoder.next()
    return plain(decoder.get_object())  # bytes lie in memory that goes with the decoder


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    data = write_value(value)
    assert read_value(data, 0) == (value, len(data))
    assert skip_value(data, 0) == len(data)


@given(VALUES)
def test_proton_understands_what_is_written(value: Any) -> None:
    assert as_proton_reads(write_value(value)) == value


def plain(value: Any) -> Any:
    """Return a value of proton's without its own types."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (proton.ubyte(200), 200),
        (proton.byte(-5), -5),
        (proton.ushort(60_000), 60_000),
        (proton.short(-300), -300),
        (proton.uint(0), 0),
        (proton.uint(70), 70),
        (proton.uint(2**32 - 1), 2**32 - 1),
        (proton.int32(-(2**31)), -(2**31)),
        (proton.ulong(0), 0),
        (proton.ulong(2**64 - 1), 2**64 - 1),
        (proton.float32(1.5), 1.5),
        (proton.char("ü"), "ü"),
        (proton.timestamp(1_700_000_000_123), Timestamp(1_700_000_000_123)),
        (proton.decimal32(5), Opaque(0x74, b"\0\0\0\5")),
        (proton.symbol("a:b"), Symbol("a:b")),
        (uuid.UUID(int=7), uuid.UUID(int=7)),
        (proton.Described(proton.symbol("d"), "v"), Described(Symbol("d"), "v")),
        (proton.Array(UNDESCRIBED, proton.Data.INT, 1, -2), [1, -2]),
        (proton.Array("d", proton.Data.INT, 1), [Described("d", 1)]),
        (proton.Array(UNDESCRIBED, proton.Data.LIST, [1], ["a"]), [[1], ["a"]]),
        ("x" * 300, "x" * 300),
    ],
)
def test_every_type_that_proton_writes_is_read(written: Any, read: Any) -> None:
    encoder = proton.Data()
    encoder.put_object(written)
    data = bytes(encoder.encode())
    found, end = read_value(data, 0)
    assert (found, type(found), end) == (read, type(read), len(data))
    assert skip_value(data, 0) == len(data)


def test_symbols_are_an_array() -> None:
    data = symbols(["a", "bc"])
    assert read_value(data, 0)[0] == ["a", "bc"]
    assert list(as_proton_reads(data).elements) == ["a", "bc"]


def test_types_that_python_does_not_tell_apart_are_kept_apart() -> None:
    for value in (Ulong(5), Timestamp(5), Opaque(0x84, bytes(8))):
        data = write_value(value)
        assert read_value(data, 0)[0] == value
        assert type(as_proton_reads(data)) is not int


@given(st.binary(max_size=60))
def test_whatever_comes_is_a_value_or_refused(data: bytes) -> None:
    with suppress(DecodeError):
        _, end = read_value(data, 0)
        assert 0 < end <= len(data)
        assert skip_value(data, 0) == end


@given(VALUES, st.data())
def test_a_value_that_is_cut_is_refused(value: Any, data: st.DataObject) -> None:
    whole = write_value(value)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(DecodeError):
        read_value(cut, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xb0\xff\xff\xff\xffx",
        b"\xc1\x02\x01\x40",
        b"\xc1\x03\x02\x45\x40",
        b"\x56\x02",
        b"\x73\xff\xff\xff\xff",
        b"\xa1\x01\xff",
        b"\xa3\x01\xff",
        b"\x3f",
    ],
)
def test_what_is_announced_must_be_there_and_make_sense(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_value(data, 0)


def test_values_within_each_other_have_an_end() -> None:
    data = write_value("x")
    for _ in range(DEPTH_MAX + 1):
        data = b"\xd0" + (len(data) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + data
    with pytest.raises(DecodeError, match="within each other"):
        read_value(data, 0)
    with pytest.raises(DecodeError):
        read_value(b"\x00" * 1000 + b"\x40", 0)

"""Field tables: read by pamqp, written here so that order, precision and bytes stay as they are."""

import struct
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from pamqp import decode
from pamqp.exceptions import PAMQPException

from chordmq.errors import DecodeError

Table = Mapping[str, Any]

FAULTS = (
    PAMQPException,
    struct.error,
    UnicodeError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OverflowError,
    OSError,
    RecursionError,
)
"""What pamqp raises when bytes are not what they should be."""

_SIZE = struct.Struct(">I")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")


def read_table(data: bytes) -> Table:
    """Return a table without its length; raise DecodeError if it is none."""
    try:
        return decode.field_table(_SIZE.pack(len(data)) + data)[1]
    except FAULTS as fault:
        raise DecodeError(f"a table cannot be read: {fault}") from fault


def write_table(table: Table) -> bytes:
    """Return a table with its length before it."""
    body = b"".join(_short(name) + _value(value) for name, value in table.items())
    return _SIZE.pack(len(body)) + body


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


def _value(value: Any) -> bytes:
    if value is None:
        return b"V"
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return bytes(write(value))
    raise TypeError(f"a table cannot hold {value!r}")


def _integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"I" + _INT.pack(value)
    return b"l" + _LONG.pack(value)


def _long(mark: bytes, data: bytes) -> bytes:
    return mark + _SIZE.pack(len(data)) + data


def _decimal(value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    number = int(value.scaleb(scale))
    return b"D" + bytes((scale,)) + _INT.pack(number)


_WRITERS: tuple[tuple[Any, Any], ...] = (
    (str, lambda value: _long(b"S", value.encode())),
    (bool, lambda value: b"t\x01" if value else b"t\x00"),
    (int, _integer),
    (float, lambda value: b"d" + _DOUBLE.pack(value)),
    (bytearray, lambda value: _long(b"x", bytes(value))),
    (bytes, lambda value: _long(b"S", value)),  # a long string that is no UTF-8
    (datetime, lambda value: b"T" + _LONG.pack(int(value.timestamp()))),
    (Mapping, lambda value: b"F" + write_table(value)),
    (list, lambda value: _long(b"A", b"".join(map(_value, value)))),
    (Decimal, _decimal),
)

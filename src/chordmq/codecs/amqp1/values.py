"""The type system of AMQP 1.0: values to bytes and back.

A value is a constructor byte and its data. The high half of the constructor says how wide the data
is, so that values nobody looks at are passed over without being read.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from chordmq.errors import DecodeError

DEPTH_MAX = 16
"""Values within values."""
NULL = b"\x40"
EMPTY_LIST = b"\x45"
DESCRIBED = 0x00

_U8 = struct.Struct(">B")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")
_LIST = struct.Struct(">BII")
_WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
"""Bytes of data by the high half of the constructor."""


class Symbol(str):
    """A name that protocols have agreed on, in ASCII."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970."""

    __slots__ = ()


class Ulong(int):
    """A number that is not to become a signed one."""

    __slots__ = ()


class Opaque(NamedTuple):
    """A value of a type that Python does not have, as it came: a decimal."""

    code: int
    data: bytes


class Described(NamedTuple):
    """A value that a descriptor gives a meaning."""

    descriptor: Any
    value: Any


def read_value(data: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    """Return the value that begins at a place, and where it ends; raise DecodeError."""
    try:
        return _read(data, at, depth)
    except (struct.error, IndexError, UnicodeError, ValueError, OverflowError) as fault:
        raise DecodeError(f"a value cannot be read: {fault}") from fault


def skip_value(data: bytes, at: int) -> int:
    """Return where the value ends that begins at a place; raise DecodeError if it does not."""
    try:
        for _ in range(DEPTH_MAX):
            if data[at] != DESCRIBED:
                break
            at = _end(data, at + 1)
        end = _end(data, at)
    except (struct.error, IndexError) as fault:
        raise DecodeError(f"a value ends too early: {fault}") from fault
    if end > len(data):
        raise DecodeError("a value ends too early")
    return end


def _end(data: bytes, at: int) -> int:
    code = data[at]
    width = _WIDTHS.get(code >> 4)
    if width is not None:
        return at + 1 + width
    if code >> 4 in (0xA, 0xC, 0xE):
        return at + 2 + data[at + 1]
    if code >> 4 in (0xB, 0xD, 0xF):
        return at + 5 + int(_U32.unpack_from(data, at + 1)[0])
    raise DecodeError(f"no value begins with {code:#x}")


def _read(data: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    code = data[at]
    reader = _READERS.get(code)
    if reader is not None:
        return reader(data, at + 1)
    if depth >= DEPTH_MAX:
        raise DecodeError(f"more than {DEPTH_MAX} values within each other")
    if code == DESCRIBED:
        descriptor, at = _read(data, at + 1, depth + 1)
        value, at = _read(data, at, depth + 1)
        return Described(descriptor, value), at
    nested = _NESTED.get(code)
    if nested is None:
        raise DecodeError(f"no value begins with {code:#x}")
    return nested(data, at + 1, depth + 1)


def _fixed(layout: str, data: bytes, at: int) -> tuple[Any, int]:
    form = _FORMS[layout]
    return form.unpack_from(data, at)[0], at + form.size


_FORMS = {layout: struct.Struct(">" + layout) for layout in "BHIQbhiqfd"}


def _u8(data: bytes, at: int) -> tuple[int, int]:
    return data[at], at + 1


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    if data[at] > 1:
        raise DecodeError(f"{data[at]:#x} is neither true nor false")
    return data[at] == 1, at + 1


def _uuid(data: bytes, at: int) -> tuple[UUID, int]:
    return UUID(bytes=data[at : at + 16]), at + 16


def _char(data: bytes, at: int) -> tuple[str, int]:
    return chr(_U32.unpack_from(data, at)[0]), at + 4


def _timestamp(data: bytes, at: int) -> tuple[Timestamp, int]:
    return Timestamp(_I64.unpack_from(data, at)[0]), at + 8


def _opaque(code: int, width: int, data: bytes, at: int) -> tuple[Opaque, int]:
    if at + width > len(data):
        raise DecodeError("a value ends too early")
    return Opaque(code, data[at : at + width]), at + width


def _sized8(make: Callable[[bytes], Any], data: bytes, at: int) -> tuple[Any, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise DecodeError("a value ends too early")
    return make(data[at + 1 : end]), end


def _sized32(make: Callable[[bytes], Any], data: bytes, at: int) -> tuple[Any, int]:
    end = at + 4 + int(_U32.unpack_from(data, at)[0])
    if end > len(data):
        raise DecodeError("a value ends too early")
    return make(data[at + 4 : end]), end


def _symbol(data: bytes) -> Symbol:
    return Symbol(data, "ascii")


def _text(data: bytes) -> str:
    return data.decode()


def _bounds(form: struct.Struct, data: bytes, at: int) -> tuple[int, int, int]:
    """Return where a compound's items begin, where it ends, and how many there are."""
    size, width = form.unpack_from(data, at)[0], form.size
    count = form.unpack_from(data, at + width)[0]
    end = at + width + size
    if end > len(data) or size < width or count > size:
        raise DecodeError("a compound value ends too early")
    return at + 2 * width, end, count


def _list(form: struct.Struct, data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    at, end, count = _bounds(form, data, at)
    items = []
    for _ in range(count):
        item, at = _read(data, at, depth)
        items.append(item)
    if at != end:
        raise DecodeError("a list has another size than it says")
    return items, end


def _map(form: struct.Struct, data: bytes, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    at, end, count = _bounds(form, data, at)
    if count % 2:
        raise DecodeError("a map has a key without a value")
    items: dict[Any, Any] = {}
    for _ in range(count // 2):
        key, at = _read(data, at, depth)
        value, at = _read(data, at, depth)
        try:
            items[key] = value
        except TypeError:
            raise DecodeError("a map's key is a compound value") from None
    if at != end:
        raise DecodeError("a map has another size than it says")
    return items, end


def _array(form: struct.Struct, data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    at, end, count = _bounds(form, data, at)
    descriptor = None
    is_described = data[at] == DESCRIBED
    if is_described:
        descriptor, at = _read(data, at + 1, depth)
    code, at = data[at], at + 1
    if _WIDTHS.get(code >> 4) == 0 and count > end - at:
        raise DecodeError("an array of values without data is too long")
    items: list[Any] = []
    for _ in range(count):
        item, at = _item(code, data, at, depth)
        items.append(Described(descriptor, item) if is_described else item)
    if at != end:
        raise DecodeError("an array has another size than it says")
    return items, end


def _item(code: int, data: bytes, at: int, depth: int) -> tuple[Any, int]:
    reader = _READERS.get(code)
    if reader is not None:
        return reader(data, at)
    if code not in _NESTED or depth >= DEPTH_MAX:
        raise DecodeError(f"an array cannot have items of the type {code:#x}")
    return _NESTED[code](data, at, depth + 1)


_READERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    0x40: lambda data, at: (None, at),
    0x41: lambda data, at: (True, at),
    0x42: lambda data, at: (False, at),
    0x43: lambda data, at: (0, at),
    0x44: lambda data, at: (0, at),
    0x45: lambda data, at: ([], at),
    0x50: _u8,
    0x51: partial(_fixed, "b"),
    0x52: _u8,
    0x53: _u8,
    0x54: partial(_fixed, "b"),
    0x55: partial(_fixed, "b"),
    0x56: _boolean,
    0x60: partial(_fixed, "H"),
    0x61: partial(_fixed, "h"),
    0x70: partial(_fixed, "I"),
    0x71: partial(_fixed, "i"),
    0x72: partial(_fixed, "f"),
    0x73: _char,
    0x74: partial(_opaque, 0x74, 4),
    0x80: partial(_fixed, "Q"),
    0x81: partial(_fixed, "q"),
    0x82: partial(_fixed, "d"),
    0x83: _timestamp,
    0x84: partial(_opaque, 0x84, 8),
    0x94: partial(_opaque, 0x94, 16),
    0x98: _uuid,
    0xA0: partial(_sized8, bytes),
    0xA1: partial(_sized8, _text),
    0xA3: partial(_sized8, _symbol),
    0xB0: partial(_sized32, bytes),
    0xB1: partial(_sized32, _text),
    0xB3: partial(_sized32, _symbol),
}

_NESTED: dict[int, Callable[[bytes, int, int], tuple[Any, int]]] = {
    0xC0: partial(_list, _U8),
    0xD0: partial(_list, _U32),
    0xC1: partial(_map, _U8),
    0xD1: partial(_map, _U32),
    0xE0: partial(_array, _U8),
    0xF0: partial(_array, _U32),
}


# To bytes.


def boolean(value: bool) -> bytes:
    """Return true or false."""
    return b"\x41" if value else b"\x42"


def ubyte(value: int) -> bytes:
    """Return a number of one byte."""
    return b"\x50" + _U8.pack(value)


def ushort(value: int) -> bytes:
    """Return a number of two bytes."""
    return b"\x60" + _U16.pack(value)


def uint(value: int) -> bytes:
    """Return a number of four bytes, in fewer if it is small."""
    if not value:
        return b"\x43"
    return b"\x52" + _U8.pack(value) if value < 256 else b"\x70" + _U32.pack(value)


def ulong(value: int) -> bytes:
    """Return a number of eight bytes, in fewer if it is small."""
    if not value:
        return b"\x44"
    return b"\x53" + _U8.pack(value) if value < 256 else b"\x80" + _U64.pack(value)


def binary(value: bytes) -> bytes:
    """Return bytes."""
    return _sized(0xA0, value)


def text(value: str) -> bytes:
    """Return a text."""
    return _sized(0xA1, value.encode())


def symbol(value: str) -> bytes:
    """Return a symbol."""
    return _sized(0xA3, value.encode("ascii", "replace"))


def symbols(values: Iterable[str]) -> bytes:
    """Return an array of symbols."""
    items = [one.encode("ascii", "replace") for one in values]
    body = b"\xb3" + b"".join(_U32.pack(len(one)) + one for one in items)
    return _LIST.pack(0xF0, len(body) + 4, len(items)) + body


def _sized(code: int, data: bytes) -> bytes:
    size = len(data)
    if size < 256:
        return bytes((code, size)) + data
    return bytes((code + 0x10,)) + _U32.pack(size) + data


def compound(code: int, count: int, body: bytes) -> bytes:
    """Return a list (0xC0) or map (0xC1) with such items."""
    size = len(body)
    if size < 255 and count < 256:
        return bytes((code, size + 1, count)) + body
    return _LIST.pack(code + 0x10, size + 4, count) + body


def items(values: Iterable[bytes]) -> bytes:
    """Return a list of values that are bytes already; null at its end is left out."""
    parts = list(values)
    while parts and parts[-1] == NULL:
        parts.pop()
    return compound(0xC0, len(parts), b"".join(parts)) if parts else EMPTY_LIST


def described(code: int, value: bytes) -> bytes:
    """Return a value with a descriptor."""
    return b"\x00" + ulong(code) + value


def mapping(values: Mapping[Any, Any]) -> bytes:
    """Return a map."""
    parts = [write_value(one) for item in values.items() for one in item]
    return compound(0xC1, len(parts), b"".join(parts))


def write_value(value: Any) -> bytes:
    """Return any value as bytes; raise TypeError for what has none."""
    if value is None:
        return NULL
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return bytes(write(value))
    raise TypeError(f"{value!r} cannot be said in AMQP 1.0")


def _number(value: int) -> bytes:
    if -128 <= value < 128:
        return b"\x55" + struct.pack(">b", value)
    return b"\x81" + _I64.pack(value) if value < 2**63 else ulong(value)


_WRITERS: tuple[tuple[Any, Callable[[Any], bytes]], ...] = (
    (Symbol, symbol),
    (str, text),
    (bool, boolean),
    (Timestamp, lambda value: b"\x83" + _I64.pack(value)),
    (Ulong, ulong),
    (int, _number),
    (bytes | bytearray, lambda value: binary(bytes(value))),
    (float, lambda value: b"\x82" + _DOUBLE.pack(value)),
    (UUID, lambda value: b"\x98" + value.bytes),
    (Opaque, lambda value: bytes((value.code,)) + value.data),
    (Described, lambda one: b"\x00" + write_value(one.descriptor) + write_value(one.value)),
    (Mapping, mapping),
    (list | tuple, lambda value: compound(0xC0, len(value), b"".join(map(write_value, value)))),
)

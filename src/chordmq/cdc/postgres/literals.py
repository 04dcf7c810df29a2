"""Values of PostgreSQL as JSON, straight from their text where that says the same (pure)."""

from collections.abc import Callable

import msgspec

from chordmq.cdc.change import Json
from chordmq.cdc.postgres.values import Reader, number, text, truth

Writer = Callable[[bytes], Json]
"""Turns a value's text into what the event shows, as JSON."""

_encode = msgspec.json.Encoder().encode
_NOT_FINITE = {one: b'"%b"' % one for one in (b"NaN", b"Infinity", b"-Infinity")}


def writer_of(read: Reader) -> Writer:
    """Return how values are written that a reader can read."""
    direct = _DIRECT.get(read)
    return direct if direct is not None else lambda data: _encode(read(data))


def _text(data: bytes) -> Json:
    return _encode(data.decode())


def _truth(data: bytes) -> Json:
    return b"true" if data == b"t" else b"false"


def _number(data: bytes) -> Json:
    """Write a floating-point number so that everybody reads it as one."""
    if b"." in data or b"e" in data:
        return data
    return _NOT_FINITE.get(data) or data + b".0"


_DIRECT: dict[Reader, Writer] = {int: bytes, text: _text, truth: _truth, number: _number}
"""Whole numbers are JSON as they come."""

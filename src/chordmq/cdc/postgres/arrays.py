"""Arrays of PostgreSQL, from their text form `{1,NULL,"a b"}` to lists (pure)."""

from collections.abc import Callable
from typing import Any

from chordmq.cdc.errors import Malformed


def read_array(data: bytes, read: Callable[[bytes], Any]) -> list[Any]:
    """Return an array as a list, of lists where it has several dimensions."""
    start = data.find(b"=") + 1 if data.startswith(b"[") else 0  # bounds, such as [0:2]=
    try:
        values, end = _list(data, start, read)
    except IndexError:
        raise Malformed("an array is cut short") from None
    if end != len(data):
        raise Malformed("something follows an array")
    return values


def _list(data: bytes, at: int, read: Callable[[bytes], Any]) -> tuple[list[Any], int]:
    if data[at] != ord("{"):
        raise Malformed("an array does not begin with a brace")
    at += 1
    values: list[Any] = []
    while data[at] != ord("}"):
        if data[at] == ord(","):
            at += 1
        value: Any
        if data[at] == ord("{"):
            value, at = _list(data, at, read)
        elif data[at] == ord('"'):
            quoted, at = _quoted(data, at + 1)
            value = read(quoted)
        else:
            bare, at = _bare(data, at)
            value = None if bare == b"NULL" else read(bare)
        values.append(value)
    return values, at + 1


def _quoted(data: bytes, at: int) -> tuple[bytes, int]:
    out = bytearray()
    while data[at] != ord('"'):
        if data[at] == ord("\\"):
            at += 1
        out.append(data[at])
        at += 1
    return bytes(out), at + 1


def _bare(data: bytes, at: int) -> tuple[bytes, int]:
    start = at
    while data[at] not in b",}":
        at += 1
    return data[start:at], at

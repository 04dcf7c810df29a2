"""The messages of PostgreSQL's output plugin `pgoutput`, version 1, as values (pure)."""

from collections.abc import Callable
from struct import Struct, error
from typing import NamedTuple

from chordmq.cdc.errors import Malformed

EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts from the year 2000."""

Raw = bytes | None
"""A value as text, or NULL."""


class Unchanged:
    """Stands for a large value that an update has left alone, and that is not sent therefore."""

    def __repr__(self) -> str:
        return "unchanged"


UNCHANGED = Unchanged()

Tuple = list[bytes | Unchanged | None]


class Column(NamedTuple):
    """A column of a table as it was when the rows that follow were written."""

    name: str
    type_oid: int
    modifier: int
    in_identity: bool


class Relation(NamedTuple):
    """A table; it is told before its first row, and again after it was altered."""

    oid: int
    schema: str
    table: str
    identity: str
    """d the primary key, n nothing, f the whole row, i an index."""
    columns: tuple[Column, ...]


class Begin(NamedTuple):
    """A transaction begins; all that follows up to Commit belongs to it."""

    final_lsn: int
    time_us: int
    xid: int


class Commit(NamedTuple):
    """A transaction ends."""

    lsn: int
    end_lsn: int
    time_us: int


class Insert(NamedTuple):
    """A new row."""

    relation: int
    new: Tuple


class Update(NamedTuple):
    """A changed row; of the old one the identity (K) or all (O) is known, or nothing."""

    relation: int
    old_kind: str
    old: Tuple | None
    new: Tuple


class Delete(NamedTuple):
    """A row that is gone."""

    relation: int
    old_kind: str
    old: Tuple


class Truncate(NamedTuple):
    """Tables that were emptied."""

    relations: tuple[int, ...]


class Message(NamedTuple):
    """What an application has put into the log by `pg_logical_emit_message`."""

    lsn: int
    prefix: str
    content: bytes


class Other(NamedTuple):
    """A message that says nothing about rows: the origin of a transaction, or a type's name."""

    kind: str


Decoded = Relation | Begin | Commit | Insert | Update | Delete | Truncate | Message | Other

_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_U32 = Struct(">I")
_U16 = Struct(">H")
_size_at = _U32.unpack_from
_COLUMN = Struct(">Ii")
_MESSAGE = Struct(">BQ")
_NULL, _UNCHANGED, _TEXT = b"nut"


def decode(data: bytes) -> Decoded:
    """Return one message, or raise Malformed."""
    reader = READERS.get(data[:1])
    if reader is None:
        raise Malformed(f"pgoutput sent a message of the unknown kind {data[:1]!r}")
    try:
        return reader(data)
    except (error, IndexError, ValueError) as fault:
        raise Malformed(f"pgoutput sent a {data[:1].decode()} that is cut short: {fault}") from None


def _begin(data: bytes) -> Begin:
    lsn, time_us, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, time_us + EPOCH_US, xid)


def _commit(data: bytes) -> Commit:
    _, lsn, end_lsn, time_us = _COMMIT.unpack_from(data, 1)
    return Commit(lsn, end_lsn, time_us + EPOCH_US)


def _relation(data: bytes) -> Relation:
    (oid,) = _U32.unpack_from(data, 1)
    schema, at = _text(data, 5)
    table, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _U16.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        name, at = _text(data, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(data, at)
        at += _COLUMN.size
        columns.append(Column(name, type_oid, modifier, bool(flags & 1)))
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _insert(data: bytes) -> Insert:
    _expect(data, 5, b"N")
    new, _ = _tuple(data, 6)
    return Insert(_U32.unpack_from(data, 1)[0], new)


def _update(data: bytes) -> Update:
    (relation,) = _U32.unpack_from(data, 1)
    kind = chr(data[5])
    if kind == "N":
        return Update(relation, "", None, _tuple(data, 6)[0])
    _expect(data, 5, b"KO")
    old, at = _tuple(data, 6)
    _expect(data, at, b"N")
    return Update(relation, kind, old, _tuple(data, at + 1)[0])


def _delete(data: bytes) -> Delete:
    _expect(data, 5, b"KO")
    return Delete(_U32.unpack_from(data, 1)[0], chr(data[5]), _tuple(data, 6)[0])


def _truncate(data: bytes) -> Truncate:
    (count,) = _U32.unpack_from(data, 1)
    if len(data) != 6 + 4 * count:
        raise ValueError("the list of tables is not as long as it says")
    return Truncate(tuple(_U32.unpack_from(data, 6 + 4 * i)[0] for i in range(count)))


def _message(data: bytes) -> Message:
    _, lsn = _MESSAGE.unpack_from(data, 1)
    prefix, at = _text(data, 10)
    (size,) = _U32.unpack_from(data, at)
    return Message(lsn, prefix, _slice(data, at + 4, size))


def _other(data: bytes) -> Other:
    return Other(chr(data[0]))


def _tuple(data: bytes, at: int) -> tuple[Tuple, int]:
    (count,) = _U16.unpack_from(data, at)
    at += 2
    values: Tuple = []
    add, size_at = values.append, _size_at
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + size_at(data, at + 1)[0]
            add(data[start:at])
            continue
        at += 1
        if kind == _NULL:
            add(None)
        elif kind == _UNCHANGED:
            add(UNCHANGED)
        else:
            raise ValueError(f"a value is of the unknown kind {chr(kind)!r}")
    if at > len(data):
        raise ValueError("a value is longer than its message")
    return values, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("a value is longer than its message")
    return data[at : at + size]


def _expect(data: bytes, at: int, kinds: bytes) -> None:
    if data[at] not in kinds:
        raise ValueError(f"a row begins with {chr(data[at])!r}")


READERS: dict[bytes, Callable[[bytes], Decoded]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _message,
    b"O": _other,
    b"Y": _other,
}


def lsn_text(lsn: int) -> str:
    """Write a place in the write-ahead log as PostgreSQL does."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def read_lsn(text: str) -> int:
    """Read a place in the write-ahead log."""
    high, _, low = text.partition("/")
    try:
        return int(high, 16) << 32 | int(low, 16)
    except ValueError:
        raise Malformed(f"{text!r} is not a place in the write-ahead log") from None


class Visibility(NamedTuple):
    """Which transactions a snapshot sees, as `pg_current_snapshot()` tells it."""

    xmin: int
    xmax: int
    running: frozenset[int]

    def sees(self, xid: int) -> bool:
        """Return whether the changes of a transaction, by its 32-bit number, were visible."""
        if _is_older(xid, self.xmin):
            return True
        return _is_older(xid, self.xmax) and xid not in self.running


def read_visibility(text: str) -> Visibility:
    """Read `xmin:xmax:xip,xip`; numbers are cut to the 32 bits that the stream tells."""
    try:
        xmin, xmax, running = text.split(":")
        xids = [int(xid) & 0xFFFFFFFF for xid in running.split(",") if xid]
        return Visibility(int(xmin) & 0xFFFFFFFF, int(xmax) & 0xFFFFFFFF, frozenset(xids))
    except ValueError:
        raise Malformed(f"{text!r} is not a snapshot of PostgreSQL") from None


def _is_older(xid: int, other: int) -> bool:
    """Compare numbers that go round: half of them are older, half are newer."""
    return ((xid - other) & 0xFFFFFFFF) >= 0x80000000

"""What somebody asks of a running source: snapshots of some tables while the stream goes on (pure).

The words are Debezium's: a row with `id`, `type` and `data`, of which `execute-snapshot` and
`stop-snapshot` are understood, with `{"data-collections": ["schema.table"]}`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from chordmq.cdc.change import Snapshot

EXECUTE, STOP = "execute-snapshot", "stop-snapshot"
MESSAGES = "chordmq.signal"
"""Prefix of logical messages of PostgreSQL that hold a signal."""


class Signal(NamedTuple):
    """One wish."""

    kind: str
    scopes: tuple[str, ...]


class _Data(msgspec.Struct):
    collections: list[str] = msgspec.field(name="data-collections", default_factory=list)


class _Row(msgspec.Struct):
    type: str
    data: Any = None


def read_signal(kind: object, data: object) -> Signal | None:
    """Return what a row asks for, or None if that is nothing we know."""
    if kind not in (EXECUTE, STOP):
        return None
    try:
        if isinstance(data, str | bytes):
            found = msgspec.json.decode(data or b"{}", type=_Data)
        else:
            found = msgspec.convert(data or {}, _Data)
    except msgspec.MsgspecError:
        return None
    return Signal(str(kind), tuple(found.collections))


def read_message(content: bytes) -> Signal | None:
    """Return what a logical message asks for."""
    try:
        row = msgspec.json.decode(content, type=_Row)
    except msgspec.MsgspecError:
        return None
    return read_signal(row.type, row.data)


def message(kind: str, scopes: Iterable[str]) -> dict[str, Any]:
    """Return a signal as a row or a message holds it."""
    return {"type": kind, "data": {"type": "incremental", "data-collections": list(scopes)}}


def is_read(snapshot: Snapshot | None, scope: str) -> bool:
    """Return whether it is this table that is being read."""
    return snapshot is not None and snapshot.todo[0] == scope


def read_on(
    current: Snapshot, last: Sequence[Any] | None, rows: int, *, is_final: bool
) -> Snapshot | None:
    """Return what is left after some rows, up to a last one, of the table that is being read."""
    count = current.rows + rows
    if not is_final:
        return Snapshot(current.todo, last, count)
    left = current.todo[1:]
    return Snapshot(left, None, count) if left else None


def asked(current: Snapshot | None, signal: Signal, known: Sequence[str]) -> Snapshot | None:
    """Return what is to be read after a signal; a table that waits already is not added twice."""
    todo = list(current.todo) if current else []
    if signal.kind == STOP:
        left = [scope for scope in todo if signal.scopes and scope not in signal.scopes]
        if not left:
            return None
        same = current is not None and left[0] == todo[0]
        return Snapshot(left, current.last if same and current else None)
    todo += [scope for scope in signal.scopes if scope in known and scope not in todo]
    if not todo:
        return None
    return Snapshot(todo, current.last if current else None, current.rows if current else 0)

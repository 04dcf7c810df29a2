"""Rows of the stream and of snapshots as changes, each with its place in the source (pure)."""

import msgspec

from chordmq.cdc.change import CREATE, DELETE, READ, TRUNCATE, UPDATE, Change, Json, Spoiled
from chordmq.cdc.errors import Malformed
from chordmq.cdc.postgres.pgoutput import Begin, Delete, Insert, Tuple, Update
from chordmq.cdc.postgres.table import Table
from chordmq.version import VERSION

FAULTS = (
    Malformed,
    ValueError,
    ArithmeticError,
    IndexError,
    KeyError,
    TypeError,
    msgspec.MsgspecError,
)
"""What a value can raise that is not as its type says."""
STREAMED = "false"
"""What the source of an event says of the snapshot that it is not from."""
NO_TRANSACTION = 0


class Events:
    """Makes the changes of one database."""

    def __init__(self, name: str, database: str) -> None:
        self._name = name
        self._database = database
        self._last_commit = 0
        self._begin = Begin(0, 0, NO_TRANSACTION)
        self._sources: dict[tuple[Table, str], bytes] = {}
        """What is the same in all events of a transaction, with places for that of the row."""

    def committed(self, end_lsn: int) -> None:
        """Take note of where a transaction has ended; events of the next one tell it."""
        self._last_commit = end_lsn
        self._sources.clear()

    def told(
        self, table: Table, row: Insert | Update | Delete, begin: Begin, at: tuple[int, int]
    ) -> list[Change | Spoiled]:
        """Return what a row of the stream means; `at` is its place, and its number."""
        lsn, number = at
        identity = f"{begin.final_lsn:x}-{number}"
        source = self._source(table, begin, lsn)
        try:
            if isinstance(row, Insert):
                new = row.new
                key, after = table.key(new), table.row(new)
                return [
                    Change(CREATE, table.place, key, None, after, source, begin.time_us, identity)
                ]
            if isinstance(row, Delete):
                key, before = table.key(row.old), table.row(row.old)
                return [
                    Change(DELETE, table.place, key, before, None, source, begin.time_us, identity)
                ]
            return self._updated(table, row, source, (begin.time_us, identity))
        except FAULTS as error:
            return [Spoiled(table.place, identity, f"a value cannot be read: {error}")]

    def _updated(
        self, table: Table, row: Update, source: Json, at: tuple[int, str]
    ) -> list[Change | Spoiled]:
        place, old = table.place, row.old
        time_us, identity = at
        if old is None:
            key, after = table.key(row.new), table.row(row.new)
            return [Change(UPDATE, place, key, None, after, source, time_us, identity)]
        new = table.filled(row.new, old)
        key, before, after = table.key(new), table.row(old), table.row(new)
        if table.has_other_key(old, new):
            # As Debezium does: consumers that keep one row per key see the old one go.
            gone = table.key(old)
            return [
                Change(DELETE, place, gone, before, None, source, time_us, identity + "d"),
                Change(CREATE, place, key, None, after, source, time_us, identity + "c"),
            ]
        known = before if row.old_kind == "O" else None
        return [Change(UPDATE, place, key, known, after, source, time_us, identity)]

    def truncated(self, table: Table, begin: Begin, at: tuple[int, int]) -> Change:
        """Return that a table was emptied."""
        source = self._source(table, begin, at[0])
        identity = f"{begin.final_lsn:x}-{at[1]}"
        return Change(TRUNCATE, table.place, None, None, None, source, begin.time_us, identity)

    def read(
        self, table: Table, row: Tuple, at: tuple[int, int], snapshot: str
    ) -> Change | Spoiled:
        """Return a row of a snapshot; `at` is its place in the log and its time."""
        lsn, time_us = at
        identity = f"{lsn:x}-{table.place}-{'-'.join(table.raw_key(row))}"
        try:
            shown, key = table.row(row), table.key(row)
        except FAULTS as error:
            return Spoiled(table.place, identity, f"a value cannot be read: {error}")
        source = self._source(table, Begin(lsn, time_us, NO_TRANSACTION), lsn, snapshot)
        return Change(READ, table.place, key, None, shown, source, time_us, identity)

    def _source(self, table: Table, begin: Begin, lsn: int, snapshot: str = STREAMED) -> Json:
        """Return where a row comes from."""
        if begin != self._begin:
            self._begin = begin
            self._sources.clear()
        template = self._sources.get((table, snapshot))
        if template is None:
            template = self._sources[table, snapshot] = self._template(table, begin, snapshot)
        return template % (lsn, lsn)

    def _template(self, table: Table, begin: Begin, snapshot: str) -> bytes:
        time_us = begin.time_us
        last = f'\\"{self._last_commit}\\"' if self._last_commit else "null"
        return msgspec.json.encode(
            {
                "version": VERSION,
                "connector": "postgresql",
                "name": _literal(self._name),
                "ts_ms": time_us // 1000,
                "snapshot": snapshot,
                "db": _literal(self._database),
                "sequence": msgspec.Raw(f'"[{last},\\"%d\\"]"'.encode()),
                "ts_us": time_us,
                "ts_ns": time_us * 1000,
                "schema": _literal(table.place.namespace),
                "table": _literal(table.place.name),
                "txId": begin.xid or None,
                "lsn": msgspec.Raw(b"%d"),
                "xmin": None,
                "origin": None,
                "origin_lsn": None,
            }
        )


def _literal(name: str) -> str:
    """Return a name that stays as it is in a template."""
    return name.replace("%", "%%")

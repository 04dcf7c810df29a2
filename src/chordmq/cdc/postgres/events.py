"""Rows of the stream and of snapshots as changes, each with its place in the source (pure)."""

from typing import Any

from chordmq.cdc.change import CREATE, DELETE, READ, TRUNCATE, UPDATE, Change, Spoiled
from chordmq.cdc.errors import Malformed
from chordmq.cdc.postgres.pgoutput import Begin, Delete, Insert, Tuple, Update
from chordmq.cdc.postgres.table import Table
from chordmq.version import VERSION

FAULTS = (Malformed, ValueError, ArithmeticError, IndexError, KeyError, TypeError)
"""What a value can raise that is not as its type says."""


class Events:
    """Makes the changes of one database."""

    def __init__(self, name: str, database: str) -> None:
        self._name = name
        self._database = database
        self.last_commit = 0
        """Where the transaction before the current one ended."""

    def told(
        self, table: Table, row: Insert | Update | Delete, begin: Begin, at: tuple[int, int]
    ) -> list[Change | Spoiled]:
        """Return what a row of the stream means; `at` is its place, and its number."""
        lsn, number = at
        identity = f"{begin.final_lsn:x}-{number}"
        try:
            return self._told(table, row, self._source(table, begin, lsn), identity)
        except FAULTS as error:
            return [Spoiled(table.place, identity, f"a value cannot be read: {error}")]

    def _told(
        self, table: Table, row: Insert | Update | Delete, source: dict[str, Any], identity: str
    ) -> list[Change | Spoiled]:
        place, time_us = table.place, source["ts_us"]

        def change(op: str, key: Tuple, before: Any, after: Any, mark: str = "") -> Change:
            shown = table.key(key)
            return Change(op, place, shown, before, after, source, time_us, identity + mark)

        if isinstance(row, Insert):
            return [change(CREATE, row.new, None, table.row(row.new))]
        if isinstance(row, Delete):
            return [change(DELETE, row.old, table.row(row.old), None)]
        if row.old is None:
            return [change(UPDATE, row.new, None, table.row(row.new))]
        new = table.filled(row.new, row.old) if row.old_kind == "O" else row.new
        before = table.row(row.old)
        if table.has_other_key(row.old, new):
            # As Debezium does: consumers that keep one row per key see the old one go.
            return [
                change(DELETE, row.old, before, None, "d"),
                change(CREATE, new, None, table.row(new), "c"),
            ]
        return [change(UPDATE, new, before if row.old_kind == "O" else None, table.row(new))]

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
        begin = Begin(lsn, time_us, 0)
        source = self._source(table, begin, lsn) | {"snapshot": snapshot, "txId": None}
        return Change(READ, table.place, key, None, shown, source, time_us, identity)

    def _source(self, table: Table, begin: Begin, lsn: int) -> dict[str, Any]:
        time_us = begin.time_us
        last = f'"{self.last_commit}"' if self.last_commit else "null"
        return {
            "version": VERSION,
            "connector": "postgresql",
            "name": self._name,
            "ts_ms": time_us // 1000,
            "snapshot": "false",
            "db": self._database,
            "sequence": f'[{last},"{lsn}"]',
            "ts_us": time_us,
            "ts_ns": time_us * 1000,
            "schema": table.place.namespace,
            "table": table.place.name,
            "txId": begin.xid,
            "lsn": lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }

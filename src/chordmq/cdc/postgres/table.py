"""One table as it is told: which columns, how their values are read, and what is the key (pure)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from chordmq.cdc.change import Json, Place
from chordmq.cdc.errors import Malformed
from chordmq.cdc.postgres.literals import Writer, writer_of
from chordmq.cdc.postgres.pgoutput import UNCHANGED, Relation, Tuple
from chordmq.cdc.postgres.values import Type, placeholder, reader_of
from chordmq.cdc.selection import Selection

RESUMABLE = {"int2", "int4", "int8", "oid", "uuid", "text", "varchar"}
"""Types of keys whose order in the database we know: a snapshot can go on after one of them."""
TEXTS = {"text", "varchar", "bpchar", "citext", "name"}


class Field(NamedTuple):
    """A column that is told."""

    column: int
    name: str
    write: Writer
    unavailable: Json


class Table:
    """Turns the raw values of rows into what events show."""

    def __init__(
        self,
        relation: Relation,
        key: Sequence[str],
        types: Mapping[int, Type],
        selection: Selection,
        decimals: str,
    ) -> None:
        self.place = Place(relation.schema, relation.table)
        self.relation = relation
        self.told = selection.has(self.place)
        self.fields = _fields(relation, self.place, types, selection, decimals)
        names = [column.name for column in relation.columns]
        self.key_names = tuple(name for name in key if name in names)
        self._key_indexes = tuple(names.index(name) for name in self.key_names)
        by_index = {field.column: field for field in self.fields}
        self._key_fields = tuple(
            by_index[index] for index in self._key_indexes if index in by_index
        )
        self._shape, self._key_shape = _shape(self.fields), _shape(self._key_fields)
        columns = [relation.columns[index] for index in self._key_indexes]
        self._key_types = [_base(column.type_oid, types) for column in columns]

    @property
    def can_resume(self) -> bool:
        """Return whether a snapshot of it can go on after a key."""
        return bool(self._key_types) and all(name in RESUMABLE for name in self._key_types)

    def row(self, values: Tuple) -> Json:
        """Return a row as events show it."""
        return self._shape % tuple(
            [
                b"null"
                if (value := values[index]) is None
                else unavailable
                if value is UNCHANGED
                else write(value)  # type: ignore[arg-type]
                for index, _, write, unavailable in self.fields
            ]
        )

    def key(self, values: Tuple) -> Json | None:
        """Return the key of a row as events show it, or None if the table has none."""
        if not self._key_fields:
            return None
        written = []
        for index, name, write, _ in self._key_fields:
            value = values[index]
            if value is UNCHANGED:
                raise Malformed(f"the server has not sent {name}, which is in the key")
            written.append(b"null" if value is None else write(value))  # type: ignore[arg-type]
        return self._key_shape % tuple(written)

    def raw_key(self, values: Tuple) -> tuple[str, ...]:
        """Return the key of a row as the database writes it."""
        return tuple(
            value.decode() if isinstance(value := values[index], bytes) else ""
            for index in self._key_indexes
        )

    def order(self, key: Sequence[str]) -> tuple[Any, ...]:
        """Return something that compares as the database orders keys in snapshots."""
        return tuple(
            value.encode() if kind in TEXTS or kind == "uuid" else int(value)
            for value, kind in zip(key, self._key_types, strict=True)
        )

    def filled(self, new: Tuple, old: Tuple) -> Tuple:
        """Return a new row with what the old one knows of values that were not sent.

        Of an old row that is not sent whole, only the key is there; the rest is null.
        """
        if UNCHANGED not in new:
            return new
        return [
            was if is_ is UNCHANGED and was is not None else is_
            for is_, was in zip(new, old, strict=True)
        ]

    def has_other_key(self, old: Tuple, new: Tuple) -> bool:
        """Return whether an update has given a row another key."""
        return any(old[index] != new[index] for index in self._key_indexes)

    @property
    def query_columns(self) -> str:
        """Return all columns, quoted, for a query."""
        return ", ".join(quoted(column.name) for column in self.relation.columns)

    @property
    def query_order(self) -> list[str]:
        """Return the key columns, quoted, so that texts are ordered by their bytes."""
        return [
            quoted(name) + (' COLLATE "C"' if kind in TEXTS else "")
            for name, kind in zip(self.key_names, self._key_types, strict=True)
        ]

    @property
    def query_name(self) -> str:
        """Return the table's name, quoted."""
        return f"{quoted(self.place.namespace)}.{quoted(self.place.name)}"


def quoted(name: str) -> str:
    """Return a name as SQL wants it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _fields(
    relation: Relation,
    place: Place,
    types: Mapping[int, Type],
    selection: Selection,
    decimals: str,
) -> tuple[Field, ...]:
    found = []
    for index, column in enumerate(relation.columns):
        shown = selection.column(place, column.name)
        read = reader_of(column.type_oid, column.modifier, types, decimals)
        if shown is None or read is None:
            continue
        write, unavailable = writer_of(read), _json(placeholder(column.type_oid, types))
        if shown.mask is not None:
            unavailable = mask = _json(shown.mask)
            write = partial(_masked, mask)
        found.append(Field(index, shown.name, write, unavailable))
    return tuple(found)


def _masked(mask: Json, _: bytes) -> Json:
    return mask


def _shape(fields: Sequence[Field]) -> bytes:
    """Return an object of JSON with a place for the value of each field."""
    names = [_json(field.name).replace(b"%", b"%%") for field in fields]
    return b"{%b}" % b",".join([name + b":%b" for name in names])


def _json(value: Any) -> Json:
    return msgspec.json.encode(value)


def _base(oid: int, types: Mapping[int, Type]) -> str:
    found = types.get(oid)
    if found is None:
        return ""
    return _base(found.base, types) if found.kind == "d" else found.name

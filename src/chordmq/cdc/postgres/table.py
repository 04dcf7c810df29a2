"""One table as it is told: which columns, how their values are read, and what is the key (pure)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chordmq.cdc.change import Place
from chordmq.cdc.postgres.pgoutput import UNCHANGED, Relation, Tuple, Unchanged
from chordmq.cdc.postgres.values import Reader, Type, placeholder, reader_of
from chordmq.cdc.selection import Selection

RESUMABLE = {"int2", "int4", "int8", "oid", "uuid", "text", "varchar"}
"""Types of keys whose order in the database we know: a snapshot can go on after one of them."""
TEXTS = {"text", "varchar", "bpchar", "citext", "name"}


class Field(NamedTuple):
    """A column that is told."""

    column: int
    name: str
    read: Reader
    unavailable: Any


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
        columns = [relation.columns[index] for index in self._key_indexes]
        self._key_types = [_base(column.type_oid, types) for column in columns]

    @property
    def can_resume(self) -> bool:
        """Return whether a snapshot of it can go on after a key."""
        return bool(self._key_types) and all(name in RESUMABLE for name in self._key_types)

    def row(self, values: Sequence[bytes | Unchanged | None]) -> dict[str, Any]:
        """Return a row as events show it."""
        shown: dict[str, Any] = {}
        for index, name, read, unavailable in self.fields:
            value = values[index]
            if value is None:
                shown[name] = None
            elif value is UNCHANGED:
                shown[name] = unavailable
            else:
                shown[name] = read(value)  # type: ignore[arg-type]
        return shown

    def key(self, values: Sequence[bytes | Unchanged | None]) -> dict[str, Any] | None:
        """Return the key of a row as events show it, or None if the table has none."""
        if not self._key_fields:
            return None
        return {
            field.name: None if values[field.column] is None else field.read(values[field.column])  # type: ignore[arg-type]
            for field in self._key_fields
        }

    def raw_key(self, values: Sequence[bytes | Unchanged | None]) -> tuple[str, ...]:
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
        """Return a new row with what the whole old one knows of values that were not sent."""
        if UNCHANGED not in new:
            return new
        return [was if is_ is UNCHANGED else is_ for is_, was in zip(new, old, strict=True)]

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
        unavailable = placeholder(column.type_oid, types)
        if shown.mask is not None:
            mask = shown.mask
            read, unavailable = (lambda _, mask=mask: mask), mask
        found.append(Field(index, shown.name, read, unavailable))
    return tuple(found)


def _base(oid: int, types: Mapping[int, Type]) -> str:
    found = types.get(oid)
    if found is None:
        return ""
    return _base(found.base, types) if found.kind == "d" else found.name

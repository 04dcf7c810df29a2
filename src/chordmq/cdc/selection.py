"""Which tables and columns are told, and under which names: lists of regular expressions (pure)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from chordmq.cdc.change import Place
from chordmq.cdc.settings import Columns, Names


class Shown(NamedTuple):
    """How a column is told."""

    name: str
    mask: str | None


class Selection:
    """Answers what is told of a database."""

    def __init__(self, tables: Names, columns: Columns) -> None:
        self._tables = _Lists(tables)
        self._columns = _Lists(columns)
        self._masks = _compiled(columns.mask)
        self._renames = _compiled(columns.rename)
        self._known: dict[Place, bool] = {}

    @property
    def tells_all_columns(self) -> bool:
        """Return whether documents can be told as they are."""
        return not (self._columns.limits or self._masks or self._renames)

    def has(self, place: Place) -> bool:
        """Return whether a table or collection is told."""
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = self._tables.has(str(place))
        return known

    def column(self, place: Place, name: str) -> Shown | None:
        """Return how a column is told, or None if it is not."""
        full = f"{place}.{name}"
        if not self._columns.has(full):
            return None
        mask = next((text for one, text in self._masks if one.fullmatch(full)), None)
        shown = next((text for one, text in self._renames if one.fullmatch(full)), name)
        return Shown(shown, mask)


class _Lists:
    def __init__(self, names: Names) -> None:
        self._include = [re.compile(one) for one in names.include]
        self._exclude = [re.compile(one) for one in names.exclude]
        self.limits = bool(self._include or self._exclude)

    def has(self, name: str) -> bool:
        if any(one.fullmatch(name) for one in self._exclude):
            return False
        return not self._include or any(one.fullmatch(name) for one in self._include)


def _compiled(texts: Mapping[str, str]) -> Sequence[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), text) for pattern, text in texts.items()]


def chosen(places: Iterable[Place], selection: Selection) -> list[Place]:
    """Return the places that are told, in a fixed order."""
    return sorted(place for place in places if selection.has(place))

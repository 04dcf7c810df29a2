"""Joins events that the server has split, because whole they were larger than a document (pure)."""

from collections.abc import Iterable, Sequence
from typing import Any

SPLIT: dict[str, dict[str, Any]] = {"$changeStreamSplitLargeEvent": {}}
"""The stage that has the server split large events; it must be the last one."""
SINCE = ((6, 0, 9), (7, 0, 0))
"""Servers that have it: of 6.0 later ones only, and all from 7.0 on."""

Event = dict[str, Any]


def has_split(version: Sequence[int]) -> bool:
    """Return whether a server of this version can split events."""
    late, following = SINCE
    number = tuple(version[:3])
    return number >= following or (number[:2] == late[:2] and number >= late)


class Fragments:
    """Holds the first parts of an event until its last one comes."""

    def __init__(self) -> None:
        self._held: Event = {}

    @property
    def is_open(self) -> bool:
        """Return whether parts of an event are still to come."""
        return bool(self._held)

    def joined(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that are whole now; one that was split has the token of its end."""
        whole = []
        for event in events:
            split = event.pop("splitEvent", None)
            if split is None:
                whole.append(event)
                continue
            self._held |= event
            if split["fragment"] == split["of"]:
                whole.append(self._held)
                self._held = {}
        return whole

    def forget(self) -> None:
        """Drop what is held: the stream begins again before it."""
        self._held = {}

"""Remembers the ids of messages that have come, so that one that comes twice is known (pure)."""

from collections import OrderedDict
from collections.abc import Iterable

from chordmq.records.record import Headers

ID_HEADER = "message-id"
IDS_KEPT = 100_000


class DistinctIds:
    """The ids of the last messages."""

    def __init__(self, kept: int = IDS_KEPT) -> None:
        self._kept = kept
        self._ids: OrderedDict[str, None] = OrderedDict()
        self.repeated = 0
        """Messages that had come before."""

    def is_new(self, message_id: str) -> bool:
        """Return whether no message with this id has been added; count it if one has."""
        if message_id in self._ids:
            self.repeated += 1
            return False
        return True

    def add(self, message_ids: Iterable[str]) -> None:
        """Take note of messages that are done; the oldest are forgotten."""
        for message_id in message_ids:
            self._ids[message_id] = None
        while len(self._ids) > self._kept:
            self._ids.popitem(last=False)


def id_of(headers: Headers) -> str | None:
    """Return the id that a message has in its headers."""
    given = next((value for name, value in headers if name == ID_HEADER), None)
    return None if given is None else given.decode(errors="replace")

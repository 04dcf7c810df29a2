"""Keeps refusals from flooding the audit trail: the first is told, those like it are counted."""

from collections import Counter
from dataclasses import replace

from chordmq.broker.audit.chain import Event

WINDOW_S = 1.0
KINDS_PER_HOST_MAX = 20
KINDS_MAX = 1000
ANY = "*"


class Repeats:
    """Counts refusals of the same kind within a second.

    A host that is refused in ever new ways has its later ones counted together, and so have hosts
    beyond a number that no honest second reaches: what is written stays bounded.
    """

    def __init__(self) -> None:
        self._counts: Counter[Event] = Counter()
        self._kinds: Counter[str] = Counter()
        self._ends_s = 0.0

    def admit(self, event: Event, now_s: float) -> Event | None:
        """Return what to write of a refusal now; None if it is only counted."""
        if not self._counts:
            self._ends_s = now_s + WINDOW_S
        kind = self._kind(event)
        self._counts[kind] += 1
        if self._counts[kind] > 1:
            return None
        self._kinds[kind.host] += 1
        return kind

    def wait_s(self, now_s: float) -> float | None:
        """Return how long until counts are due; None when nothing is counted."""
        return max(0.0, self._ends_s - now_s) if self._counts else None

    def take(self, now_s: float | None = None) -> list[Event]:
        """Return the sums of a second that is over, and begin another; of any without a time."""
        if now_s is not None and now_s < self._ends_s:
            return []
        counted = [
            replace(kind, result=f"{kind.result}; {count - 1} more like it within a second")
            for kind, count in self._counts.items()
            if count > 1
        ]
        self._counts.clear()
        self._kinds.clear()
        return counted

    def _kind(self, event: Event) -> Event:
        if event in self._counts:
            return event
        if len(self._counts) >= KINDS_MAX:
            return Event(who=ANY, host=ANY, act=ANY, obj=ANY, result="refused")
        if self._kinds[event.host] >= KINDS_PER_HOST_MAX:
            return Event(who=ANY, host=event.host, act=ANY, obj=ANY, result="refused")
        return event

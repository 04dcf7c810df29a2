"""Compares what two pipelines have told of one table, change by change and key by key (pure).

Both name the place of a change in its source (an LSN, or a time with a number), so that the same
change is found in both. Only what both could tell is compared: from where the later one began to
where the slower one is.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import msgspec

from chordmq.cdc.change import READ
from chordmq.dataclass import dataclass

DIFFERENCES_MAX = 20
"""So many are shown of a table; all are counted."""
SHOWN_MAX = 60

Moment = tuple[int, ...]


class Told(NamedTuple):
    """One change as a pipeline has told it."""

    key: str
    op: str
    at: Moment
    before: Any
    after: Any


class Difference(NamedTuple):
    """One change that the two do not agree about."""

    kind: str
    key: str
    op: str
    at: Moment
    detail: str = ""

    def __str__(self) -> str:
        place = ".".join(map(str, self.at))
        text = f"{self.kind}: key {self.key}, {self.op} at {place}"
        return f"{text}: {self.detail}" if self.detail else text


@dataclass(slots=True)
class Report:
    """What became of the comparison of one table."""

    table: str
    keys: int = 0
    equal: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def add(self, kind: str, told: Told, detail: str = "") -> None:
        """Count a difference, and keep the first ones to show."""
        self.counts[kind] += 1
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(Difference(kind, told.key, told.op, told.at, detail))

    def row(self) -> list[object]:
        """Return the line of a table for people."""
        other = self.counts[DIFFERENT] + self.counts[REPEATED] + self.counts[ORDER]
        ours, theirs = self.counts[ONLY_OURS], self.counts[ONLY_THEIRS]
        return [self.table, self.keys, self.equal, ours, theirs, other]

    def as_json(self) -> dict[str, object]:
        """Return everything for programs."""
        return {
            "table": self.table,
            "keys": self.keys,
            "equal": self.equal,
            "counts": dict(self.counts),
            "differences": [one._asdict() for one in self.differences],
        }


ONLY_OURS, ONLY_THEIRS = "only ours", "only theirs"
DIFFERENT, REPEATED, ORDER = "different", "repeated", "order"


def read_told(key: bytes | None, value: bytes | None) -> Told | None:
    """Return a change of the stream; None for tombstones, snapshots and what is no event."""
    try:
        event = msgspec.json.decode(value or b"null")
        if isinstance(event, dict) and "payload" in event:  # with a schema, or in our envelope
            event = event["payload"]
        if not isinstance(event, dict) or event.get("op") in (None, READ):
            return None
        source = event["source"]
        named = msgspec.json.decode(key or b"null")
        if isinstance(named, dict) and set(named) == {"schema", "payload"}:
            named = named["payload"]
        at = (source["lsn"],) if "lsn" in source else (source["ts_ms"], source["ord"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None
    text = msgspec.json.encode(named, order="sorted").decode()
    before, after = _opened(event.get("before")), _opened(event.get("after"))
    return Told(text, event["op"], at, before, after)


def compare(
    table: str, ours: Sequence[Told], theirs: Sequence[Told], ignored: frozenset[str] = frozenset()
) -> Report:
    """Return where two pipelines agree and differ."""
    report = Report(table)
    if not ours or not theirs:
        return report
    first = max(min(one.at for one in ours), min(one.at for one in theirs))
    last = min(max(one.at for one in ours), max(one.at for one in theirs))
    mine = _by_change(ours, first, last, report)
    other = _by_change(theirs, first, last, Report(table))
    report.keys = len({key for key, _, _ in {*mine, *other}})
    for change, told in mine.items():
        if change not in other:
            report.add(ONLY_OURS, told)
        elif detail := _difference(told, other[change], ignored):
            report.add(DIFFERENT, told, detail)
        else:
            report.equal += 1
    for change, told in other.items():
        if change not in mine:
            report.add(ONLY_THEIRS, told)
    _compare_order(mine.values(), other.values(), report)
    return report


def _by_change(
    told: Iterable[Told], first: Moment, last: Moment, report: Report
) -> dict[tuple[str, str, Moment], Told]:
    found: dict[tuple[str, str, Moment], Told] = {}
    for one in told:
        if not first <= one.at <= last:
            continue
        change = (one.key, one.op, one.at)
        if change in found and one.key != "null":
            report.add(REPEATED, one)
        found[change] = one
    return found


def _compare_order(ours: Iterable[Told], theirs: Iterable[Told], report: Report) -> None:
    """Report keys whose changes, as far as both have them, come in another order."""
    places: dict[tuple[str, str, Moment], int] = {
        (one.key, one.op, one.at): number for number, one in enumerate(theirs)
    }
    newest: dict[str, int] = {}
    for one in ours:
        place = places.get((one.key, one.op, one.at))
        if place is None:
            continue
        if place < newest.get(one.key, -1):
            report.add(ORDER, one)
        newest[one.key] = max(place, newest.get(one.key, -1))


def _difference(ours: Told, theirs: Told, ignored: frozenset[str]) -> str:
    found = []
    for name in ("before", "after"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        if mine == other:
            continue
        if not (isinstance(mine, dict) and isinstance(other, dict)):
            found.append(f"{name} {_short(mine)} is {_short(other)} there")
            continue
        for column in sorted({*mine, *other} - ignored):
            if mine.get(column) != other.get(column):
                values = _short(mine.get(column)), _short(other.get(column))
                found.append(f"{name}.{column} {values[0]} is {values[1]} there")
    return "; ".join(found)


def _opened(value: Any) -> Any:
    """Return documents that are told as text as what they hold."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return value


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"

"""What Debezium told of our changes, as `python -m tests.cdc.oracle` has recorded it."""

import json
from typing import Any

from tests.cdc.changes import GOLDEN

Told = tuple[Any, str, Any, Any]


def golden(name: str, topic: str) -> list[Told]:
    """Return key, operation, before and after of each event of a topic."""
    lines = (GOLDEN / f"{name}.jsonl").read_text().splitlines()
    return [flat(event) for event in map(json.loads, lines) if event["topic"] == topic]


def flat(event: dict[str, Any]) -> Told:
    """Return what is compared of an event."""
    value = event["value"]
    if value is None:
        return event["key"], "tombstone", None, None
    return event["key"], value["op"], value["before"], value["after"]


def opened_documents(told: Told) -> Told:
    """Return an event of MongoDB with what its texts hold, whatever blanks they have."""
    key, op, before, after = told
    return key, op, before and json.loads(before), after and json.loads(after)


def differences(ours: list[Told], theirs: list[Told]) -> list[str]:
    """Return what differs, column by column."""
    found = [f"{len(ours)} events, {len(theirs)} by Debezium"] if len(ours) != len(theirs) else []
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if mine[:2] != other[:2]:
            found.append(f"{number}: {mine[:2]} is {other[:2]} there")
        for before_or_after in (2, 3):
            left, right = mine[before_or_after], other[before_or_after]
            if isinstance(left, dict) and isinstance(right, dict):
                found += [
                    f"{number} {other[:2]}: {column} {left.get(column, 'missing')!r} "
                    f"is {right.get(column, 'missing')!r} there"
                    for column in sorted({*left, *right})
                    if left.get(column, "missing") != right.get(column, "missing")
                ]
            elif left != right:
                found.append(f"{number} {other[:2]}: {left!r} is {right!r} there")
    return found

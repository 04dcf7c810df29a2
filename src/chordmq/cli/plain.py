"""Reads `chordmq serve` where nothing but settings follows, which is how nodes are started.

The parser of all other command lines would take a tenth of the start, and of an idle node's memory.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SERVE = "serve"
SET = "--set"
CONFIG = ("--config", "-c")
INSECURE = "--insecure"


class Given(NamedTuple):
    """What a node was told on its command line."""

    file: Path | None
    assignments: list[str]
    insecure: bool


def read(words: Sequence[str]) -> Given | None:
    """Return what a node is told, or None for words that the parser must read."""
    if not words or words[0] != SERVE:
        return None
    given = Given(None, [], False)
    rest = iter(words[1:])
    for word in rest:
        if word == INSECURE:
            given = given._replace(insecure=True)
            continue
        value = next(rest, "-")
        if value.startswith("-"):
            return None
        if word == SET:
            given.assignments.append(value)
        elif word in CONFIG:
            given = given._replace(file=Path(value))
        else:
            return None
    return given

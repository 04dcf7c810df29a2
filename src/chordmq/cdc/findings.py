"""What was found when a source was looked at: all well, or what is missing and how to mend it."""

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: Level
    text: str
    advice: str = ""

"""Regular expressions that clients send, in RE2's syntax: no name can make a match take long."""

from functools import lru_cache
from typing import Any

from chordmq.errors import InvalidPattern

PATTERN_LENGTH_MAX = 4096
MEMORY_BYTES_MAX = 2**20


def matches(pattern: str, name: str) -> bool:
    """Return whether the whole name follows the pattern; raise InvalidPattern if nothing could."""
    return _compiled(pattern).fullmatch(name) is not None


def check_pattern(pattern: str) -> None:
    """Raise InvalidPattern unless names can be held against the pattern."""
    _compiled(pattern)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidPattern(f"the pattern is longer than {PATTERN_LENGTH_MAX} characters")
    import re2  # with the first pattern: it takes more memory than all groups together

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidPattern(f"{pattern!r} is not a valid regular expression") from error

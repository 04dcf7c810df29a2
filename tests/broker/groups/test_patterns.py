"""Patterns: RE2's syntax, whole names, and time that does not grow with the pattern's malice."""

import time

import pytest

from chordmq.broker.groups.patterns import PATTERN_LENGTH_MAX, check_pattern, matches
from chordmq.errors import InvalidPattern


def test_a_pattern_matches_whole_names() -> None:
    assert matches("a.*", "abc")
    assert not matches("a", "abc")
    assert not matches("b.*", "abc")
    assert matches("t-(a|b)[0-9]{2}", "t-b12")


@pytest.mark.parametrize("pattern", ["(a", r"(a)\1", "(?=a)", "*", "a" * 5000])
def test_what_cannot_be_understood_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        check_pattern(pattern)


def test_no_pattern_takes_long() -> None:
    """C11: a name of the greatest length against patterns that make others backtrack."""
    assert len("(a*)*" * 10) < PATTERN_LENGTH_MAX
    begin = time.process_time()
    for pattern in ("(a+)+b", "(a*)*" * 10 + "b", "(a|aa)+b", ".*" * 100 + "b"):
        assert not matches(pattern, "a" * 249)
    assert time.process_time() - begin < 2

"""E2: filters over names, against what MQTT says and against the plain definition."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker import subscriptions
from chordmq.broker.subscriptions import FilterTree, check_filter, check_name, matches, overlaps
from chordmq.errors import InvalidPattern, InvalidTopicName

LEVEL = st.sampled_from(["", "a", "b", "$s"])
NAMES = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, rest: "/".join(levels + rest),
    st.lists(st.sampled_from(["", "a", "b", "$s", "+"]), min_size=0, max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(bool)


@pytest.mark.parametrize(
    ("wanted", "name", "is_match"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "a/b/c", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/monitor", False),
        ("+/monitor", "$SYS/monitor", False),
        ("$SYS/#", "$SYS/monitor", True),
        ("$SYS/+", "$SYS/monitor", True),
        ("a/b", "a/b", True),
        ("a/b", "a/B", False),
    ],
)
def test_filters_match_as_the_mqtt_standard_says(wanted: str, name: str, is_match: bool) -> None:
    """E2: the standard's own examples."""
    tree: FilterTree[int] = FilterTree()
    tree.add(wanted, 1)
    assert matches(wanted, name) is is_match
    assert (1 in tree.find(name)) is is_match


@given(st.lists(FILTERS, max_size=12), NAMES)
def test_the_tree_finds_exactly_the_filters_that_match(filters: list[str], name: str) -> None:
    """E2: the tree says what asking each filter would."""
    tree: FilterTree[int] = FilterTree()
    for number, wanted in enumerate(filters):
        tree.add(wanted, number)
    assert set(tree.find(name)) == {n for n, wanted in enumerate(filters) if matches(wanted, name)}


@given(st.lists(FILTERS, max_size=8, unique=True))
def test_an_emptied_tree_finds_nothing_and_holds_nothing(filters: list[str]) -> None:
    tree: FilterTree[str] = FilterTree()
    for wanted in filters:
        tree.add(wanted, "x")
        tree.add(wanted, "x")
    assert len(tree) == len(filters)
    for wanted in filters:
        tree.remove(wanted, "x")
        tree.remove(wanted, "x")
    assert len(tree) == 0
    assert not tree._root.below


@given(FILTERS, FILTERS, NAMES)
def test_filters_that_match_one_name_overlap(one: str, other: str, name: str) -> None:
    if matches(one, name) and matches(other, name):
        assert overlaps(one, other)
        assert overlaps(other, one)


def test_filters_without_a_common_name_do_not_overlap() -> None:
    assert not overlaps("a/+", "b/#")
    assert not overlaps("a/+/c", "a/b")
    assert overlaps("a/#", "a")


@pytest.mark.parametrize(
    "wanted", ["", "a#", "a/#/b", "a+/b", "#/", "a\0", "a/" * 200, "x" * 70_000]
)
def test_what_is_no_filter_is_refused(wanted: str) -> None:
    with pytest.raises(InvalidPattern):
        check_filter(wanted)


@pytest.mark.parametrize("name", ["", "a/+", "#", "a\0b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        check_name(name)


def test_a_look_up_takes_as_many_steps_among_a_hundred_thousand_filters_as_among_ten() -> None:
    """E2: a look-up costs by the levels of the name, not by the number of filters."""
    few, many = among(10), among(100_000)

    found, steps = steps_of(lambda: few.find("iot/devices/7/telemetry/temperature"))
    found_in_many, steps_in_many = steps_of(
        lambda: many.find("iot/devices/7/telemetry/temperature")
    )

    assert list(found) == list(found_in_many)
    assert sorted(found) == [-1, 7]
    assert 0 < steps == steps_in_many


def among(filters: int) -> FilterTree[int]:
    """Return a tree with so many filters of devices, and one that finds all of these."""
    shapes = ["#", "+/temperature", "telemetry/temperature", "telemetry/+"]
    tree: FilterTree[int] = FilterTree()
    for number in range(filters):
        tree.add(f"iot/devices/{number}/{shapes[number % len(shapes)]}", number)
    tree.add("iot/+/+/telemetry/#", -1)
    return tree


def steps_of(work: Callable[[], dict[int, None]]) -> tuple[dict[int, None], int]:
    """Return what a piece of work gives, and how many lines of the module under test that takes.

    Others do not count: the interpreter may remove unused objects meanwhile.
    """
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        steps += event == "line" and frame.f_code.co_filename == subscriptions.__file__
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return work(), steps
    finally:
        sys.settrace(before)

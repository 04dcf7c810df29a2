"""One setting: how its text is read, and what a change makes of a list of them."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.setting import (
    INT_MAX,
    LONG_MAX,
    Candidate,
    Change,
    Kind,
    Operation,
    Setting,
    Shown,
    Source,
    altered,
    text_of,
    unknown,
)
from chordmq.errors import InvalidSetting

SIZE = Setting(name="size", kind=Kind.INT, default=1, help="A size.", low=1)
POLICY = Setting(name="policy", kind=Kind.LIST, default=("a",), help="A list.")
SHOWN = [
    Shown(SIZE, (Candidate("size", "1", Source.DEFAULT),)),
    Shown(POLICY, (Candidate("policy", "a", Source.DEFAULT),)),
]


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """C7: no text of a client does more than being refused."""
    for kind in Kind:
        setting = Setting(name="x", kind=kind, default="", help="Anything.")
        with contextlib.suppress(InvalidSetting):
            setting.parse(text)


@given(st.integers(-LONG_MAX - 1, LONG_MAX))
def test_a_long_is_read_back_as_written(number: int) -> None:
    setting = Setting(name="x", kind=Kind.LONG, default=0, help="A number.")
    assert setting.parse(text_of(number)) == number


@pytest.mark.parametrize(
    ("kind", "limit"), [(Kind.INT, INT_MAX), (Kind.LONG, LONG_MAX)], ids=["int", "long"]
)
def test_a_number_has_the_width_of_its_type(kind: Kind, limit: int) -> None:
    setting = Setting(name="x", kind=kind, default=0, help="A number.")
    assert setting.parse(str(limit)) == limit
    assert setting.parse(str(-limit - 1)) == -limit - 1
    for text in (str(limit + 1), str(-limit - 2)):
        with pytest.raises(InvalidSetting, match="does not fit"):
            setting.parse(text)


def test_the_reason_names_the_range() -> None:
    with pytest.raises(InvalidSetting, match="at least 1"):
        SIZE.parse("0")
    bounded = Setting(name="x", kind=Kind.DOUBLE, default=0.5, help="A share.", low=0, high=1)
    with pytest.raises(InvalidSetting, match="between 0 and 1"):
        bounded.parse("1.5")
    assert bounded.high < math.inf


def test_changes_are_made_in_their_order() -> None:
    changes = [
        Change("size", Operation.SET, "5"),
        Change("policy", Operation.APPEND, "b,a"),
        Change("old", Operation.DELETE),
        Change("never.there", Operation.DELETE),
    ]
    assert altered({"old": "1"}, changes, SHOWN) == {"size": "5", "policy": "a,b"}


def test_taking_the_last_item_leaves_an_empty_list() -> None:
    assert altered({}, [Change("policy", Operation.SUBTRACT, "a")], SHOWN) == {"policy": ""}


def test_only_lists_can_be_extended() -> None:
    with pytest.raises(InvalidSetting, match="not a list"):
        altered({}, [Change("size", Operation.APPEND, "5")], SHOWN)
    with pytest.raises(InvalidSetting, match=r"did you mean policy\?"):
        altered({}, [Change("policies", Operation.APPEND, "5")], SHOWN)


def test_a_name_like_no_other_gets_no_hint() -> None:
    assert "did you mean" not in str(unknown("zzz", ["size", "policy"]))


def test_the_reason_does_not_round_the_limit() -> None:
    """C7: who is told a limit can keep to it."""
    large = Setting(name="x", kind=Kind.INT, default=1 << 30, help="A size.", low=1 << 20)
    with pytest.raises(InvalidSetting, match=r"at least 1048576$"):
        large.parse("1")

"""The checker finds each anomaly where it is, and nothing in a clean history."""

from collections.abc import Callable

import pytest

from tests.chaos.checker import check
from tests.chaos.history import History, Read, Transaction, Write

T = "topic"


def clean() -> History:
    """Return what a healthy cluster gives."""
    history = History()
    for number in range(6):
        history.writes.append(
            Write(f"v{number}", T, 0, "p", number, number + 0.5, "ok", offset=number)
        )
    history.writes.append(Write("t1", T, 0, "q", 7, 8, "ok", offset=6, transaction="t"))
    history.writes.append(Write("t2", T, 1, "q", 7, 8, "ok", offset=0, transaction="t"))
    history.writes.append(Write("a1", T, 1, "q", 9, 9.5, "ok", offset=1, transaction="u"))
    history.writes.append(Write("lost in the net", T, 0, "p", 8))
    history.transactions += [Transaction("t", "committed"), Transaction("u", "aborted")]
    for offset, value in enumerate(["v0", "v1", "v2", "v3", "v4", "v5", "t1"]):
        history.final.append(Read("final", offset, T, 0, offset, value))
        history.reads.append(Read("group/1", offset, T, 0, offset, value))
    history.final.append(Read("final", 7, T, 1, 0, "t2"))
    history.reads.append(Read("group/1", 7, T, 1, 0, "t2"))
    history.copies["topic-0"] = {"n1": "sum", "n2": "sum"}
    history.leaders += [("x", 0, 1), ("x", 0, 1), ("x", 1, -1), ("x", 2, 3)]
    return history


def lose(history: History) -> None:
    del history.final[2], history.reads[2]


def double(history: History) -> None:
    history.final.append(Read("final", 9, T, 0, 9, "v0"))


def invent(history: History) -> None:
    history.final.append(Read("final", 9, T, 0, 9, "never sent"))


def change(history: History) -> None:
    history.reads[3].value = "v2"


def show_aborted(history: History) -> None:
    history.reads.append(Read("other", 0, T, 1, 1, "a1"))


def tear(history: History) -> None:
    del history.final[-1], history.reads[-1]


def swap(history: History) -> None:
    history.final[1].offset, history.final[2].offset = 2, 1


def travel(history: History) -> None:
    history.writes[0].offset, history.writes[5].offset = 5, 0


def skip(history: History) -> None:
    del history.reads[2]


def repeat(history: History) -> None:
    history.reads.insert(4, history.reads[2])


def split(history: History) -> None:
    history.leaders.append(("x", 2, 4))


def diverge(history: History) -> None:
    history.copies["topic-0"]["n2"] = "other"


def go_back(history: History) -> None:
    history.leaders.append(("x", 1, 1))


def test_a_clean_history_is_clean() -> None:
    assert check(clean()) == {}


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lose, "lost write"),
        (double, "duplicate"),
        (invent, "phantom"),
        (change, "inconsistent offsets"),
        (show_aborted, "aborted read"),
        (tear, "torn transaction"),
        (swap, "reordered"),
        (travel, "realtime order"),
        (skip, "poll"),
        (skip, "unseen"),
        (repeat, "poll"),
        (split, "two leaders"),
        (go_back, "two leaders"),
        (diverge, "unequal copies"),
    ],
)
def test_an_anomaly_is_found(spoil: Callable[[History], None], kind: str) -> None:
    history = clean()
    spoil(history)
    assert kind in check(history)

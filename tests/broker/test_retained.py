"""Retained messages: found by filters, kept in the log, read back from it."""

from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.retained import Retained, RetainedTree, read, write
from chordmq.broker.subscriptions import matches

LEVELS = st.sampled_from(["a", "b", "$x", ""])
NAMES = st.lists(LEVELS, min_size=1, max_size=4).map("/".join)
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]),
    st.lists(LEVELS | st.just("+"), min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
)


def kept(name: str, payload: bytes = b"x") -> Retained:
    return Retained(name=name, payload=payload)


@given(st.lists(NAMES, max_size=20), st.lists(NAMES, max_size=5), FILTERS)
def test_a_filter_finds_exactly_what_it_matches(
    names: list[str], removed: list[str], wanted: str
) -> None:
    """E2: the tree says what matching each name would say."""
    tree = RetainedTree()
    for name in names:
        tree.set(kept(name))
    for name in removed:
        tree.set(kept(name, b""))
    left = {*names} - {*removed}
    assert len(tree) == len(left)
    found = [message.name for message in tree.matching(wanted)]
    assert sorted(found) == sorted(name for name in left if matches(wanted, name))
    assert all((tree.get(name) is not None) == (name in left) for name in [*names, *removed])


def test_everything_under_a_hash() -> None:
    tree = RetainedTree()
    for name in ("a", "a/b", "$SYS/x"):
        tree.set(kept(name))
    assert [message.name for message in tree.matching("#")] == ["a", "a/b"]


def test_a_message_is_read_as_it_was_written() -> None:
    message = Retained(
        name="a/b", payload=b"\x00", qos=2, timestamp_ms=5, expires_ms=9, headers=(("h", None),)
    )
    assert read(*write(message)) == message
    assert read(*write(kept("a", b""))) == kept("a", b"")


def test_a_hundred_thousand_are_found_at_once() -> None:
    """E3: the cost is by what is found, not by what is there."""
    tree = RetainedTree()
    for number in range(100_000):
        tree.set(kept(f"site/{number // 100}/device/{number % 100}"))
    assert len(tree) == 100_000
    assert len(list(tree.matching("site/77/#"))) == 100
    assert len(list(tree.matching("site/+/device/5"))) == 1000

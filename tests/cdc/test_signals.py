"""Signals that ask for a snapshot of a table."""

from chordmq.cdc.change import Snapshot
from chordmq.cdc.signals import (
    EXECUTE,
    STOP,
    Signal,
    asked,
    is_read,
    message,
    read_message,
    read_on,
    read_signal,
)

KNOWN = ["a.x", "a.y"]


def test_a_signal_is_read_from_text_or_from_a_document() -> None:
    said = message(EXECUTE, ["a.x"])
    assert read_signal(EXECUTE, said["data"]) == Signal(EXECUTE, ("a.x",))
    assert read_signal(EXECUTE, '{"data-collections": ["a.x"]}') == Signal(EXECUTE, ("a.x",))
    assert read_message(b'{"type": "stop-snapshot"}') == Signal(STOP, ())


def test_what_is_no_signal_asks_for_nothing() -> None:
    assert read_signal("log", "{}") is None
    assert read_signal(EXECUTE, "garbage") is None
    assert read_message(b"garbage") is None


def test_tables_wait_behind_each_other_and_not_twice() -> None:
    first = asked(None, Signal(EXECUTE, ("a.x", "a.z")), KNOWN)
    assert first == Snapshot(["a.x"])
    running = Snapshot(["a.x"], ["5"], 7)
    assert asked(running, Signal(EXECUTE, ("a.y", "a.x")), KNOWN) == Snapshot(
        ["a.x", "a.y"], ["5"], 7
    )


def test_nothing_known_is_nothing_to_read() -> None:
    assert asked(None, Signal(EXECUTE, ("a.z",)), KNOWN) is None


def test_a_snapshot_is_stopped_as_a_whole_or_for_some_tables() -> None:
    running = Snapshot(["a.x", "a.y"], ["5"])
    assert asked(running, Signal(STOP, ()), KNOWN) is None
    assert asked(running, Signal(STOP, ("a.x",)), KNOWN) == Snapshot(["a.y"])
    assert asked(running, Signal(STOP, ("a.y",)), KNOWN) == Snapshot(["a.x"], ["5"])


def test_rows_that_are_read_lead_on_to_the_next_ones_and_then_to_the_next_table() -> None:
    running = Snapshot(["a.x", "a.y"], ["5"], 7)
    assert is_read(running, "a.x")
    assert read_on(running, ["9"], 4, is_final=False) == Snapshot(["a.x", "a.y"], ["9"], 11)
    following = read_on(running, ["9"], 4, is_final=True)
    assert following == Snapshot(["a.y"], None, 11)
    assert not is_read(following, "a.x")
    assert read_on(Snapshot(["a.y"]), None, 0, is_final=True) is None
    assert not is_read(None, "a.y")

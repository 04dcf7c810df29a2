"""Ids of messages that have come."""

from chordmq.client.distinct import DistinctIds, id_of


def test_a_message_that_comes_twice_is_known() -> None:
    """E12: by its id, as long as it is among the last ones."""
    ids = DistinctIds(kept=2)
    assert ids.is_new("a")
    ids.add(["a", "b"])
    assert not ids.is_new("a")
    ids.add(["c"])
    assert ids.is_new("a")
    assert ids.repeated == 1


def test_the_id_stands_in_a_header() -> None:
    assert id_of((("x", b"1"), ("message-id", b"m7"))) == "m7"
    assert id_of(()) is None

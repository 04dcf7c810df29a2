"""The last message of each key."""

from chordmq.client.consumer import Message
from chordmq.client.last_values import LastValues


def message(key: bytes, value: bytes | None, topic: str = "t") -> Message:
    return Message(topic, 0, 0, 0, key, value, ())


def test_the_last_message_of_a_key_is_kept() -> None:
    """E12: and none after it was deleted."""
    last = LastValues()
    for one in (message(b"a", b"1"), message(b"a", b"2"), message(b"b", b"3")):
        last.add(one)
    found = last.get("t", b"a")
    assert found is not None
    assert found.value == b"2"
    assert {one.key for one in last.of("t")} == {b"a", b"b"}
    last.add(message(b"a", None))
    assert last.get("t", b"a") is None


def test_what_changed_longest_ago_gives_way() -> None:
    last = LastValues(values_max=2)
    for key in (b"a", b"b", b"a", b"c"):
        last.add(message(key, b"x"))
    assert [one.key for one in last.of("t")] == [b"a", b"c"]
    assert len(last) == 2

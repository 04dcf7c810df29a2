"""The part of a consumer's subscription that the broker reads."""

import hypothesis.strategies as st
from hypothesis import given

from chordmq.broker.groups.consumer_protocol import subscribed_topics


def subscription(*topics: str, version: int = 1, rest: bytes = b"\xff\xff\xff\xff") -> bytes:
    names = b"".join(len(t.encode()).to_bytes(2, "big") + t.encode() for t in topics)
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + rest


def test_the_topics_of_a_subscription_are_read_whatever_follows_them() -> None:
    assert subscribed_topics(subscription("a", "ü")) == frozenset({"a", "ü"})
    assert subscribed_topics(subscription(version=3, rest=b"anything")) == frozenset()


def test_a_subscription_that_is_cut_off_is_not_understood() -> None:
    whole = subscription("topic", rest=b"")
    for size in range(len(whole)):
        assert subscribed_topics(whole[:size]) is None


@given(st.binary(max_size=60))
def test_garbage_is_never_an_error(data: bytes) -> None:
    subscribed_topics(data)

"""Exchanges and queues as topics, messages as records, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.queues.exchanges import topic_matches
from chordmq.broker.queues.places import (
    TOPIC_LENGTH_MAX,
    filter_of_pattern,
    foreign_envelope,
    key_of_name,
    name_of_key,
    record_key,
    record_time,
    routing_key,
    topic_name,
    visible_headers,
)
from chordmq.broker.subscriptions import matches
from chordmq.broker.topic import check_name
from chordmq.codecs.amqp.content import new_properties
from chordmq.records.record import Record


@given(st.text(max_size=255))
def test_every_name_has_a_legal_topic(name: str) -> None:
    topic = topic_name("/", name)
    check_name(topic)
    assert not topic.startswith("__")


def test_plain_names_are_topics_and_virtual_hosts_are_prefixes() -> None:
    assert topic_name("/", "orders") == "orders"
    assert topic_name("shop", "orders") == "shop.orders"


def test_names_that_look_alike_without_their_odd_characters_stay_apart() -> None:
    names = ["a b", "a_b", "a/b", "a:b", "__consumer_offsets", "x" * 255, "x" * 254]
    topics = {topic_name("/", name) for name in names}
    assert len(topics) == len(names)
    assert all(len(topic) <= TOPIC_LENGTH_MAX for topic in topics)


@given(st.text("ab./", max_size=20))
def test_routing_keys_are_names_with_levels_and_back(key: str) -> None:
    """X1, E2: `amq.topic` and MQTT meet."""
    assert key_of_name(name_of_key(key)) == key


@given(st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=4), st.data())
def test_a_filter_lets_through_all_that_a_pattern_does(
    words: list[str], data: st.DataObject
) -> None:
    pattern = ".".join(words)
    key = ".".join(data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4)))
    if topic_matches(pattern, key):
        assert matches(filter_of_pattern(pattern), name_of_key(key))


def test_records_of_other_fronts_are_messages() -> None:
    """X1: key, headers, time and the lack of a value."""
    headers = (("t", b"1"), ("t", b"2"), ("raw", b"\xff"), ("none", None), ("chordmq.x", b"own"))
    record = Record(5, 1_700_000_000_123, b"\xff", None, headers)
    found = foreign_envelope("/", "orders", routing_key(record), record).properties
    assert found.timestamp == 1_700_000_000
    assert dict(found.headers) == {
        "t": ["1", "2"],
        "raw": bytearray(b"\xff"),
        "none": None,
        "timestamp_in_ms": 1_700_000_000_123,
        "chordmq.key": bytearray(b"\xff"),
        "chordmq.null": True,
    }
    assert visible_headers(found) == headers[:4]
    assert record_key("orders", "", found) == b"\xff"
    assert record_time(found, 0) == 1_700_000_000_123


@pytest.mark.parametrize(
    ("key", "expected"),
    [(None, ""), (b"", ""), (b"k", "k"), ("ü".encode(), "ü"), (b"\xff", ""), (b"x" * 256, "")],
)
def test_a_key_is_a_routing_key_if_it_can_be(key: bytes | None, expected: str) -> None:
    assert routing_key(Record(0, 0, key, b"")) == expected


def test_the_routing_key_is_the_key_except_where_it_names_a_queue() -> None:
    plain = new_properties({}, 0)
    assert record_key("orders", "k", plain) == b"k"
    assert record_key("orders", "", plain) is None
    assert record_key("", "queue", plain) is None
    assert record_key("", "queue", new_properties({"chordmq.key": "own"}, 0)) == b"own"

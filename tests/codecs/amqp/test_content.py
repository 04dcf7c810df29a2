"""Properties and envelopes: kept as they came, changed only where they must be."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from chordmq.codecs.amqp.content import (
    EXPIRATION,
    Envelope,
    from_names,
    new_properties,
    read_envelope,
    read_properties,
    to_names,
    with_headers,
    with_reply_to,
    without,
    write_envelope,
)
from chordmq.errors import DecodeError

ALL = commands.Basic.Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"n": 1, "CC": ["c"], "BCC": ["b"]},
    delivery_mode=2,
    priority=7,
    correlation_id="c",
    reply_to="r",
    expiration="1000",
    message_id="m",
    timestamp=datetime(2026, 1, 2, tzinfo=UTC),
    message_type="t",
    user_id="u",
    app_id="a",
).marshal()


def read_back(raw: bytes) -> commands.Basic.Properties:
    """Return properties as pamqp reads them."""
    found = commands.Basic.Properties()
    found.unmarshal(int.from_bytes(raw[:2], "big"), raw[2:])
    return found


def test_what_the_broker_looks_at_is_read() -> None:
    found = read_properties(ALL)
    assert found.raw == ALL
    assert found.headers["n"] == 1
    assert (found.priority, found.expiration, found.user_id) == (7, "1000", "u")
    assert found.reply_to == "r"
    assert found.timestamp == 1767312000
    assert found.keys == ("c", "b")


def test_changes_leave_all_else_as_it_was() -> None:
    left = without(read_properties(ALL), EXPIRATION)
    left = with_reply_to(with_headers(left, {"x": [{"deep": 0.1}]}), "elsewhere")
    found, before = read_back(left.raw), read_back(ALL)
    assert found.expiration is None
    assert found.reply_to == "elsewhere"
    assert found.headers == {"x": [{"deep": 0.1}]}
    for name in ("content_type", "priority", "correlation_id", "message_id", "timestamp", "app_id"):
        assert getattr(found, name) == getattr(before, name)


def test_new_properties_are_those_of_a_message_that_is_kept() -> None:
    found = read_back(new_properties({"a": b"\xff"}, 1_700_000_000).raw)
    assert found.delivery_mode == 2
    assert found.headers == {"a": b"\xff"}


@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, 2**63))
def test_envelopes_come_back(exchange: str, key: str, stamp: int) -> None:
    envelope = Envelope("/", exchange, key, read_properties(ALL))
    found_stamp, found = read_envelope(write_envelope(stamp, envelope))
    assert found_stamp == stamp
    assert (found.vhost, found.exchange, found.key) == ("/", exchange, key)
    assert found.properties.raw == ALL


@given(st.binary(max_size=100))
def test_garbage_raises_decode_error_and_nothing_else(data: bytes) -> None:
    for read in (read_properties, read_envelope):
        try:
            read(data)
        except DecodeError:
            pass


@pytest.mark.parametrize("position", range(len(ALL)))
def test_a_mutated_property_raises_decode_error_or_means_something(position: int) -> None:
    for value in (0, 0x7F, 0xFF, ALL[position] ^ 1):
        try:
            read_properties(ALL[:position] + bytes((value,)) + ALL[position + 1 :])
        except DecodeError:
            pass


def test_properties_can_be_given_and_shown_by_their_names() -> None:
    named = {
        "content_type": "t",
        "content_encoding": "e",
        "headers": {"a": 1},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "5",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "k",
        "user_id": "u",
        "app_id": "a",
    }
    assert to_names(from_names(named)) == named
    for wrong in ({"none": 1}, {"priority": "high"}, {"headers": 5}, {"timestamp": 2**70}):
        with pytest.raises(DecodeError):
            from_names(wrong)

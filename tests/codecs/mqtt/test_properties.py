"""The properties of MQTT 5: every one there and back, and none where it does not belong."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt.errors import MalformedPacket
from chordmq.codecs.mqtt.properties import (
    KINDS,
    NONE,
    Properties,
    read_properties,
    write_properties,
)

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
MESSAGES = st.builds(
    Properties,
    payload_format=st.none() | st.integers(0, 1),
    message_expiry_s=st.none() | st.integers(0, 2**32 - 1),
    content_type=st.none() | TEXTS,
    response_topic=st.none() | TEXTS,
    correlation_data=st.none() | st.binary(max_size=20),
    subscription_ids=st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple),
    topic_alias=st.none() | st.integers(0, 65_535),
    user=st.lists(st.tuples(TEXTS, TEXTS), max_size=4).map(tuple),
)


@given(MESSAGES)
def test_what_is_written_is_read(properties: Properties) -> None:
    data = write_properties(properties)
    assert read_properties(data, 0, len(data), kinds.PUBLISH) == (properties, len(data))


def test_nothing_is_one_byte() -> None:
    assert write_properties(NONE) == b"\0"
    assert read_properties(b"\0", 0, 1, kinds.PUBLISH) == (NONE, 1)


def test_golden_bytes() -> None:
    """The numbers of MQTT 5, section 2.2.2.2."""
    properties = Properties(session_expiry_s=10, receive_maximum=20, user=(("a", "b"),))
    data = bytes.fromhex("0f 11 0000000a 21 0014 26 0001 61 0001 62".replace(" ", ""))
    assert write_properties(properties) == data
    assert read_properties(data, 0, len(data), kinds.CONNECT) == (properties, len(data))


@pytest.mark.parametrize("name", [one.name for one in fields(Properties)])
def test_a_property_is_refused_where_it_does_not_belong(name: str) -> None:
    values = {"user": (("a", "b"),), "subscription_ids": (1,)}
    texts = ("content_type", "response_topic", "assigned_client_id", "authentication_method",
             "response_information", "server_reference", "reason_string")  # fmt: skip
    binary = ("correlation_data", "authentication_data")
    value = values.get(name, "x" if name in texts else b"x" if name in binary else 1)
    data = write_properties(Properties(**{name: value}))  # type: ignore[arg-type]
    for packet in range(1, 17):
        if packet in KINDS[name].packets:
            found, _ = read_properties(data, 0, len(data), packet)
            assert getattr(found, name) == value
        else:
            with pytest.raises(MalformedPacket):
                read_properties(data, 0, len(data), packet)


@given(st.binary(max_size=40), st.integers(1, 16))
def test_garbage_is_malformed_or_fine(data: bytes, packet: int) -> None:
    try:
        read_properties(data, 0, len(data), packet)
    except MalformedPacket:
        pass

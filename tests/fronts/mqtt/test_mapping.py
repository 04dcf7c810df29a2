"""Messages as records and back: what is kept under which header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.mqtt.properties import Properties
from chordmq.errors import InvalidRequest
from chordmq.fronts.mqtt.appends import Told
from chordmq.fronts.mqtt.mapping import Parcel, extras_of, headers_of, parcel_of, properties_of
from chordmq.records.record import Record

NOW_MS = 1_700_000_000_000
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
NAMES = TEXTS.filter(lambda name: not name.startswith("chordmq.") and ";" not in name)
PROPERTIES = st.builds(
    Properties,
    payload_format=st.none() | st.integers(0, 1),
    content_type=st.none() | TEXTS,
    response_topic=st.none() | TEXTS,
    correlation_data=st.none() | st.binary(max_size=10),
    user=st.lists(st.tuples(NAMES, TEXTS), max_size=4).map(tuple),
)


@given(PROPERTIES)
def test_properties_pass_through_a_record(properties: Properties) -> None:
    """X1: what a message says is in its headers, and comes back."""
    known = {"content-type", "response-topic", "correlation-data"}
    if known & {name for name, _ in properties.user}:
        return  # a user property of the same name takes the place of one that is not there
    extras = extras_of(properties, NOW_MS)
    parcel = parcel_of("t", Record(0, NOW_MS, None, b"", extras.headers))
    assert properties_of(parcel, is_full=False) == properties


def test_key_time_and_null_are_user_properties() -> None:
    """X1: for clients that ask for them, both ways."""
    record = Record(5, NOW_MS, b"\xff", None, (("h", None), ("raw", b"\xfe")))
    full = properties_of(parcel_of("t", record), is_full=True)
    extras = extras_of(full, 0)
    assert (extras.key, extras.timestamp_ms, extras.is_null) == (b"\xff", NOW_MS, True)
    assert extras.headers == (("h", None), ("raw", b"\xfe"))


@pytest.mark.parametrize(("qos", "value"), [(0, b"0"), (1, None), (2, b"2")])
def test_the_qos_is_a_header_except_for_1(qos: int, value: bytes | None) -> None:
    headers = headers_of("a/b", qos, is_named=True)
    assert headers[0] == ("chordmq.topic", b"a/b")
    assert dict(headers).get("chordmq.qos") == value
    assert parcel_of("a.b", Record(0, 0, None, b"", headers)).qos == qos


def test_expiry_is_kept_as_a_time() -> None:
    extras = extras_of(Properties(message_expiry_s=10), NOW_MS)
    parcel = parcel_of("t", Record(0, 0, None, b"", extras.headers))
    assert parcel.expires_ms == NOW_MS + 10_000


@pytest.mark.parametrize(
    "user", [("chordmq.key-base64", "%"), ("chordmq.timestamp", "now"), ("x;base64", "é")]
)
def test_nonsense_is_refused(user: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        extras_of(Properties(user=(user,)), NOW_MS)


def test_joined_messages_come_apart_by_who_has_sent_them() -> None:
    parcel = Parcel("n", b"\0\1n", [b"a", b"b", b"c", b"d"], 1, base_offset=10, sender="one")
    counts = (("one", 2), ("two", 1), ("one", 1))
    parcel.shares = [Told(sender, count, 0, lambda error: None) for sender, count in counts]
    found = [(one.sender, one.base_offset, one.payloads) for one in parcel.by_sender()]
    assert found == [("one", 10, [b"a", b"b"]), ("two", 12, [b"c"]), ("one", 13, [b"d"])]

"""Records as JSON and back, for whatever bytes there may be."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.texts import Shown
from chordmq.fronts.admin.mapping import RecordToPublish, from_record, to_record
from chordmq.records.record import NewRecord, Record

BYTES = st.none() | st.binary(max_size=50) | st.text(max_size=20).map(str.encode)
JSON_TEXTS = st.sampled_from([b"{}", b"null", b'"x"', b" [1, 2.0]", b"1e400", b"\xff", b"[1,"])
HEADERS = st.lists(st.tuples(st.text(max_size=10), BYTES), max_size=3).map(tuple)


@given(
    key=BYTES,
    value=BYTES | JSON_TEXTS,
    headers=HEADERS,
    timestamp=st.integers(0, 2**62),
    shown=st.sampled_from(["auto", "utf-8", "base64"]),
)
def test_every_record_survives_the_way_through_json(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    timestamp: int,
    shown: Shown,
) -> None:
    """X1: key, value, headers and time arrive as they were sent, byte for byte."""
    record = Record(5, timestamp, key, value, headers)
    data = msgspec.json.encode(from_record(0, record, shown))
    back = to_record(msgspec.json.decode(data, type=RecordToPublish), now_ms=0)
    assert back == NewRecord(timestamp, key, value, headers)


@given(value=BYTES | JSON_TEXTS)
def test_a_value_shown_as_json_is_json_or_told_apart(value: bytes | None) -> None:
    """A value that is the text `null` is the one that json shows like none."""
    data = msgspec.json.encode(from_record(0, Record(0, 1, None, value), "json"))
    back = to_record(msgspec.json.decode(data, type=RecordToPublish), now_ms=0)
    expected = None if value is not None and value.strip() == b"null" else value
    assert (back.value or b"").strip() == (expected or b"").strip()

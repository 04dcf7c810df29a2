"""The gateway's messages in both sub-protocols: nothing of a record is lost in either."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.websocket.messages import Publish
from chordmq.codecs.websocket.subprotocols import Json, MessagePack, Subprotocol
from chordmq.errors import InvalidRecord, InvalidRequest
from chordmq.records.record import NewRecord, Record

BYTES = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
RECORDS = st.builds(Record, st.integers(0, 2**62), st.integers(0, 2**62), BYTES, BYTES, HEADERS)
SUBPROTOCOLS: list[Subprotocol] = [Json(), MessagePack()]


def published(subprotocol: Subprotocol, shown: dict[str, Any]) -> NewRecord:
    """Return what comes of a record that is published as it was shown."""
    message = {key: value for key, value in shown.items() if key not in ("offset", "name")}
    message |= {"type": "publish", "topic": "t"}
    kind = msgspec.json if isinstance(subprotocol, Json) else msgspec.msgpack
    request = subprotocol.read(kind.encode(message))
    assert isinstance(request, Publish)
    return subprotocol.to_record(request, 0)


@pytest.mark.parametrize("subprotocol", SUBPROTOCOLS, ids=lambda one: one.name)
@given(record=RECORDS, shown=st.sampled_from(["auto", "utf-8", "base64"]))
def test_a_record_that_is_published_as_it_was_shown_is_the_same(
    subprotocol: Subprotocol, record: Record, shown: Any
) -> None:
    """X1: key, value, headers and time, null or empty, text or not."""
    data = subprotocol.from_record(3, record, "", shown)
    kind = msgspec.json if isinstance(subprotocol, Json) else msgspec.msgpack
    found = kind.decode(data)
    assert (found["partition"], found["offset"]) == (3, record.offset)
    assert published(subprotocol, found) == NewRecord(*record[1:])


@pytest.mark.parametrize("subprotocol", SUBPROTOCOLS, ids=lambda one: one.name)
@pytest.mark.parametrize("count", [1, 15, 16, 70_000])
def test_joined_records_are_one_message(subprotocol: Subprotocol, count: int) -> None:
    record = subprotocol.from_record(0, Record(1, 2, b"k", b"v"), "a/b", "auto")
    head = subprotocol.records_head("sub")
    data = head + subprotocol.records_tail("topic", "0:5,1:7", [record] * count)
    kind = msgspec.json if isinstance(subprotocol, Json) else msgspec.msgpack
    message = kind.decode(data)
    assert message["type"] == "records"
    assert (message["id"], message["topic"], message["position"]) == ("sub", "topic", "0:5,1:7")
    assert len(message["records"]) == count
    assert message["records"][-1]["name"] == "a/b"


def test_json_values_can_be_sent_and_shown_as_json() -> None:
    request = Json().read(
        b'{"type":"publish","topic":"t","value":{"a":[1]},"encoding":"json","headers":{"h":"x"}}'
    )
    assert isinstance(request, Publish)
    record = Json().to_record(request, 5)
    assert record == NewRecord(5, None, b'{"a":[1]}', (("h", b"x"),))
    shown = Json().from_record(0, Record(0, *record), "", "json")
    assert json.loads(shown)["value"] == {"a": [1]}


@pytest.mark.parametrize("subprotocol", SUBPROTOCOLS, ids=lambda one: one.name)
@given(data=st.binary(max_size=60))
def test_garbage_raises_invalid_request_and_nothing_else(
    subprotocol: Subprotocol, data: bytes
) -> None:
    with pytest.raises(InvalidRequest):
        subprotocol.read(data)


def test_deep_json_raises_invalid_request_and_nothing_else() -> None:
    deep = b'{"type":"publish","topic":"t","value":' + b"[" * 100_000
    with pytest.raises(InvalidRequest):
        Json().read(deep)


@pytest.mark.parametrize("fields", ['"value":5', '"value":"?","encoding":"base64"'])
def test_what_is_no_value_is_refused(fields: str) -> None:
    request = Json().read(b'{"type":"publish","topic":"t",' + fields.encode() + b"}")
    assert isinstance(request, Publish)
    with pytest.raises(InvalidRecord):
        Json().to_record(request, 0)

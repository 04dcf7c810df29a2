"""The envelope: what the code takes and what its schema says are the same."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import InvalidEnvelope
from chordmq.iot.envelope import MessageType, Origin, enveloped, is_enveloped, read, wrap

SCHEMA = json.loads((Path(__file__).parents[2] / "schema" / "envelope.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ORIGIN = Origin(message_id="m-1", now_ms=1_700_000_000_123, topic="a/b/c", source="sensor-7")
GOOD: dict[str, Any] = {
    "metadata": {
        "messageId": "m-1",
        "timestamp": "2026-11-15T08:00:00.5+01:00",
        "topic": "iotsphere/devices/d7/telemetry",
        "source": "d7",
        "correlationId": "c-1",
        "messageType": "event",
        "version": "1.0",
    },
    "payload": {"temperature": 21.5},
}


def changed(**metadata: Any) -> dict[str, Any]:
    kept = {name: value for name, value in (GOOD["metadata"] | metadata).items() if value != ...}
    return GOOD | {"metadata": kept}


def test_a_good_envelope_is_read() -> None:
    """E1: all fields, whatever else stands among them."""
    envelope = read(json.dumps(changed(traceId="t")).encode())
    metadata = envelope.metadata
    assert metadata.timestamp == datetime(2026, 11, 15, 7, 0, 0, 500_000, UTC)
    assert (metadata.message_id, metadata.message_type) == ("m-1", MessageType.EVENT)
    assert json.loads(envelope.content) == {"temperature": 21.5}
    assert VALIDATOR.is_valid(changed(traceId="t"))


BAD: dict[str, Any] = {
    "messageId": changed(messageId=""),
    "message_id": changed(messageId=...),
    "timestamp": changed(timestamp="yesterday"),
    "zone": changed(timestamp="2026-11-15T08:00:00"),
    "topic": changed(topic=7),
    "source": changed(source=...),
    "correlation": changed(correlationId=""),
    "type": changed(messageType="rumour"),
    "version": changed(version="2.0"),
    "number": changed(version=1),
    "encoding": changed(payloadEncoding="rot13"),
    "payload": {"metadata": GOOD["metadata"]},
    "more": GOOD | {"signature": "x"},
    "metadata": {"metadata": None, "payload": 1},
    "list": [GOOD],
}


@pytest.mark.parametrize("bad", BAD.values(), ids=list(BAD))
def test_a_bad_envelope_is_refused_with_the_reason_and_by_the_schema(bad: Any) -> None:
    """E1: code and schema agree."""
    with pytest.raises(InvalidEnvelope) as refusal:
        read(json.dumps(bad).encode())
    assert str(refusal.value)
    if bad not in (BAD["timestamp"], BAD["zone"]):  # formats are checked by an extra package
        assert not VALIDATOR.is_valid(bad)


def _as_json(content: bytes) -> object:
    text = content.decode()
    try:
        return json.loads(text)
    except ValueError:
        return text


JSON_TEXTS = (b'{"a": 1}', b" 0", b"1\n")


@given(st.none() | st.binary() | st.text().map(str.encode) | st.sampled_from(JSON_TEXTS))
def test_whatever_is_wrapped_is_a_good_envelope_and_comes_out_again(content: bytes | None) -> None:
    """E1: a message without an envelope is wrapped."""
    data = wrap(content, ORIGIN)
    envelope = read(data)
    assert VALIDATOR.is_valid(json.loads(data))
    assert is_enveloped(data)
    inside = envelope.content
    if content is not None and inside != content:
        assert json.loads(inside) == _as_json(content), "only the blanks around JSON may be lost"
    assert envelope.metadata.timestamp == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)


@given(st.binary())
def test_garbage_is_refused_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        read(data)
    assert not is_enveloped(data)


def test_a_message_keeps_its_own_envelope_if_that_is_right() -> None:
    """E1: one with a bad envelope is not wrapped in another."""
    good = json.dumps(GOOD).encode()
    assert enveloped(good, ORIGIN) == good
    assert read(enveloped(b"21.5", ORIGIN)).content == b"21.5"
    with pytest.raises(InvalidEnvelope, match="rumour"):
        enveloped(json.dumps(BAD["type"]).encode(), ORIGIN)


def test_a_payload_in_bad_base64_is_refused() -> None:
    bad = changed(payloadEncoding="base64") | {"payload": "%%%"}
    with pytest.raises(InvalidEnvelope, match="base64"):
        read(json.dumps(bad).encode())

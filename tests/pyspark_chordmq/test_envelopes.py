"""Envelopes as a typed column."""

import json
from datetime import UTC, datetime

import pyarrow as pa

from chordmq.iot.envelope import Origin, wrap
from pyspark_chordmq.envelopes import ENVELOPE, envelopes

ORIGIN = Origin(message_id="m-1", now_ms=1_700_000_000_123, topic="a/b/c", source="sensor-7")


def test_a_right_envelope_becomes_typed_fields_and_anything_else_null() -> None:
    """P2, E1: the same rules as at the gateways decide what an envelope is."""
    good = wrap(b'{"value": 21.5}', ORIGIN)
    wrong = json.dumps({"metadata": {"messageId": "m"}, "payload": 1}).encode()
    found = envelopes(pa.array([good, None, b"21.5", wrong, b"\xff", b""], pa.binary()))
    assert found.type == ENVELOPE
    first, *others = found.to_pylist()
    assert (first["messageId"], first["topic"], first["source"]) == ("m-1", "a/b/c", "sensor-7")
    assert first["timestamp"] == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert (first["messageType"], first["correlationId"]) == ("event", None)
    assert json.loads(first["payload"]) == {"value": 21.5}
    assert others == [None] * 5


def test_no_values_are_no_envelopes() -> None:
    assert len(envelopes(pa.array([], pa.binary()))) == 0

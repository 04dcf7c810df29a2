"""The envelopes of messages as one typed column, decoded where the records are read."""

import pyarrow as pa

from chordmq.errors import InvalidEnvelope
from chordmq.iot.envelope import read

ENVELOPE = pa.struct(
    [
        ("messageId", pa.string()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("topic", pa.string()),
        ("source", pa.string()),
        ("correlationId", pa.string()),
        ("messageType", pa.string()),
        ("version", pa.string()),
        ("payload", pa.string()),
    ]
)
"""What an envelope says, by the names of `schema/envelope.json`; the payload as JSON text."""


def envelopes(values: pa.Array) -> pa.Array:
    """Return the envelope of each value; null for one that has none, or a wrong one."""
    rows = [_fields(value) for value in values.to_pylist()]
    columns = zip(*(row or (None,) * ENVELOPE.num_fields for row in rows), strict=True)
    arrays = [
        pa.array(column, ENVELOPE.field(place).type) for place, column in enumerate(columns)
    ] or [pa.nulls(0, field.type) for field in ENVELOPE]
    missing = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(ENVELOPE), mask=missing)


def _fields(value: bytes | None) -> tuple[object, ...] | None:
    if not value:
        return None
    try:
        envelope = read(value)
        payload = bytes(envelope.payload).decode()
    except (InvalidEnvelope, UnicodeDecodeError):
        return None
    said = envelope.metadata
    return (
        said.message_id,
        said.timestamp,
        said.topic,
        said.source,
        said.correlation_id,
        said.message_type.value,
        said.version,
        payload,
    )

"""The schema of the Cap'n Proto front."""

from pathlib import Path

from chordmq.codecs.capnp.schema import FILE, SCHEMA

PUBLISHED = Path(__file__).resolve().parents[3] / "schema" / "chordmq.capnp"


def test_the_node_uses_the_schema_that_is_published() -> None:
    assert FILE.read_bytes() == PUBLISHED.read_bytes()


def test_what_is_missing_is_not_what_is_empty() -> None:
    missing = SCHEMA.Message.from_bytes_packed(SCHEMA.Message.new_message().to_bytes_packed())
    empty = SCHEMA.Message.new_message(key=b"", value=b"")
    assert not missing._has("key")
    assert not missing._has("value")
    assert empty._has("key")
    assert empty._has("value")
    assert missing.timestampMs == missing.partition == -1

"""Rings of keys as text: what is written is read, and what is not a ring is refused."""

import base64
import json

import pytest

from chordmq.encryption.errors import InvalidKeys
from chordmq.encryption.keyring import new_ring, read_ring


def test_a_ring_is_read_as_it_was_written() -> None:
    ring = new_ring(5).rotated(6)
    assert read_ring(ring.text()) == ring
    assert ring.current.startswith("k2-")


def test_keys_are_not_printed() -> None:
    ring = new_ring(5)
    assert ring.keys[0].key.hex() not in repr(ring)
    assert repr(ring.keys[0].key) not in repr(ring)


KEY = {"id": "one", "created_ms": 0, "key": base64.b64encode(bytes(32)).decode()}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": [{"id": "a", "created_ms": 0, "key": "c2hvcnQ="}]}',
        json.dumps({"keys": [KEY, KEY]}),
        json.dumps({"keys": [KEY | {"id": ""}]}),
    ],
    ids=["nothing", "no JSON", "list", "no keys", "none", "short key", "same id", "no id"],
)
def test_what_is_no_ring_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(InvalidKeys) as caught:
        read_ring(text)
    assert "hunter2" not in str(caught.value)

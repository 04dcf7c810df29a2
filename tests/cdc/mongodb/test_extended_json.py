"""Documents and keys as text, in the form that Debezium gives them."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Int64, ObjectId, decode, encode

from chordmq.cdc.mongodb.extended_json import key_text, relaxed, strict
from chordmq.cdc.mongodb.server import CODEC


def stored(value: Any) -> Any:
    """Return a value as it comes from the server."""
    return decode(encode({"v": value}), CODEC)["v"]


def test_documents_are_in_the_old_strict_form() -> None:
    document = stored({"n": Int64(5), "d": datetime(2024, 1, 1, tzinfo=UTC), "b": b"\x00"})
    assert json.loads(strict(document) or "") == {
        "n": {"$numberLong": "5"},
        "d": {"$date": 1704067200000},
        "b": {"$binary": "AA==", "$type": "00"},
    }
    assert strict(None) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        (5, "5"),
        (Int64(2**40), "1099511627776"),
        (ObjectId("65e05a100000000000000001"), '{"$oid": "65e05a100000000000000001"}'),
        ({"a": 1, "b": "x"}, '{"a": 1,"b": "x"}'),
        (datetime(2024, 1, 1, tzinfo=UTC), '{"$date": "2024-01-01T00:00:00Z"}'),
        (b"\x00", '{"$binary": {"base64": "AA==","subType": "00"}}'),
    ],
)
def test_keys_are_byte_for_byte_those_of_debezium(value: Any, text: str) -> None:
    assert key_text(stored(value)) == text


def test_dates_before_1970_are_numbers_in_the_relaxed_form() -> None:
    early = stored(datetime(1960, 1, 1, tzinfo=UTC))
    assert json.loads(relaxed(early)) == {"$date": {"$numberLong": "-315619200000"}}


def test_a_value_of_a_strange_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no form in JSON"):
        strict({"a": object()})

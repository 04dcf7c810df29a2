"""Bytes of records in JSON and back, as all fronts that speak JSON do it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from chordmq.codecs.texts import (
    Header,
    Shown,
    from_bytes,
    from_header,
    to_bytes,
    to_headers,
)
from chordmq.errors import InvalidRecord

BYTES = st.none() | st.binary() | st.text().map(str.encode) | st.just(b'{"a": [1]}')
SHOWN: list[Shown] = ["auto", "utf-8", "base64", "json"]


@given(BYTES, st.sampled_from(SHOWN))
def test_what_is_shown_can_be_sent_on_as_it_is(data: bytes | None, shown: Shown) -> None:
    """X1: no byte is lost on the way through JSON, whatever the encoding."""
    text, encoding = from_bytes(data, shown)
    raw = text if isinstance(text, Raw) else Raw(json.dumps(text).encode())
    if data == b"null" and encoding == "json":
        return  # as JSON it means no value
    assert to_bytes(raw, encoding) == data


@given(st.text(), BYTES, st.sampled_from(SHOWN))
def test_headers_come_back_as_they_were(name: str, data: bytes | None, shown: Shown) -> None:
    assert to_headers([from_header(name, data, shown)]) == ((name, data),)


@pytest.mark.parametrize(
    ("raw", "encoding"), [(b"1", "utf-8"), (b'"%"', "base64"), (b'"\\ud800"', "utf-8")]
)
def test_what_is_not_what_it_says_is_refused(raw: bytes, encoding: str) -> None:
    with pytest.raises(InvalidRecord):
        to_bytes(Raw(raw), encoding)  # type: ignore[arg-type]


def test_a_header_in_bad_base64_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        to_headers([Header("h", "%", "base64")])

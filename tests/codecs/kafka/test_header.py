"""Tests of request and response headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.kafka.apis import APIS
from chordmq.codecs.kafka.header import (
    RequestHeader,
    read_request_header,
    request_head,
    response_head,
)
from chordmq.errors import DecodeError

API_VERSIONS, METADATA, SASL_HANDSHAKE = 18, 3, 17


def test_an_old_header_ends_with_the_client_id() -> None:
    frame = bytes.fromhex("0003 0008 00000007 0003 616263".replace(" ", "")) + b"body"
    assert read_request_header(frame) == RequestHeader(METADATA, 8, 7, "abc", 13)


def test_a_flexible_header_has_tags_but_an_old_client_id() -> None:
    """C1: the client id keeps its two-byte length in header version 2, unlike other text."""
    frame = bytes.fromhex("0003 0009 00000007 0003 616263 00".replace(" ", "")) + b"body"
    assert read_request_header(frame) == RequestHeader(METADATA, 9, 7, "abc", 14)


def test_unknown_tags_in_a_header_are_skipped() -> None:
    frame = bytes.fromhex("0003 0009 00000007 ffff 01 05 02 aabb".replace(" ", ""))
    assert read_request_header(memoryview(frame)) == RequestHeader(METADATA, 9, 7, None, 15)


def test_api_versions_is_answered_without_tags_in_every_version() -> None:
    """C12: a client that does not know our versions yet can read the answer."""
    for version in (0, 3, 4, 99):
        assert response_head(7, API_VERSIONS, version) == b"\0\0\0\x07"


def test_response_heads_have_tags_in_flexible_versions_only() -> None:
    assert response_head(7, METADATA, 8) == b"\0\0\0\x07"
    assert response_head(7, METADATA, 9) == b"\0\0\0\x07\0"
    assert response_head(7, SASL_HANDSHAKE, 1) == b"\0\0\0\x07"


def test_the_header_of_a_version_that_is_too_new_is_still_read() -> None:
    """C12: ApiVersions of the future gets an answer, not a closed connection."""
    frame = request_head(API_VERSIONS, 99, 5, "new") + b"what we cannot parse"
    assert read_request_header(frame)[:4] == (API_VERSIONS, 99, 5, "new")


@given(
    key=st.sampled_from(sorted(APIS)),
    version=st.integers(0, 20),
    number=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_request_heads_come_back(
    key: int, version: int, number: int, client_id: str | None
) -> None:
    head = request_head(key, version, number, client_id)
    expected = RequestHeader(key, version, number, client_id, len(head))
    assert read_request_header(head + b"body") == expected


@given(st.binary(max_size=40))
def test_garbage_raises_decode_error_and_nothing_else(frame: bytes) -> None:
    """C12: a malformed frame is refused with one error."""
    try:
        read_request_header(frame)
    except DecodeError:
        pass


@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        ("", "request header"),
        ("0003000800000007", "request header"),
        ("0003000800000007 0009 61", "client id"),
        ("0003000800000007 fffe", "client id"),
        ("0003000800000007 0001 ff", "request header"),
        ("7fff000000000007 ffff", "unknown API key 32767"),
        ("0003000900000007 ffff", "ends inside"),
        ("0003000900000007 ffff 01 00 7f", "tagged field 0"),
    ],
)
def test_malformed_headers_are_refused(frame: str, fault: str) -> None:
    with pytest.raises(DecodeError, match=fault):
        read_request_header(bytes.fromhex(frame))

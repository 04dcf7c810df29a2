"""The headers before Kafka requests and responses, and where the body starts."""

import struct
from typing import NamedTuple

from chordmq.codecs.cursor import Buffer
from chordmq.codecs.kafka.apis import APIS
from chordmq.codecs.kafka.decoder import skip_tags
from chordmq.errors import DecodeError

API_VERSIONS = 18

_REQUEST = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """What stands before a request's body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int
    """Where the body starts in the frame."""


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether the messages of this version have compact lengths and tagged fields."""
    since = APIS[api_key].flexible_since
    return since is not None and version >= since


def read_request_header(frame: Buffer) -> RequestHeader:
    """Read the header of a request; an API without a codec is a DecodeError, a version is not."""
    try:
        api_key, version, correlation_id, size = _REQUEST.unpack_from(frame)
        body = _REQUEST.size
        client_id = None
        if size != -1:
            if size < 0 or body + size > len(frame):
                raise DecodeError("the client id is longer than the frame")
            client_id = str(frame[body : body + size], "utf-8")
            body += size
    except (struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"request header: {error}") from error
    if api_key not in APIS:
        raise DecodeError(f"unknown API key {api_key}")
    if is_flexible(api_key, version):
        body = skip_tags(frame, body)
    return RequestHeader(api_key, version, correlation_id, client_id, body)


def response_head(correlation_id: int, api_key: int, version: int) -> bytes:
    """Return the header of a response, without the frame's size."""
    head = _CORRELATION.pack(correlation_id)
    # A client that does not know the broker yet must be able to read ApiVersions: always v0.
    if api_key != API_VERSIONS and is_flexible(api_key, version):
        head += b"\0"
    return head


def request_head(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header of a request, without the frame's size."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    tags = b"\0" if is_flexible(api_key, version) else b""
    return _REQUEST.pack(api_key, version, correlation_id, size) + name + tags

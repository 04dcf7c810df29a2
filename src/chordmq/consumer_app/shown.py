"""Bytes as JSON shows them: text where they are text, else in base64 (pure)."""

from base64 import b64decode, b64encode
from typing import Any


def shown(data: bytes | None) -> Any:
    """Return bytes as text where they are text, else in base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def as_bytes(data: Any) -> bytes | None:
    """Return what `shown` was given; bytes stay as they are."""
    if data is None or isinstance(data, bytes):
        return data
    return b64decode(data["base64"]) if isinstance(data, dict) else str(data).encode()

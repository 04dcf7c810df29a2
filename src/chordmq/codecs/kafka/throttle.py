"""Writes into a finished response for how long its client has to wait."""

import struct
from collections.abc import Sequence
from functools import cache
from importlib import import_module

from chordmq.codecs.cursor import Buffer
from chordmq.codecs.kafka.apis import APIS
from chordmq.codecs.kafka.wire import FORMATS, fields_at

PRODUCE = 0
FIELD = "throttle_time_ms"

_INT32 = struct.Struct(">i")


def stamp(buffers: Sequence[Buffer], api_key: int, version: int, wait_ms: int) -> None:
    """Set the throttle time of a response's body; where it has no fixed place, nothing happens."""
    position = _position(api_key, version)
    if position is None:
        return
    buffer = buffers[0] if position >= 0 else buffers[-1]
    assert isinstance(buffer, bytearray)
    _INT32.pack_into(buffer, position if position >= 0 else len(buffer) + position, wait_ms)


@cache
def _position(api_key: int, version: int) -> int | None:
    """Return where the field stands, from the start or (negative) from the end."""
    api = APIS[api_key]
    if api_key == PRODUCE:
        # Behind it stands at most the byte that says that there are no tagged fields.
        return -5 if api.flexible_since is not None and version >= api.flexible_since else -4
    module = import_module(f"chordmq.codecs.kafka.messages.{api.module}")
    position = 0
    for field in fields_at(getattr(module, f"{api.name}Response"), version):
        if field.name == FIELD:
            return position if field.is_present else None
        if field.is_present and field.kind not in FORMATS:
            return None
        position += struct.calcsize(f">{FORMATS[field.kind]}") if field.is_present else 0
    return None

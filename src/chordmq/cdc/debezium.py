"""Changes as Debezium writes them, without schemas: keys, events and heartbeats (pure)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from chordmq.cdc.change import Change

HEARTBEATS = "__debezium-heartbeat."

_ENCODER = msgspec.json.Encoder()


def key_of(key: Mapping[str, Any] | None) -> bytes | None:
    """Return the key of an event."""
    return None if key is None else _ENCODER.encode(key)


def event(change: Change, now_ns: int) -> bytes:
    """Return the value of an event; `now_ns` is when it is made."""
    content: dict[str, Any] = {
        "before": change.before,
        "after": change.after,
        "source": change.source,
        "transaction": None,
        "op": change.op,
        "ts_ms": now_ns // 1_000_000,
    }
    if "collection" in change.source:
        content["updateDescription"] = change.description
    else:
        content["ts_us"] = now_ns // 1_000
        content["ts_ns"] = now_ns
    return _ENCODER.encode(content)


def heartbeat(prefix: str, now_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of a sign of life."""
    return _ENCODER.encode({"serverName": prefix}), _ENCODER.encode({"ts_ms": now_ms})

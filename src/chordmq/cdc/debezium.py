"""Changes as Debezium writes them, without schemas: a key, an event, and a tombstone (pure)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from chordmq.cdc.change import DELETE, TRUNCATE, Change

HEARTBEATS = "__debezium-heartbeat."

_ENCODER = msgspec.json.Encoder()


class Written(NamedTuple):
    """A key and a value for the log; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None


def topic_of(prefix: str, change: Change) -> str:
    """Return the topic of a table or collection."""
    return f"{prefix}.{change.place.namespace}.{change.place.name}"


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


def written(change: Change, now_ns: int, *, tombstones: bool) -> list[Written]:
    """Return what the log gets for one change: an event, and after a delete a tombstone."""
    key = None if change.op == TRUNCATE else key_of(change.key)
    found = [Written(key, event(change, now_ns))]
    if tombstones and change.op == DELETE:
        found.append(Written(key, None))
    return found


def heartbeat(prefix: str, now_ms: int) -> tuple[str, Written]:
    """Return the topic and the content of a sign of life."""
    key = _ENCODER.encode({"serverName": prefix})
    return HEARTBEATS + prefix, Written(key, _ENCODER.encode({"ts_ms": now_ms}))

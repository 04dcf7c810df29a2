"""Changes as Debezium writes them, without schemas: events and heartbeats (pure)."""

import msgspec

from chordmq.cdc.change import CREATE, DELETE, READ, TRUNCATE, UPDATE, Change

HEARTBEATS = "__debezium-heartbeat."

_OPERATIONS = (CREATE, UPDATE, DELETE, READ, TRUNCATE)


class Telling:
    """Writes the events that are made at one time."""

    def __init__(self, now_ns: int) -> None:
        now_us, now_ms = now_ns // 1_000, now_ns // 1_000_000
        row = f'"ts_ms":{now_ms},"ts_us":{now_us},"ts_ns":{now_ns}}}'
        self._ends = {op: f',"transaction":null,"op":"{op}",{row}'.encode() for op in _OPERATIONS}
        self._document_ends = {
            op: f',"transaction":null,"op":"{op}","ts_ms":{now_ms},"updateDescription":'.encode()
            for op in _OPERATIONS
        }

    def event(self, change: Change) -> bytes:
        """Return the value of an event; all that a change holds is JSON already."""
        parts = (
            b'{"before":',
            change.before or b"null",
            b',"after":',
            change.after or b"null",
            b',"source":',
            change.source,
        )
        if change.description is None:
            return b"".join((*parts, self._ends[change.op]))
        return b"".join((*parts, self._document_ends[change.op], change.description, b"}"))


def heartbeat(prefix: str, now_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of a sign of life."""
    encode = msgspec.json.encode
    return encode({"serverName": prefix}), encode({"ts_ms": now_ms})

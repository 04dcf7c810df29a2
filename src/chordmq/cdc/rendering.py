"""Changes as records of the log: where each goes, and in which form (pure)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from chordmq.cdc import debezium
from chordmq.cdc.change import Change, Spoiled
from chordmq.cdc.settings import Source
from chordmq.errors import ChordMQError
from chordmq.iot import envelope
from chordmq.records.record import NewRecord

REASON, CHANGE, TABLE = "chordmq.error", "chordmq.change", "chordmq.table"
"""Headers of a dead letter: what is wrong, which change it was, and of what."""
OVERHEAD_BYTES = 256

_FAULTS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError, ChordMQError)


class Placed(NamedTuple):
    """A record and its topic."""

    topic: str
    record: NewRecord


class CannotTell(Exception):
    """A change cannot be told, and the source is set to stop then."""


class Rendering:
    """Turns the changes of one source into records."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._prefix = source.prefix
        self._size_max = source.topics.message_bytes_max - OVERHEAD_BYTES
        self._skipped = frozenset(source.skip)
        self.spoiled = 0
        """Changes that could not be told."""

    def records(self, changes: Iterable[Change | Spoiled], now_ns: int) -> list[Placed]:
        """Return what the log gets for changes; raise CannotTell if one must stop the source."""
        found: list[Placed] = []
        for change in changes:
            if isinstance(change, Spoiled):
                found += self._dead_letter(change, now_ns)
            elif change.op not in self._skipped:
                found += self._told(change, now_ns)
        return found

    def heartbeat(self, now_ms: int) -> Placed:
        """Return a sign of life."""
        topic, (key, value) = debezium.heartbeat(self._prefix, now_ms)
        return Placed(topic, NewRecord(now_ms, key, value))

    def _told(self, change: Change, now_ns: int) -> list[Placed]:
        topic = debezium.topic_of(self._prefix, change)
        time_ms = now_ns // 1_000_000
        try:
            rows = debezium.written(change, now_ns, tombstones=self._source.tombstones)
            if self._source.format == "envelope":
                rows = [self._wrapped(change, row) for row in rows]
        except _FAULTS as error:
            return self._spoil(change, f"it cannot be written as JSON: {error}", now_ns)
        size = max(len(row.value or b"") + len(row.key or b"") for row in rows)
        if size > self._size_max:
            reason = f"it takes {size} bytes; topics.message_bytes_max allows {self._size_max}"
            return self._spoil(change, reason, now_ns)
        return [Placed(topic, NewRecord(time_ms, key, value)) for key, value in rows]

    def _wrapped(self, change: Change, row: debezium.Written) -> debezium.Written:
        """Return an event in the envelope of the IoT layer; tombstones have no place for one."""
        if row.value is None:
            return row
        place = change.place
        metadata = envelope.Metadata(
            message_id=change.id,
            timestamp=datetime.fromtimestamp(change.time_us / 1_000_000, UTC),
            topic=f"{self._prefix}/{place.namespace}/{place.name}",
            source=f"cdc/{self._source.name}",
            message_type=envelope.MessageType.EVENT,
            version=envelope.VERSION,
        )
        wrapped = envelope.Envelope(metadata=metadata, payload=msgspec.Raw(row.value))
        return debezium.Written(row.key, msgspec.json.encode(wrapped))

    def _spoil(self, change: Change, reason: str, now_ns: int) -> list[Placed]:
        return self._dead_letter(Spoiled(change.place, change.id, reason, change.key), now_ns)

    def _dead_letter(self, spoiled: Spoiled, now_ns: int) -> list[Placed]:
        self.spoiled += 1
        if self._source.on_error == "fail":
            raise CannotTell(f"{spoiled.place}, change {spoiled.id}: {spoiled.reason}")
        if self._source.on_error == "skip":
            return []
        try:
            key = debezium.key_of(spoiled.key)
        except _FAULTS:
            key = None
        headers = (
            (REASON, spoiled.reason.encode()),
            (CHANGE, spoiled.id.encode()),
            (TABLE, str(spoiled.place).encode()),
        )
        record = NewRecord(now_ns // 1_000_000, key, None, headers)
        return [Placed(self._source.dead_letter, record)]

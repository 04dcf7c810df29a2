"""Changes as records of the log: where each goes, and in which form (pure)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from chordmq.cdc import debezium
from chordmq.cdc.change import DELETE, TRUNCATE, Change, Place, Spoiled
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
        self._is_wrapped = source.format == "envelope"
        self._topics: dict[Place, str] = {}
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
        key, value = debezium.heartbeat(self._prefix, now_ms)
        return Placed(debezium.HEARTBEATS + self._prefix, NewRecord(now_ms, key, value))

    def _told(self, change: Change, now_ns: int) -> list[Placed]:
        place = change.place
        topic = self._topics.get(place)
        if topic is None:
            topic = self._topics[place] = f"{self._prefix}.{place.namespace}.{place.name}"
        time_ms = now_ns // 1_000_000
        try:
            key = None if change.op == TRUNCATE else debezium.key_of(change.key)
            value = debezium.event(change, now_ns)
            if self._is_wrapped:
                value = self._wrapped(change, value)
        except _FAULTS as error:
            return self._spoil(change, f"it cannot be written as JSON: {error}", now_ns)
        size = len(value) + len(key or b"")
        if size > self._size_max:
            reason = f"it takes {size} bytes; topics.message_bytes_max allows {self._size_max}"
            return self._spoil(change, reason, now_ns)
        found = [Placed(topic, NewRecord(time_ms, key, value))]
        if change.op == DELETE and self._source.tombstones:
            # Compaction removes a key after such a record, whatever the format.
            found.append(Placed(topic, NewRecord(time_ms, key, None)))
        return found

    def _wrapped(self, change: Change, value: bytes) -> bytes:
        """Return an event in the envelope of the IoT layer."""
        place = change.place
        metadata = envelope.Metadata(
            message_id=change.id,
            timestamp=datetime.fromtimestamp(change.time_us / 1_000_000, UTC),
            topic=f"{self._prefix}/{place.namespace}/{place.name}",
            source=f"cdc/{self._source.name}",
            message_type=envelope.MessageType.EVENT,
            version=envelope.VERSION,
        )
        wrapped = envelope.Envelope(metadata=metadata, payload=msgspec.Raw(value))
        return msgspec.json.encode(wrapped)

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

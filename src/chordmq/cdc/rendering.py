"""Changes as records of the log: where each goes, and in which form (pure)."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from chordmq.cdc import debezium
from chordmq.cdc.change import DELETE, Change, Place, Spoiled
from chordmq.cdc.settings import Source
from chordmq.errors import ChordMQError
from chordmq.iot import envelope
from chordmq.records.record import Headers, NewRecord

REASON, CHANGE, TABLE = "chordmq.error", "chordmq.change", "chordmq.table"
"""Headers of a dead letter: what is wrong, which change it was, and of what."""
OVERHEAD_BYTES = 256

_FAULTS = (msgspec.MsgspecError, ValueError, OverflowError, ChordMQError)
"""What the envelope can raise: a time that no calendar has, a name that is no topic."""


class Rendered:
    """Records by their topics; in each topic they are in the order of the changes."""

    def __init__(self, time_ms: int) -> None:
        self.by_topic: dict[str, list[NewRecord]] = defaultdict(list)
        self.size = 0
        """Bytes of their values."""
        self._time_ms = time_ms

    def __len__(self) -> int:
        return sum(map(len, self.by_topic.values()))

    def add(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> None:
        """Add a record of this time."""
        self.by_topic[topic].append(NewRecord(self._time_ms, key, value, headers))
        if value is not None:
            self.size += len(value)


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

    def records(self, changes: Iterable[Change | Spoiled], now_ns: int) -> Rendered:
        """Return what the log gets for changes; raise CannotTell if one must stop the source."""
        found, telling = Rendered(now_ns // 1_000_000), debezium.Telling(now_ns)
        for change in changes:
            if isinstance(change, Spoiled):
                self._bury(change, found)
            elif change.op not in self._skipped:
                self._tell(change, telling, found)
        return found

    def heartbeat(self, now_ms: int) -> Rendered:
        """Return a sign of life."""
        found = Rendered(now_ms)
        found.add(debezium.HEARTBEATS + self._prefix, *debezium.heartbeat(self._prefix, now_ms))
        return found

    def _tell(self, change: Change, telling: debezium.Telling, found: Rendered) -> None:
        place, key = change.place, change.key
        value = telling.event(change)
        if self._is_wrapped:
            try:
                value = self._wrapped(change, value)
            except _FAULTS as error:
                return self._spoil(change, f"it cannot be put into an envelope: {error}", found)
        size = len(value) + len(key or b"")
        if size > self._size_max:
            reason = f"it takes {size} bytes; topics.message_bytes_max allows {self._size_max}"
            return self._spoil(change, reason, found)
        topic = self._topics.get(place)
        if topic is None:
            topic = self._topics[place] = f"{self._prefix}.{place.namespace}.{place.name}"
        found.add(topic, key, value)
        if change.op == DELETE and self._source.tombstones:
            # Compaction removes a key after such a record, whatever the format.
            found.add(topic, key, None)
        return None

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

    def _spoil(self, change: Change, reason: str, found: Rendered) -> None:
        self._bury(Spoiled(change.place, change.id, reason, change.key), found)

    def _bury(self, spoiled: Spoiled, found: Rendered) -> None:
        """Add a dead letter, or whatever the source is set to do."""
        self.spoiled += 1
        if self._source.on_error == "fail":
            raise CannotTell(f"{spoiled.place}, change {spoiled.id}: {spoiled.reason}")
        if self._source.on_error == "skip":
            return
        headers = (
            (REASON, spoiled.reason.encode()),
            (CHANGE, spoiled.id.encode()),
            (TABLE, str(spoiled.place).encode()),
        )
        found.add(self._source.dead_letter, spoiled.key, None, headers)

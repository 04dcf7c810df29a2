"""Messages as packets for one connection: its version, its aliases, its limit."""

from collections.abc import Callable, Sequence

from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.fields import write_number, write_short, write_word
from chordmq.codecs.mqtt.packets import V5
from chordmq.codecs.mqtt.properties import write_values
from chordmq.fronts.mqtt.mapping import Parcel, properties_of
from chordmq.fronts.mqtt.subscriptions import Target

PUBLISH = 0x30
NO_TOPIC = b"\0\0"


class Envelopes:
    """Writes the packets of one connection; what others get as well is written once."""

    def __init__(
        self, version: int, now_ms: Callable[[], int], *, aliases_max: int = 0, size_max: int = 0
    ) -> None:
        self._version = version
        self._now_ms = now_ms
        self._aliases: dict[bytes, int] = {}
        self._aliases_max = aliases_max
        self._aliases_given = 0
        self._size_max = size_max
        """Bytes of the largest packet that the client takes; 0 for no limit."""

    def plain(self, parcel: Parcel, start: int, target: Target) -> bytes:
        """Return messages of QoS 0."""
        is_retained = parcel.retain and target.retain_as_published
        if self._is_shareable(parcel, start, target):
            if parcel.packets and parcel.version == self._version and not is_retained:
                return parcel.raw
            kind = (self._version, is_retained)
            if parcel.written is None:
                parcel.written = {}
            data = parcel.written.get(kind)
            if data is None:
                head = parcel.topic + b"\0" if self._version == V5 else parcel.topic
                data = writer.publish_all(PUBLISH | is_retained, head, parcel.payloads)
                parcel.written[kind] = data
            return data
        out = []
        for index in range(start, len(parcel)):
            topic, properties = self._parts(parcel, index, target)
            payload = parcel.payloads[index]
            if not self._fits(len(topic) + len(properties), payload):
                self._aliases.pop(parcel.topic, None)
                continue
            out.append(writer.publish_all(PUBLISH | is_retained, topic + properties, (payload,)))
        return b"".join(out)

    def certain(
        self,
        parcel: Parcel,
        start: int,
        target: Target,
        qos: int,
        ids: Sequence[int],
        *,
        is_repeated: bool = False,
    ) -> tuple[bytes, list[int]]:
        """Return messages of QoS 1 or 2, and the numbers of those that the client cannot take."""
        first = PUBLISH | qos << 1 | (parcel.retain and target.retain_as_published)
        if is_repeated:
            first |= writer.DUPLICATE
        if not self._aliases_max and not self._size_max and self._is_plain(parcel, target):
            parts = (parcel.topic, b"\0" if self._version == V5 else b"")
            payloads = parcel.payloads
            if len(ids) != len(payloads):
                payloads = payloads[start : start + len(ids)]
            return writer.publish_each(first, parts, ids, payloads), []
        out, unsendable = [], []
        for index, number in enumerate(ids, start):
            parts = self._parts(parcel, index, target)
            payload = parcel.payloads[index]
            if self._fits(len(parts[0]) + 2 + len(parts[1]), payload):
                out.append(writer.publish_each(first, parts, [number], (payload,)))
            else:
                self._aliases.pop(parcel.topic, None)
                unsendable.append(number)
        return b"".join(out), unsendable

    def end_of_head(self, target: Target) -> bytes | None:
        """Return what follows the number in each message of QoS 1 that says nothing of itself.

        None if the client wants more to be said, or limits what it takes.
        """
        if self._aliases_max or self._size_max or target.identifiers or target.is_full:
            return None
        return b"\0" if self._version == V5 else b""

    def _is_plain(self, parcel: Parcel, target: Target) -> bool:
        if self._version != V5:
            return parcel.expires_ms is None
        if target.identifiers or target.is_full or parcel.expires_ms is not None:
            return False
        return not parcel.headers

    def _is_shareable(self, parcel: Parcel, start: int, target: Target) -> bool:
        return (
            not start
            and not self._aliases_max
            and not self._size_max
            and self._is_plain(parcel, target)
        )

    def _fits(self, head: int, payload: bytes) -> bool:
        return not self._size_max or writer.publish_size(head, len(payload)) <= self._size_max

    def _parts(self, parcel: Parcel, index: int, target: Target) -> tuple[bytes, bytes]:
        """Return the topic and the properties of a message."""
        if self._version != V5:
            return parcel.topic, b""
        values = write_values(properties_of(parcel, is_full=target.is_full, index=index))
        if parcel.expires_ms is not None:
            left_ms = max(parcel.expires_ms - self._now_ms(), 0)
            values += b"\x02" + write_word(-(-left_ms // 1000))
        for identifier in target.identifiers:
            values += b"\x0b" + write_number(identifier)
        topic = parcel.topic
        if self._aliases_max:
            topic, alias = self._aliased(topic)
            values += alias
        return topic, write_number(len(values)) + values

    def _aliased(self, topic: bytes) -> tuple[bytes, bytes]:
        """Return the topic, or none once the client knows its alias, and the alias."""
        alias = self._aliases.get(topic)
        if alias is not None:
            return NO_TOPIC, b"\x23" + write_short(alias)
        if self._aliases_given >= self._aliases_max:
            return topic, b""
        self._aliases_given += 1
        self._aliases[topic] = alias = self._aliases_given
        return topic, b"\x23" + write_short(alias)

"""Reads the packets of an MQTT client: all that one read of the socket holds, at once."""

from collections.abc import Callable
from struct import iter_unpack

from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt.bodies import (
    read_ack,
    read_auth,
    read_connect,
    read_disconnect,
    read_ping,
    read_publish,
    read_subscribe,
    read_unsubscribe,
)
from chordmq.codecs.mqtt.errors import MalformedPacket, ProtocolError
from chordmq.codecs.mqtt.fields import to_topic
from chordmq.codecs.mqtt.packets import V5, V311, Acks, Packet, Run
from chordmq.codecs.mqtt.reasons import Reason

CONNECT = 0x10
"""The first byte of all that a client sends."""
PLAIN_QOS_0, PLAIN_QOS_1 = 0x30, 0x32
"""The first bytes of messages that are not retained and not repeated."""
PUBACK_OF_TWO = 0x4002
RUN_BYTES_MAX = 64 * 1024
"""Bytes of messages that are handed on together."""
NO_ID = b"\0\0"
NOTHING_YET = (b"", -1, 0, 0)

BODIES: dict[int, Callable[[bytes, int, int, int, int], Packet]] = {
    kinds.PUBLISH: read_publish,
    kinds.PUBACK: read_ack,
    kinds.PUBREC: read_ack,
    kinds.PUBREL: read_ack,
    kinds.PUBCOMP: read_ack,
    kinds.SUBSCRIBE: read_subscribe,
    kinds.UNSUBSCRIBE: read_unsubscribe,
    kinds.PINGREQ: read_ping,
    kinds.DISCONNECT: read_disconnect,
    kinds.AUTH: read_auth,
}


class PacketReader:
    """Cuts bytes into packets; the first must be CONNECT, which says the version of the rest.

    After a fault nothing more is read; the packets before it count.
    """

    __slots__ = (
        "_alone", "_name", "_pieces", "_prefix", "_wanted", "fault", "held", "size_max", "topic",
        "version",
    )  # fmt: skip

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.version = 0
        self.fault: MalformedPacket | None = None
        self._pieces: list[bytes] = []
        self.held = 0
        """Bytes of a packet that has begun and not ended."""
        self._wanted = 0
        self._prefix = b""
        """The topic of the last run as it stands in packets, with its size before it."""
        self.topic = b""
        """That of the last message that came alone, or of the last run."""
        self._name = ""
        self._alone = NOTHING_YET
        """The last message that came alone: all before its number, its size, and where its number
        would stand and its payload begins."""

    def receive(self, data: bytes) -> list[Packet]:
        """Return the packets that the new bytes complete."""
        if not self._pieces:
            run = self._read_alone(data)
            if run is not None:
                return [run]
        else:
            self._pieces.append(data)
            self.held += len(data)
            if self.held < self._wanted:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        packets: list[Packet] = []
        at = 0
        self._wanted = 0
        try:
            at = self._read_all(data, packets)
        except MalformedPacket as fault:
            self.fault = fault
            at = len(data)
        self.held = len(data) - at
        if self.held:
            self._pieces.append(data[at:])
        return packets

    def alone(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Return number and payload of the one message that a read brings to the last topic.

        That is how devices send: with QoS 1, and nothing else. None for whatever is not just so:
        then `receive` is to look at it.
        """
        head, size, at, start = self._alone
        if len(data) != size or not data.startswith(head):
            if not self._is_alone(data):
                return None
            _, _, at, start = self._alone
        if self._pieces or start < at + 2:
            return None
        number = data[at : at + 2]
        if number == NO_ID or (start > at + 2 and data[at + 2]):
            return None
        return number, data[start:]

    def _read_alone(self, data: bytes) -> Run | None:
        """Return the one message of QoS 0 that a read brings to the last topic."""
        head, size, at, start = self._alone
        if len(data) != size or not data.startswith(head):
            if not self._is_alone(data):
                return None
            _, size, at, start = self._alone
        if start >= at + 2 or (start > at and data[at]):
            return None
        return Run(self.topic, self._name, [data[start:]], [], data, size)

    def _is_alone(self, data: bytes) -> bool:
        """Return whether a read is one message to the last topic; note how such a one begins."""
        end = len(data)
        if end < 4 or data[0] not in (PLAIN_QOS_0, PLAIN_QOS_1) or not self._prefix:
            return False
        size, start = data[1], 2
        if size >= 0x80:
            size, start = size - 0x80 + (data[2] << 7), 3
            if not 0 < data[2] < 0x80:
                return False
        if start + size != end or end > self.size_max or not data.startswith(self._prefix, start):
            return False
        number = start + len(self._prefix)
        payload = number + data[0] - PLAIN_QOS_0 + (self.version == V5)
        if payload > end:
            return False
        self._alone = (data[:number], end, number, payload)
        return True

    def _read_all(self, data: bytes, packets: list[Packet]) -> int:
        """Add all whole packets, and return where the first starts that is not whole."""
        at, end = 0, len(data)
        if not self.version and data and data[0] != CONNECT:
            raise ProtocolError("the first packet is not CONNECT")
        while at < end:
            frame = self._frame(data, at, end)
            if frame is None:
                break
            start, stop = frame
            first = data[at]
            if first in (PLAIN_QOS_0, PLAIN_QOS_1) and self._is_plain(data, first, start, stop):
                at = self._read_run(data, at, end, packets)
            elif first == PUBACK_OF_TWO >> 8 and stop - start == 2:
                at = self._read_acks(data, at, end, packets)
            else:
                packets.append(self._read_one(data, first, start, stop))
                at = stop
        return at

    def _frame(self, data: bytes, at: int, end: int) -> tuple[int, int] | None:
        """Return where a packet's body starts and stops; None if it is not all there."""
        size, shift, start = 0, 0, at + 1
        while True:
            if start >= end:
                return None
            byte = data[start]
            start += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise MalformedPacket("a packet's size is longer than four bytes")
        if shift and not byte:
            raise MalformedPacket("a packet's size is longer than it must be")
        if start - at + size > self.size_max:
            raise MalformedPacket(
                f"a packet of {size} bytes; {self.size_max} are allowed", Reason.PACKET_TOO_LARGE
            )
        if start + size > end:
            self._wanted = start - at + size
            return None
        return start, start + size

    def _is_plain(self, data: bytes, first: int, start: int, stop: int) -> bool:
        """Return whether a message has a topic, an identifier if it must, and no properties."""
        if not self.version or stop - start < 2:
            return False
        size = data[start] << 8 | data[start + 1]
        rest = start + 2 + size + (first - PLAIN_QOS_0)
        if not size or rest > stop:
            return False
        return self.version != V5 or (rest < stop and not data[rest])

    def _read_run(self, data: bytes, at: int, end: int, packets: list[Packet]) -> int:
        """Add messages to one topic that follow one another, and return where they stop."""
        first, begin = data[at], at
        start, stop = _body(data, at)
        prefix = data[start : start + 2 + (data[start] << 8 | data[start + 1])]
        if prefix != self._prefix:
            self._name = to_topic(prefix[2:])
            self._prefix, self.topic = prefix, prefix[2:]
            self._alone = NOTHING_YET
        head = len(prefix) + (first - PLAIN_QOS_0)
        skipped = head + 1 if self.version == V5 else head
        payloads: list[bytes] = []
        ids: list[bytes] = []
        has_ids, has_properties = first == PLAIN_QOS_1, skipped > head
        limit = min(end, at + RUN_BYTES_MAX)
        while True:
            payloads.append(data[start + skipped : stop])
            if has_ids:
                ids.append(data[start + head - 2 : start + head])
            at = stop
            if at + 4 > limit or data[at] != first:
                break
            size = data[at + 1]
            if size < 0x80:
                start, stop = at + 2, at + 2 + size
            else:
                start, stop = _body(data, at)
            if stop > limit or start + skipped > stop or not data.startswith(prefix, start):
                break
            if has_properties and data[start + head]:
                break
        if NO_ID in ids:
            raise MalformedPacket("a packet identifier is 0")
        raw = b"" if ids else data[begin:at]
        packets.append(Run(self.topic, self._name, payloads, ids, raw, at - begin))
        return at

    def _read_acks(self, data: bytes, at: int, end: int, packets: list[Packet]) -> int:
        """Add PUBACK packets that follow one another, and return where they stop."""
        ids = []
        whole = at + (end - at) // 4 * 4
        for head, number in iter_unpack(">HH", data[at:whole]):
            if head != PUBACK_OF_TWO:
                break
            ids.append(number)
        packets.append(Acks(ids))
        return at + 4 * len(ids)

    def _read_one(self, data: bytes, first: int, start: int, stop: int) -> Packet:
        kind = first >> 4
        if not self.version:
            connect = read_connect(data, first, start, stop)
            self.version = connect.version
            return connect
        read = BODIES.get(kind)
        if read is None or (kind == kinds.AUTH and self.version == V311):
            raise ProtocolError(f"a client may not send packet {kind} now")
        return read(data, first, start, stop, self.version)


def _body(data: bytes, at: int) -> tuple[int, int]:
    """Return where a packet's body starts and stops; beyond all data if its size is cut off."""
    size = shift = 0
    for start in range(at + 1, min(at + 5, len(data))):
        byte = data[start]
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return start + 1, start + 1 + size
        shift += 7
    return len(data), len(data) + 1

"""Messages of QoS 1 that clients send one at a time, as devices do: many of them are one piece."""

from typing import TYPE_CHECKING

from chordmq.codecs.mqtt import properties as kinds
from chordmq.codecs.mqtt.writer import PUBACK
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt.answers import Answer, refusal
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.records.record import NewRecord, UnlikeRecords

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection
    from chordmq.fronts.mqtt.front import Route
    from chordmq.fronts.mqtt.tails import Source


class Letter(Answer):
    """One message with nothing special, and what its client waits for: word that it is stored."""

    __slots__ = ("_connection", "number", "payload", "route", "sender", "size")

    count = 1

    def __init__(
        self,
        connection: "MqttConnection",
        sender: str,
        route: "Route",
        message: tuple[bytes, bytes],
    ) -> None:
        self.data = None
        self.sender = sender
        self.route = route
        self.number, self.payload = message
        """The packet identifier as it came, and what follows it."""
        self.size = len(self.payload) + route.overhead
        """Bytes that it may take while it is stored, and in a batch."""
        self._connection = connection

    def stored(self, error: ChordMQError | None) -> None:
        """Answer that the message is as durable as its topic asks for, or why it is not."""
        connection = self._connection
        del self._connection  # the message may wait for a subscriber, and has this with it
        if error is None:
            self.data = PUBACK + self.number
        else:
            number = int.from_bytes(self.number, "big")
            self.data = refusal(connection, kinds.PUBACK, number, error)
        connection.settled(self)


class Bundle:
    """Letters that lie side by side in a partition, whoever has sent them to whatever name."""

    __slots__ = ("_parcels", "base_offset", "letters", "size", "source", "timestamp_ms")

    is_apart = False

    def __init__(self, letters: list[Letter], timestamp_ms: int) -> None:
        self.letters = letters
        self.timestamp_ms = timestamp_ms
        self.size = sum([letter.size for letter in letters])
        """Bytes that they may take in a batch."""
        self.base_offset = -1
        self.source: Source | None = None
        self._parcels: dict[tuple[int, int], list[Parcel]] = {}

    def __len__(self) -> int:
        return len(self.letters)

    @property
    def shares(self) -> list[Letter]:
        """Return who wants to know what became of the letters."""
        return self.letters

    def by_client(self) -> "list[Bundle]":
        """Return each letter by itself."""
        return [Bundle([letter], self.timestamp_ms) for letter in self.letters]

    @property
    def records(self) -> UnlikeRecords:
        """Return the letters as they are written to the log."""
        return UnlikeRecords([(one.route.around, one.payload) for one in self.letters])

    def as_records(self) -> list[NewRecord]:
        """Return the letters one by one."""
        time = self.timestamp_ms
        return [
            NewRecord(time, one.route.key, one.payload, one.route.headers(1)[0])
            for one in self.letters
        ]

    def parcels(self, start: int, stop: int) -> list[Parcel]:
        """Return some of the letters as parcels: those to one name that lie side by side are one.

        Who wants the same letters gets the same parcels, which know how they are written.
        """
        found = self._parcels.get((start, stop))
        if found is None:
            found = self._parcels[start, stop] = self._joined(start, stop)
        return found

    def _joined(self, start: int, stop: int) -> list[Parcel]:
        parcels: list[Parcel] = []
        last = None
        for index in range(start, stop):
            letter = self.letters[index]
            route = letter.route
            if route is last:
                parcels[-1].payloads.append(letter.payload)
                continue
            last = route
            parcel = Parcel(route.name, route.topic, [letter.payload], 1)
            parcel.base_offset, parcel.source = self.base_offset + index, self.source
            parcel.key, parcel.timestamp_ms = route.key, self.timestamp_ms
            parcel.sender = letter.sender
            parcels.append(parcel)
        for parcel in parcels:
            begin = parcel.base_offset - self.base_offset
            parcel.shares = self.letters[begin : begin + len(parcel)]
        return parcels

"""What clients publish: joined over one turn of the event loop into one batch per partition."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.patience import ANOTHER_TIME, Patience
from chordmq.broker.shared import Appended
from chordmq.codecs.mqtt.packets import Run
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, UnknownTopic
from chordmq.fronts.mqtt.letters import Bundle, Letter
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.tails import Tail
from chordmq.records.batch import HEADER_SIZE
from chordmq.records.record import AlikeRecords, Headers, NewRecord, build_alike, build_batch

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.front import Route

RECORD_OVERHEAD_MAX = 40
"""Bytes that a record takes besides key, value and headers, at most."""
JOINED_BYTES_MAX = 64 * 1024
"""Bytes of messages to one name from several clients, above which no more join them."""

Done = Callable[[ChordMQError | None], None]
"""Told when messages are as durable as their topic asks for, or why they are not stored."""


class Share(Protocol):
    """Messages of one client."""

    sender: str
    count: int
    size: int
    """How many bytes they may take in a batch."""

    def stored(self, error: ChordMQError | None) -> None:
        """Tell the client that they are as durable as their topic asks for, or why they are not."""
        ...


@dataclass(slots=True, eq=False)
class Told:
    """Messages of one client, and what is called when they are stored."""

    sender: str
    count: int
    size: int
    stored: Done


@dataclass(slots=True, eq=False)
class Unit:
    """Messages to one name, and who wants to know what became of them."""

    parcel: Parcel
    records: AlikeRecords
    """What the messages have in common as records, and the parcel's own list of payloads."""
    headers: Headers
    size: int = 0
    """How many bytes the messages may take in a batch."""
    shares: list[Share] = field(default_factory=list)
    """Whose they are, in their order."""
    route: "Route | None" = None
    """Where they came, if others that come there may join them."""
    is_apart: bool = False
    """Whether its time or its lack of a value keeps it from a batch with others."""

    @property
    def timestamp_ms(self) -> int:
        """Return the time of the messages."""
        return self.parcel.timestamp_ms

    def join(self, run: Run, share: Share) -> None:
        """Take alike messages of another client."""
        parcel = self.parcel
        parcel.payloads += run.payloads
        if parcel.packets is not None:
            parcel.packets.append(run.raw)
        self.size += share.size
        self.shares.append(share)

    def by_client(self) -> "list[Unit]":
        """Return each client's messages by themselves."""
        if len(self.shares) <= 1:
            return [self]
        units = []
        for parcel, share in zip(self.parcel.by_sender(), self.shares, strict=True):
            records = self.records._replace(values=parcel.payloads)
            units.append(Unit(parcel, records, self.headers, share.size, [share]))
        return units

    def as_records(self) -> list[NewRecord]:
        """Return the messages one by one."""
        parcel = self.parcel
        return [
            NewRecord(
                parcel.timestamp_ms, parcel.key, None if parcel.is_null else value, self.headers
            )
            for value in parcel.payloads
        ]


Piece = Unit | Bundle
"""What is appended and handed on as one, unless the log refuses it."""


class MessageAppends:
    """What waits for the end of this turn; one write and one flush then serve all of it."""

    def __init__(self, broker: Broker, tails: dict[Partition, Tail]) -> None:
        self._broker = broker
        self._tails = tails
        self._waiting: dict[Partition, list[Piece]] = {}
        self._unfollowed: dict[Partition, dict[int, list[Parcel | Bundle]]] = {}
        """What is not committed yet where there is no tail: one that begins now finds it there."""
        self._patience = Patience(broker.clock)
        self._turn_ms = 0

    def now_ms(self) -> int:
        """Return the time of the messages of this turn."""
        if not self._waiting:
            self._turn_ms = self._broker.clock.now_ms()
        return self._turn_ms

    def alike(self, route: "Route", qos: int, version: int) -> Unit | None:
        """Return what messages may join: the last of this turn, if they go the same way."""
        pieces = self._waiting.get(route.partition)
        if pieces is None:
            return None
        unit = pieces[-1]
        if isinstance(unit, Bundle) or unit.route is not route:
            return None
        parcel = unit.parcel
        if parcel.qos != qos or parcel.version != version or unit.size > JOINED_BYTES_MAX:
            return None
        return unit

    def add(self, partition: Partition, piece: Piece) -> None:
        """Have messages appended at the end of this turn."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.write_all)
        self._waiting.setdefault(partition, []).append(piece)

    def post(self, letter: Letter) -> None:
        """Have a letter appended at the end of this turn, together with those before it."""
        partition = letter.route.partition
        pieces = self._waiting.get(partition)
        if pieces is not None:
            last = pieces[-1]
            if isinstance(last, Bundle) and last.size <= JOINED_BYTES_MAX:
                last.letters.append(letter)
                last.size += letter.size
                return
        self.add(partition, Bundle([letter], self.now_ms()))

    def write_all(self) -> None:
        """Append what waits."""
        everything, self._waiting = self._waiting, {}
        for partition, pieces in everything.items():
            for joined in _joined(pieces, partition.settings.max_message_bytes - HEADER_SIZE):
                self._write(partition, joined)

    def _write(self, partition: Partition, joined: list[Piece]) -> None:
        waiting: list[Share] = [share for piece in joined for share in piece.shares]
        batch = memoryview(self._batch(partition, joined))
        if not partition.is_leader or self._patience.holds_up(partition):
            _tell_later(waiting, self._patience.append(partition, batch))
            return
        try:
            appended = partition.append(batch)
        except ANOTHER_TIME:
            _tell_later(waiting, self._patience.append(partition, batch))
            return
        except ChordMQError as error:
            if len(joined) == 1 and len(waiting) <= 1:
                _tell(waiting, error)
            else:  # one client's messages must not fail another's
                for piece in _by_client(joined):
                    self._write(partition, [piece])
            return
        shared = self._broker.shared
        if shared.intercept is None and shared.deliver is None:
            self._hand_on(partition, appended.base_offset, joined)
        self._when_committed(partition, batch, waiting, appended)

    def _hand_on(self, partition: Partition, base_offset: int, joined: list[Piece]) -> None:
        """Let those who follow a partition have messages as they came: the log has no senders."""
        parcels = [one if isinstance(one, Bundle) else one.parcel for one in joined]
        tail = self._tails.get(partition)
        if tail is not None:
            tail.expect(base_offset, parcels)
        else:
            self._unfollowed.setdefault(partition, {})[base_offset] = parcels

    def _forget(self, partition: Partition, base_offset: int) -> None:
        kept = self._unfollowed.get(partition)
        if kept is not None:
            kept.pop(base_offset, None)
            if not kept:
                del self._unfollowed[partition]

    def follow(self, tail: Tail) -> None:
        """Let a tail that begins have what is on its way to where it begins."""
        for base, parcels in self._unfollowed.pop(tail.partition, {}).items():
            if base >= tail.position:
                tail.expect(base, parcels)

    def append_alone(self, partition: Partition, batch: bytearray, done: Done) -> None:
        """Append messages that are a batch of their own already."""
        data = memoryview(batch)
        waiting: list[Share] = [Told("", 1, len(data), done)]
        if not partition.is_leader or self._patience.holds_up(partition):
            _tell_later(waiting, self._patience.append(partition, data))
            return
        try:
            appended = partition.append(data)
        except ANOTHER_TIME:
            _tell_later(waiting, self._patience.append(partition, data))
        except ChordMQError as error:
            done(error)
        else:
            self._when_committed(partition, data, waiting, appended)

    def _when_committed(
        self, partition: Partition, batch: memoryview, waiting: list[Share], appended: Appended
    ) -> None:
        committed = partition.committed(appended.next_offset)
        if committed is None:
            self._forget(partition, appended.base_offset)
            _tell(waiting, None)
            return

        if partition.replica is not None:
            offset = appended.base_offset
            committed.add_done_callback(lambda _: self._forget(partition, offset))
            _tell_later(waiting, self._patience.see_through(partition, batch, offset, committed))
            return

        def end(future: asyncio.Future[None]) -> None:
            self._forget(partition, appended.base_offset)
            _tell(waiting, _outcome(future))

        committed.add_done_callback(end)

    def _batch(self, partition: Partition, joined: list[Piece]) -> bytearray:
        if self._broker.shared.payloads is not None or joined[0].is_apart:
            records = [record for piece in joined for record in piece.as_records()]
            return build_batch(partition.sealed(records))
        return build_alike(joined[0].timestamp_ms, [piece.records for piece in joined])


def _joined(pieces: list[Piece], size_max: int) -> Iterator[list[Piece]]:
    """Yield who shares a batch: messages of one time; one too large is refused by itself."""
    joined: list[Piece] = []
    size = 0
    if max([piece.size for piece in pieces]) > size_max:
        pieces = _by_client(pieces)
    for piece in pieces:
        is_other = piece.is_apart or (joined and joined[0].timestamp_ms != piece.timestamp_ms)
        if joined and (size + piece.size > size_max or is_other or joined[0].is_apart):
            yield joined
            joined, size = [], 0
        joined.append(piece)
        size += piece.size
    yield joined


def _by_client(pieces: list[Piece]) -> list[Piece]:
    return [one for piece in pieces for one in piece.by_client()]


def _outcome(future: asyncio.Future[Any]) -> ChordMQError | None:
    if future.cancelled():
        return UnknownTopic("the topic was deleted meanwhile")
    error = future.exception()
    return error if isinstance(error, ChordMQError) else None


def _tell(waiting: list[Share], error: ChordMQError | None) -> None:
    for share in waiting:
        share.stored(error)


def _tell_later(waiting: list[Share], appended: asyncio.Future[int]) -> None:
    appended.add_done_callback(lambda future: _tell(waiting, _outcome(future)))

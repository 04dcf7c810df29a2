"""What goes to one client: messages that wait, messages on their way, and places in the log."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.properties import PUBREL
from chordmq.fronts.mqtt.envelopes import Envelopes
from chordmq.fronts.mqtt.letters import Bundle
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.subscriptions import Target
from chordmq.fronts.mqtt.tails import (
    BYTES_AT_ONCE,
    RECORDS_AT_ONCE,
    Source,
    Tail,
    read_parcels,
)

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.session import Session

IDS = 65_535
SENT, RECEIVED, DONE = 1, 2, 3
"""How far a message of QoS 2 is: sent, in the client's hands, and over."""


class Connection(Protocol):
    """What an outbox needs of the client's connection."""

    version: int
    envelopes: Envelopes
    window: int
    """Messages that may be on their way."""

    @property
    def has_room(self) -> bool:
        """Return whether the client takes what was sent."""
        ...

    def send(self, data: bytes) -> None:
        """Send bytes at the end of this turn."""
        ...

    def pump_soon(self) -> None:
        """Have the outbox's `pump` called in the next turn."""
        ...


class Waiting(NamedTuple):
    """Messages that wait for room, from the `start`-th of a parcel on."""

    parcel: Parcel
    start: int
    target: Target
    qos: int


class Flight(NamedTuple):
    """Messages on their way that went out side by side, and are as far as each other."""

    parcel: Parcel | Bundle
    first: int
    """The number that the first message of the parcel has, or would have."""
    target: Target
    qos: int
    state: int = SENT

    def offset(self, number: int) -> int:
        """Return where the message with a number lies."""
        return self.parcel.base_offset + number - self.first

    def message(self, number: int) -> tuple[Parcel, int]:
        """Return the message with a number as one of a parcel, which envelopes can write."""
        parcel, at = self.parcel, number - self.first
        if isinstance(parcel, Bundle):
            return parcel.parcels(at, at + 1)[0], 0
        return parcel, at


class Outbox:
    """Sends in order, as much as client and socket take; the log keeps the rest."""

    def __init__(self, session: "Session", pending_max: int) -> None:
        self._session = session
        self._pending_max = pending_max
        self.connection: Connection | None = None
        self.pending: deque[Waiting] = deque()
        self._pending_count = 0
        self.flights: dict[int, Flight] = {}
        self.behind: dict[Tail, int] = {}
        """Where to read on in partitions whose end the client does not follow."""
        self._absent_until: dict[Tail, int] = {}
        """Up to there the client was away, and gets no messages of QoS 0."""
        self._done: dict[Source, set[int]] = {}
        """Messages of QoS 2 that are over, by place, until the session's place is past them."""
        self._ahead: dict[Tail, int] = {}
        """Where the client is in partitions whose copy here has not come so far yet."""
        self._last_id = 0
        self._being_stored = 0
        """Sendings of QoS 2 that wait for the log; what comes behind them waits as well."""
        self._when_free: dict[Callable[[], None], None] = {}

    # What comes in.

    def send_letters(self, bundle: Bundle, start: int, stop: int, target: Target) -> int:
        """Send letters from `start` on if that needs no closer look; return where it stopped."""
        connection = self.connection
        if connection is None or self._ahead or self.pending or self._being_stored:
            return start
        end_of_head = connection.envelopes.end_of_head(target)
        is_open = connection.has_room and bundle.source not in self.behind
        if end_of_head is None or not is_open or target.qos == 0 or target.no_local:
            return start
        stop = min(stop, start + connection.window - len(self.flights))
        if stop <= start:
            return start
        ids = self._depart(stop - start, bundle, start, target, 1)
        letters = bundle.letters[start:stop]
        topics = [letter.route.topic for letter in letters]
        payloads = [letter.payload for letter in letters]
        connection.send(writer.publish_each_to(topics, ids, payloads, end_of_head))
        self._session.count_sent(len(ids))
        return stop

    def _depart(
        self, count: int, parcel: Parcel | Bundle, start: int, target: Target, qos: int
    ) -> Sequence[int]:
        """Give messages numbers that no other on its way has; return these."""
        flights, number = self.flights, self._last_id
        together = range(number + 1, number + 1 + count)
        if number + count <= IDS and flights.keys().isdisjoint(together):
            self._last_id += count
            flights.update(dict.fromkeys(together, Flight(parcel, number + 1 - start, target, qos)))
            return together
        ids: list[int] = []
        while len(ids) < count:
            number = number % IDS + 1
            if number not in flights:
                flights[number] = Flight(parcel, number - start - len(ids), target, qos)
                ids.append(number)
        self._last_id = number
        return ids

    def offer(self, parcel: Parcel, target: Target) -> None:
        """Take new messages, to send them now or when there is room."""
        if target.no_local and parcel.sender == self._session.client_id:
            return
        qos = min(parcel.qos, target.qos)
        source = parcel.source
        if source in self.behind or self._is_over(parcel):
            return
        if self._ahead and isinstance(source, Tail) and self._is_known(parcel, source, target):
            return
        connection = self.connection
        if connection is None:
            if qos and isinstance(source, Tail) and self._session.is_durable:
                self.behind[source] = parcel.base_offset
            return
        is_held_up = self._being_stored and qos != 2
        if not self.pending and not is_held_up and connection.has_room:
            if not qos:
                self._send_plain(connection, parcel, 0, target)
                return
            count = len(parcel.payloads)
            if len(self.flights) + count <= connection.window:
                self._send_certain(connection, Waiting(parcel, 0, target, qos), count)
                return
        self._wait(Waiting(parcel, 0, target, qos))
        connection.pump_soon()

    def _is_known(self, parcel: Parcel, tail: Tail, target: Target) -> bool:
        """Take what a client has not got before; return whether that is all there was to do."""
        known = self._ahead.get(tail, 0) - parcel.base_offset
        if known <= 0:
            self._ahead.pop(tail, None)
            return False
        if known < len(parcel):
            rest = Waiting(parcel, known, target, min(parcel.qos, target.qos))
            if self.connection is not None:
                self._wait(rest)
                self.connection.pump_soon()
            elif rest.qos and self._session.is_durable:
                self.behind[tail] = parcel.base_offset + known
        return True

    def _wait(self, waiting: Waiting) -> None:
        source = waiting.parcel.source
        if self._pending_count >= self._pending_max and isinstance(source, Tail):
            self.behind[source] = waiting.parcel.base_offset + waiting.start
            return
        self.pending.append(waiting)
        self._pending_count += len(waiting.parcel) - waiting.start

    def pump(self) -> None:
        """Send what waits, as far as there is room, and read on where the client is behind."""
        connection = self.connection
        if connection is None:
            return
        self._send_pending(connection)
        if self.behind and not self.pending and connection.has_room:
            tail = self._readable()
            if tail is not None:
                self._read_on(tail)
                connection.pump_soon()
        elif self._when_free and not self.pending and len(self.flights) < connection.window:
            calls, self._when_free = self._when_free, {}
            for call in calls:
                call()

    def _readable(self) -> Tail | None:
        """Return where to read on; None, and be woken later, if a disk or nodes are asked first."""
        for tail, offset in self.behind.items():
            if tail.is_waiting:
                continue
            partition = tail.partition
            awaits_disk = partition.awaits_disk(offset, BYTES_AT_ONCE)
            if partition.is_closed or (partition.readable(offset) and not awaits_disk):
                return tail
            partition.wait(self)
        return None

    def wake(self) -> None:
        """Take note that there is more to read where the client is behind."""
        if self.connection is not None:
            self.connection.pump_soon()

    def when_free(self, call: Callable[[], None]) -> None:
        """Have something called once when there is room for more messages."""
        self._when_free[call] = None

    def _send_pending(self, connection: Connection) -> None:
        pending = self.pending
        while pending and connection.has_room:
            waiting = pending[0]
            parcel, start, target, qos = waiting
            count = len(parcel) - start
            if self._being_stored and qos != 2:
                return
            if self._is_over(parcel):
                self._give_up(parcel)
            elif qos:
                count = min(count, connection.window - len(self.flights))
                if count <= 0:
                    return
                self._send_certain(connection, waiting, count)
            else:
                self._send_plain(connection, parcel, start, target)
            self._pending_count -= count
            if start + count < len(parcel):
                pending[0] = waiting._replace(start=start + count)
            else:
                pending.popleft()

    def _read_on(self, tail: Tail) -> None:
        """Read some of what the client has missed; follow the end again when that is reached."""
        offset = self.behind.pop(tail)
        if tail.is_closed or tail.partition.is_closed:
            return
        absent_until, done = self._absent_until.get(tail, 0), self._done.get(tail)
        until = absent_until if offset < absent_until else tail.position
        parcels, place = read_parcels(
            tail, offset, RECORDS_AT_ONCE, until=until, is_joining=not done
        )
        # While it reads, nothing is handed on: it comes back to the end without a gap.
        for parcel in parcels:
            if done and parcel.base_offset in done:
                continue
            target = self._session.match(parcel, tail)
            if target is None or (target.no_local and parcel.sender == self._session.client_id):
                continue
            qos = min(parcel.qos, target.qos)
            if qos or parcel.base_offset >= absent_until:
                self.pending.append(Waiting(parcel, 0, target, qos))
                self._pending_count += len(parcel)
        if place < tail.position:
            self.behind[tail] = place
        else:
            self._absent_until.pop(tail, None)

    def _is_over(self, parcel: Parcel) -> bool:
        """Return whether the time of a message has passed (MQTT-3.3.2-5)."""
        return parcel.expires_ms is not None and parcel.expires_ms <= self._session.now_ms()

    def _give_up(self, parcel: Parcel) -> None:
        source = parcel.source
        if source is not None and not isinstance(source, Tail):
            for index in range(len(parcel)):
                source.settled(parcel.base_offset + index)

    # What goes out.

    def _send_plain(
        self, connection: Connection, parcel: Parcel, start: int, target: Target
    ) -> None:
        data = connection.envelopes.plain(parcel, start, target)
        connection.send(data)
        self._session.count_sent(len(parcel) - start)
        if parcel.source is not None:
            for index in range(start, len(parcel)) if not isinstance(parcel.source, Tail) else ():
                parcel.source.settled(parcel.base_offset + index)

    def _send_certain(self, connection: Connection, waiting: Waiting, count: int) -> None:
        ids = self._depart(count, *waiting)
        if waiting.qos == 2 and self._session.is_durable:
            # A number must be known before it is used, or a crash would use it for another.
            self._being_stored += 1
            self._session.when_stored(lambda: self._send_stored(connection, ids))
        else:
            self._write(connection, waiting, ids)

    def _write(self, connection: Connection, waiting: Waiting, ids: Sequence[int]) -> None:
        data, unsendable = connection.envelopes.certain(*waiting, ids)
        self._session.count_sent(len(ids) - len(unsendable))
        if data:
            connection.send(data)
        for number in unsendable:
            self._land(number)

    def _send_stored(self, connection: Connection, ids: Sequence[int]) -> None:
        if self.connection is not connection:
            return
        self._being_stored -= 1
        for number in ids:
            flight = self.flights.get(number)
            if flight is not None:
                waiting = Waiting(*flight.message(number), flight.target, 2)
                self._write(connection, waiting, [number])
        if self.pending:
            connection.pump_soon()

    # What the client answers.

    def acknowledged(self, ids: list[int]) -> None:
        """Take PUBACK for messages of QoS 1; numbers that are not known are let be."""
        flights, plain = self.flights, None
        for number in ids:
            flight = flights.pop(number, None)
            if flight is plain or flight is None:
                continue
            source = flight.parcel.source
            if flight.qos != 1:
                flights[number] = flight
            elif source is None or isinstance(source, Tail):
                plain = flight  # there is nothing more to do for those that went out with it
            else:
                source.settled(flight.offset(number))
        self._session.touch()
        self.pump()

    def received(self, number: int, *, is_refused: bool) -> bool:
        """Take PUBREC, and return whether the number is known."""
        flight = self.flights.get(number)
        if flight is None or flight.qos != 2:
            return False
        if is_refused:
            self._land(number)
            self.pump()
            return True
        self.flights[number] = flight._replace(state=RECEIVED)
        connection = self.connection
        if self._session.is_durable:
            # Once released the client forgets the number, and would take a repetition as new.
            self._session.when_stored(lambda: self._release(connection, number))
        else:
            self._release(connection, number)
        return True

    def _release(self, connection: Connection | None, number: int) -> None:
        if connection is not None and self.connection is connection:
            connection.send(writer.ack(PUBREL, number, connection.version))

    def completed(self, number: int) -> None:
        """Take PUBCOMP."""
        flight = self.flights.get(number)
        if flight is not None and flight.qos == 2:
            self._land(number)
            self.pump()

    def _land(self, number: int) -> None:
        """Take note that a message is over."""
        flight = self.flights.pop(number, None)
        if flight is None:
            return
        source = flight.parcel.source
        if source is not None and source.is_own:
            if flight.qos == 2 and self._session.is_durable:
                self._done.setdefault(source, set()).add(flight.offset(number))
        elif source is not None:
            source.settled(flight.offset(number))
        self._session.touch()

    # Coming and going.

    def attach(self, connection: Connection) -> None:
        """Send again what a client has not answered before it went, then what it has missed."""
        self.connection = connection
        self._being_stored = 0
        for number, flight in self.flights.items():
            if flight.state == RECEIVED:
                connection.send(writer.ack(PUBREL, number, connection.version))
                continue
            data, _ = connection.envelopes.certain(
                *flight.message(number), flight.target, flight.qos, [number], is_repeated=True
            )
            connection.send(data)
        self._absent_until = {tail: tail.position for tail in self.behind}
        connection.pump_soon()

    def detach(self) -> None:
        """Keep what the client must still get; the log has it."""
        self.connection = None
        kept: deque[Waiting] = deque()
        for waiting in self.pending:
            parcel, start, _, qos = waiting
            source = parcel.source
            if isinstance(source, Tail):
                if qos:
                    place = parcel.base_offset + start
                    self.behind[source] = min(self.behind.get(source, place), place)
            elif source is not None:
                for index in range(start, len(parcel)):
                    source.settled(parcel.base_offset + index, is_taken=False)
            elif qos:
                kept.append(waiting)
        self.pending = kept
        self._pending_count = sum(len(one.parcel) - one.start for one in kept)
        for number, flight in list(self.flights.items()):
            source = flight.parcel.source
            # MQTT-4.8.2-5: QoS 2 stays with its client; QoS 1 goes to another of the group.
            if flight.qos == 1 and source is not None and not isinstance(source, Tail):
                del self.flights[number]
                source.settled(flight.offset(number), is_taken=False)

    def close(self) -> None:
        """Give back what a session that ends has taken from a group."""
        self.detach()
        for number, flight in self.flights.items():
            source = flight.parcel.source
            if source is not None and not isinstance(source, Tail):
                source.settled(flight.offset(number), is_taken=False)
        self.flights.clear()

    # What the log keeps of it.

    def place_in(self, tail: Tail) -> int:
        """Return the offset before which the client needs nothing any more."""
        position = max(tail.position, self._ahead.get(tail, 0))
        return self.place_of(tail, min(self.behind.get(tail, position), position))

    def place_of(self, source: Source, place: int) -> int:
        """Return a place, or an earlier one if something before it is on its way."""
        for waiting in self.pending:
            if waiting.parcel.source is source and waiting.qos:
                place = min(place, waiting.parcel.base_offset + waiting.start)
        for number, flight in self.flights.items():
            if flight.parcel.source is source:
                place = min(place, flight.offset(number))
        done = self._done.get(source)
        if done:
            self._done[source] = {offset for offset in done if offset >= place}
        return place

    def done_in(self, source: Source) -> Iterator[int]:
        """Yield the places of messages of QoS 2 that are over, behind the session's place."""
        yield from self._done.get(source, ())

    def known_in(self, source: Source) -> set[int]:
        """Return which messages of QoS 2 are over, or on their way, and are not sent again."""
        done = self._done.get(source, set())
        return done | {
            one.offset(number)
            for number, one in self.flights.items()
            if one.qos == 2 and one.parcel.source is source
        }

    def note_done(self, source: Source, done: set[int]) -> None:
        """Take note of messages of QoS 2 that are over."""
        self._done[source] = done

    def restore(self, tail: Tail, place: int, done: set[int]) -> None:
        """Go on after a restart."""
        self.note_done(tail, done)
        if place < tail.position or tail.is_waiting:
            self.behind[tail] = place
        elif place > tail.position:
            self._ahead[tail] = place

"""One client's session: its subscriptions, what is under way, and what the log keeps of it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from chordmq.broker.names import Reach
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.principal import Principal
from chordmq.broker.sessions import (
    Arrival,
    Place,
    Progress,
    StoredFlight,
    StoredSession,
    StoredSubscription,
    StreamPlace,
)
from chordmq.broker.subscriptions import matches
from chordmq.codecs.mqtt.packets import Options, Will
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.outbox import DONE, Flight, Outbox
from chordmq.fronts.mqtt.subscriptions import Subscription, Target, target_of
from chordmq.fronts.mqtt.tails import Source, Tail, reread
from chordmq.fronts.mqtt.wills import stored_will, will_of

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection
    from chordmq.fronts.mqtt.front import MqttFront
    from chordmq.fronts.mqtt.readers import Reader

Stored = Callable[[], None]


class Kept(NamedTuple):
    """Where the client was in a stream, and which messages of QoS 2 beyond that are over."""

    offset: int
    done: set[int]


class Session:
    """What the node knows of a client, connected or not."""

    def __init__(self, front: "MqttFront", client_id: str, principal: Principal, host: str) -> None:
        self._front = front
        self.client_id = client_id
        self.principal = principal
        self.host = host
        self.expiry_s = 0
        self.left_ms: int | None = None
        self.connection: MqttConnection | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.hides_own = False
        """Whether the client wants some messages only if they are not its own."""
        self.shared: dict[str, Reader[Any]] = {}
        """What reads the log by itself: parts in groups, queues and streams."""
        self.outbox = Outbox(self, front.settings.pending_max)
        self.will: Will | None = None
        self.arrivals: dict[int, Arrival | None] = {}
        """Messages of QoS 2 that the client has not released, by their numbers."""
        self.producer_id = -1
        self._sequences: dict[tuple[bytes, int], int] = {}
        """The last number of the client's messages of QoS 2, by partition."""
        self._landed: list[StoredFlight] = []
        """Messages of QoS 2 on their way to the client, which are to be read again."""
        self.stream_places: dict[tuple[str, bytes, int], Kept] = {}
        """Where the client was in streams, by filter, topic and partition, until it is back."""
        self._unsure: tuple[Arrival, ...] = ()
        """Messages of QoS 2 that may be in the log or not."""
        self._then: list[Stored] = []
        self._is_writing = False
        self._reaches: list[Reach] | None = None
        self.is_ended = False
        self.is_stored = True
        """Whether the log knows of the session."""
        self.dormant: list[Subscription] = []
        """Parts in groups that are taken up when the client comes back."""

    @property
    def is_durable(self) -> bool:
        """Return whether the session outlives its connection, and the node's process."""
        return self.expiry_s > 0

    def now_ms(self) -> int:
        """Return the time of the wall clock."""
        return self._front.broker.clock.now_ms()

    def count_sent(self, count: int) -> None:
        """Count messages that went to the client."""
        self._front.messages_out += count

    def may_read(self, log_topic: str) -> bool:
        """Return whether the client may have what lies in a log topic."""
        permissions = self._front.broker.permissions
        return not permissions.is_enforced or permissions.acl.allows(
            self.principal, self.host, Operation.READ, Kind.TOPIC, log_topic
        )

    def may_get(self, name: str, log_topic: str, *, is_granted: bool) -> bool:
        """Return whether the client may have the messages of a name."""
        if self._front.rules.keeps_from(name, self.principal.name, self.client_id):
            return False
        return is_granted or self.may_read(log_topic)

    # Subscriptions.

    def subscribe(self, subscription: Subscription) -> bool:
        """Add a subscription, or replace that with the same filter; return whether it is new."""
        old = self.subscriptions.get(subscription.filter)
        if old is not None:
            self._front.interest.remove(old)
            subscription.since = old.since
        else:
            subscription.since = {tail: tail.position for tail in self.outbox.behind}
        self.subscriptions[subscription.filter] = subscription
        self.note_subscriptions()
        self._front.interest.add(subscription)
        return old is None

    def unsubscribe(self, wanted: str) -> bool:
        """Remove a subscription, and return whether it was there."""
        old = self.subscriptions.pop(wanted, None)
        if old is None:
            return False
        self.note_subscriptions()
        self._front.interest.remove(old)
        self._front.unreach(wanted)
        return True

    def note_subscriptions(self) -> None:
        """Take note that what the client wants has changed."""
        self._reaches = None
        readers = (reader.subscription for reader in self.shared.values())
        self.hides_own = any(
            one.options.no_local for one in (*self.subscriptions.values(), *readers)
        )

    def match(self, parcel: Parcel, tail: Tail) -> Target | None:
        """Return how the client wants a message that it has missed, if it does."""
        found = [
            one
            for one in self.subscriptions.values()
            if matches(one.filter, parcel.name)
            and parcel.base_offset >= one.since.get(tail, 0)
            and self.may_get(parcel.name, tail.partition.topic, is_granted=one.is_granted)
        ]
        return target_of(self, found) if found else None

    # What the log keeps.

    def touch(self) -> None:
        """Have the session's progress stored before long."""
        if self.expiry_s > 0:
            self._front.register.dirty[self] = None

    def when_stored(self, then: Stored) -> None:
        """Store the progress, and call `then` when it is in the log."""
        self._then.append(then)
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        then, self._then = self._then, []
        if self.is_ended:
            self._is_writing = False
            return
        try:
            written = self._front.broker.sessions.store(self.progress())
        except ChordMQError as error:
            self._failed(error)
            return

        def done(future: asyncio.Future[None]) -> None:
            error = None if future.cancelled() else future.exception()
            if future.cancelled() or isinstance(error, ChordMQError):
                self._failed(error if isinstance(error, ChordMQError) else None)
                return
            for call in then:
                call()
            if self._then:
                self._write()
            else:
                self._is_writing = False

        written.add_done_callback(done)

    def _failed(self, error: ChordMQError | None) -> None:
        """Send the client away: what it was told may not be in the log."""
        self._is_writing = False
        self._then.clear()
        if self.connection is not None and error is not None:
            self.connection.fail(error)

    def stored(self) -> StoredSession:
        """Return what the client has asked for."""
        return StoredSession(
            client=self.client_id,
            user=self.principal.name,
            expiry_s=self.expiry_s,
            left_ms=self.left_ms,
            producer_id=self.producer_id,
            subscriptions=(
                *(_stored(one.subscription) for one in self.shared.values()),
                *map(_stored, self.dormant),
                *(_stored(one) for one in self.subscriptions.values()),
            ),
            will=stored_will(self.will),
        )

    def progress(self) -> Progress:
        """Return how far the client got."""
        places, streams = [], []
        flights = list(self._landed)
        for wanted, source, place in self._own_places():
            topic = self._front.broker.topics.find(source.partition.topic)
            if topic is None:
                continue
            index = source.partition.index
            if wanted:
                streams.append(StreamPlace(wanted, topic.id, index, place))
            else:
                places.append(Place(topic.id, index, place))
            flights += (
                StoredFlight(0, topic.id, index, offset, DONE, wanted)
                for offset in self.outbox.done_in(source)
            )
            flights += (
                StoredFlight(number, topic.id, index, one.offset(number), one.state, wanted)
                for number, one in self.outbox.flights.items()
                if one.qos == 2 and one.parcel.source is source
            )
        for (wanted, topic_id, index), kept in self.stream_places.items():
            streams.append(StreamPlace(wanted, topic_id, index, kept.offset))
            flights += (StoredFlight(0, topic_id, index, one, DONE, wanted) for one in kept.done)
        return Progress(
            client=self.client_id,
            places=tuple(places),
            flights=tuple(flights),
            arrivals=(*self._unsure, *(one for one in self.arrivals.values() if one is not None)),
            streams=tuple(streams),
        )

    def _own_places(self) -> Iterator[tuple[str, Source, int]]:
        """Yield what the session keeps its place in: a stream's filter, the source, the place."""
        for tail in self._front.tails_of(self):
            yield "", tail, self.outbox.place_in(tail)
        for wanted, reader in self.shared.items():
            for source in reader.sources.values():
                if source.is_own:
                    yield wanted, source, reader.place_in(source)

    async def look_up_sequence(self, partition: Partition) -> None:
        """Get ready to publish to a partition with QoS 2."""
        broker = self._front.broker
        if self.producer_id < 0:
            self.producer_id = await broker.new_producer_id()
            await broker.sessions.store(self.stored())
        where = (broker.topics.get(partition.topic).id, partition.index)
        if where not in self._sequences:
            last = await broker.leaders.last_sequence(partition, self.producer_id)
            self._sequences.setdefault(where, last)

    def knows_sequence(self, partition: Partition) -> bool:
        """Return whether the client can publish to a partition with QoS 2 at once."""
        topic = self._front.broker.topics.find(partition.topic)
        return topic is not None and (topic.id, partition.index) in self._sequences

    def next_sequence(self, topic_id: bytes, partition: int) -> int:
        """Return the number of the client's next message of QoS 2 in a partition."""
        sequence = self._sequences[topic_id, partition] + 1
        self._sequences[topic_id, partition] = sequence
        return sequence

    def forget_arrival(self, number: int) -> None:
        """Take note that a message of QoS 2 is not in the log; its place in the order is free."""
        arrival = self.arrivals.pop(number, None)
        if arrival is not None:
            self._sequences.pop((arrival.topic_id, arrival.partition), None)

    async def restore(self, asked: StoredSession, progress: Progress) -> None:
        """Go on after a restart of the node, as a client that is away."""
        self.expiry_s = asked.expiry_s
        self.left_ms = asked.left_ms
        self.producer_id = asked.producer_id
        self.will = will_of(asked.will)
        for one in asked.subscriptions:
            options = Options(
                qos=one.qos,
                no_local=one.no_local,
                retain_as_published=one.retain_as_published,
            )
            await self._front.resubscribe(
                Subscription(self, one.filter, options, one.identifier, one.user)
            )
        self._restore_places(progress)
        self._unsure = progress.arrivals

    def _restore_places(self, progress: Progress) -> None:
        places = {(one.topic_id, one.partition): one.offset for one in progress.places}
        gone: dict[tuple[str, bytes, int], set[int]] = {}
        for one in progress.flights:
            gone.setdefault((one.filter, one.topic_id, one.partition), set()).add(one.offset)
        topics = self._front.broker.topics
        for tail in self._front.tails_of(self):
            partition = tail.partition
            where = (topics.get(partition.topic).id, partition.index)
            # A topic without a place was made after the client had subscribed.
            place = places.get(where, partition.log.start_offset)
            self.outbox.restore(tail, place, gone.get(("", *where), set()))
        for kept in progress.streams:
            stream = (kept.filter, kept.topic_id, kept.partition)
            self.stream_places[stream] = Kept(kept.offset, gone.get(stream, set()))
        self._landed = [one for one in progress.flights if one.state != DONE]

    async def settle_flights(self) -> None:
        """Read again what was on its way to the client when the node went down."""
        while self._landed:
            stored = self._landed[0]
            source = self._source_of(stored)
            parcels = await reread(source, stored.offset) if source is not None else ()
            if parcels and parcels[0].base_offset == stored.offset:  # or retention has taken it
                target = self._target_of(stored, parcels[0])
                flight = Flight(parcels[0], stored.id, target, 2, stored.state)
                self.outbox.flights[stored.id] = flight
            self._landed.pop(0)

    def _source_of(self, stored: StoredFlight) -> Source | None:
        partition = self._front.broker.topics.partition(stored.topic_id, stored.partition)
        if partition is None:
            return None
        if not stored.filter:
            return self._front.tails.get(partition)
        reader = self.shared.get(stored.filter)
        return reader.sources.get(partition) if reader is not None else None

    def _target_of(self, stored: StoredFlight, parcel: Parcel) -> Target:
        if stored.filter:
            return target_of(self, [self.shared[stored.filter].subscription])
        tail = parcel.source
        found = self.match(parcel, tail) if isinstance(tail, Tail) else None
        return found or Target(self, 2)

    async def settle_arrivals(self) -> None:
        """Find out which messages came to lie in the log before the node went down."""
        unsure, self._unsure = self._unsure, ()
        broker = self._front.broker
        for one in unsure:
            partition = broker.topics.partition(one.topic_id, one.partition)
            if partition is None:
                continue
            try:
                await self.look_up_sequence(partition)
            except ChordMQError:
                self._unsure = unsure
                raise
            if self._sequences[one.topic_id, one.partition] >= one.sequence:
                self.arrivals[one.id] = one

    def forget_reaches(self) -> None:
        """Look again which log topics the client's filters may find something in."""
        self._reaches = None

    def reaches(self) -> list[Reach]:
        """Return which log topics the client's filters may find something in."""
        if self._reaches is None:
            self._reaches = [self._front.names.reach(wanted) for wanted in self.subscriptions]
        return self._reaches


def _stored(one: Subscription) -> StoredSubscription:
    options = one.options
    return StoredSubscription(
        one.filter,
        options.qos,
        options.no_local,
        options.retain_as_published,
        one.identifier,
        one.user,
    )

"""What all MQTT clients share: sessions, subscriptions, the ends of partitions, and the node."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from chordmq.broker.broker import Broker
from chordmq.broker.names import Destination, Names, name_of, plain_topic
from chordmq.broker.partition import Partition
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.subscriptions import SEPARATOR
from chordmq.broker.topic import Topic
from chordmq.client.partitioner import partition_for_key
from chordmq.codecs.mqtt.fields import write_binary
from chordmq.errors import NotLeader
from chordmq.fronts.mqtt import sys_topics
from chordmq.fronts.mqtt.appends import MessageAppends
from chordmq.fronts.mqtt.groups import READ_APART, Groups
from chordmq.fronts.mqtt.letters import Bundle
from chordmq.fronts.mqtt.mapping import Parcel, headers_of
from chordmq.fronts.mqtt.reaches import Reaches
from chordmq.fronts.mqtt.register import Register
from chordmq.fronts.mqtt.rules import Rules, read_rules
from chordmq.fronts.mqtt.session import Session
from chordmq.fronts.mqtt.settings import MqttSettings
from chordmq.fronts.mqtt.sparkplug import announce, certificate_of
from chordmq.fronts.mqtt.subscriptions import Interest, Subscription, Target
from chordmq.fronts.mqtt.tails import UNKNOWN, Tail
from chordmq.fronts.mqtt.writes import Writes
from chordmq.records.record import Headers, Record, prepare_headers, prepare_key

STORE_INTERVAL_S = 1.0
ENDS_PATIENCE_S = 1.0
ROUTES_MAX = 100_000
RECORD_COST = 100
"""Bytes of a record without payload, key and name: numbers, headers and what points to them."""


class Route:
    """Where the messages of a name go, and what their records have in common."""

    __slots__ = (
        "_headers", "_is_named", "around", "certificate", "key", "name", "overhead", "partition",
        "prepared_key", "topic",
    )  # fmt: skip

    def __init__(self, name: str, partition: Partition, key: bytes | None) -> None:
        self.name = name
        self.topic = write_binary(name.encode())
        self.partition = partition
        self.key = key
        self.prepared_key = prepare_key(key)
        self.overhead = RECORD_COST + len(self.prepared_key) + len(self.topic)
        """Bytes that a message takes besides its payload, while it is stored and in a batch."""
        self.certificate = certificate_of(name)
        """Where births of Sparkplug's edge nodes and devices are kept; nothing for other names."""
        self._is_named = name_of(partition.topic, Record(0, 0, key, b"")) != name
        self._headers: dict[int, tuple[Headers, bytes]] = {}
        self.around = (self.prepared_key, self.headers(1)[1])
        """Key and headers of messages of QoS 1 as records have them."""

    def headers(self, qos: int) -> tuple[Headers, bytes]:
        """Return the headers of messages with a QoS, and the same as records have them."""
        found = self._headers.get(qos)
        if found is None:
            headers = headers_of(self.name, qos, is_named=self._is_named)
            found = self._headers[qos] = (headers, prepare_headers(headers))
        return found


class MqttFront:
    """The broker behind the listeners, and the sessions in front of it."""

    def __init__(
        self,
        broker: Broker,
        settings: MqttSettings,
        names: Names,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.names = names
        self.authenticator = authenticator
        self.rules = Rules(read_rules(settings.acl))
        self.interest = Interest()
        self.tails: dict[Partition, Tail] = {}
        self.register = Register(self)
        self.appends = MessageAppends(broker, self.tails)
        self.writes = Writes()
        self.tasks: asyncio.TaskGroup
        self.ready = asyncio.Event()
        self.messages_in = 0
        self.messages_out = 0
        self.refused = 0
        """Messages that could not be stored."""
        self.connected = 0
        self.routes: dict[bytes, Route] = {}
        self._reaches = Reaches()
        self._known: dict[bytes, int] = {}
        """How many partitions of each log topic were there when it was looked last."""
        self.groups = Groups(broker, names)
        self._began_s = self._told_s = broker.clock.monotonic_s()

    async def run(self) -> None:
        """Serve until cancelled: load sessions, then store their progress from time to time."""
        async with asyncio.TaskGroup() as self.tasks:
            self.names.watchers.append(self.reroute)
            self.broker.retained.watchers.append(partial(announce, self))
            self._note_topics()
            self.groups.load()
            await self.register.open()
            self.ready.set()
            try:
                while True:
                    await asyncio.sleep(STORE_INTERVAL_S)
                    self.register.store_dirty()
                    self._tell_of_itself()
                    await self._begin_waiting()
            finally:
                self.register.stop()

    async def close(self) -> None:
        """Store what sessions have reached."""
        for tail in self.tails.values():
            tail.close()
        await self.register.close()

    @property
    def sessions(self) -> dict[str, Session]:
        """Return the sessions that this node looks after, by client."""
        return self.register.sessions

    def _tell_of_itself(self) -> None:
        """Send the topics below `$SYS` to who has subscribed to them, if it is time."""
        now_s = self.broker.clock.monotonic_s()
        if not self.settings.sys_interval_s or now_s < self._told_s + self.settings.sys_interval_s:
            return
        self._told_s = now_s
        for parcel in sys_topics.parcels(self):
            for target in self.interest.targets(parcel.name, sys_topics.PREFIX):
                target.session.outbox.offer(parcel, target)

    def uptime_s(self) -> float:
        """Return for how long the front has been there."""
        return self.broker.clock.monotonic_s() - self._began_s

    def audit(self, session: Session, act: str, what: str) -> None:
        """Write some of what clients do to the audit trail, as often as was set."""
        audit = self.broker.audit
        if audit.sample and audit.is_sampled():
            who = f"User:{session.principal.name}"
            audit.record(who=who, host=session.host, act=act, obj=what[:1000])

    def now_ms(self) -> int:
        """Return the time of the wall clock."""
        return self.broker.clock.now_ms()

    # Names and log topics.

    def log_topic(self, name: str) -> str:
        """Return where messages of a name, or of a filter without early wildcards, lie."""
        return self.destination(name).topic

    def destination(self, name: str) -> Destination:
        """Return the log topic of a name, and the key of its messages."""
        if SEPARATOR in name:
            return self.names.destination(name)
        return Destination(plain_topic(name), None)

    def route(self, topic: bytes, name: str, found: Destination) -> Route | None:
        """Return how messages of a name go there; None if their log topic is not there yet."""
        route = self.routes.get(topic)
        if route is None or route.partition.is_closed:
            log_topic = self.broker.topics.find(found.topic)
            if log_topic is None:
                return None
            if len(self.routes) >= ROUTES_MAX:
                self.routes.clear()
            # Messages without a key keep the order of their name.
            key = name.encode() if found.key is None else found.key
            index = partition_for_key(key, len(log_topic.partitions))
            route = self.routes[topic] = Route(name, log_topic.partitions[index], found.key)
        return route

    async def reach(self, wanted: str) -> None:
        """Follow the ends of all partitions in which a filter may find something."""
        reach, known = self.names.reach(wanted), self._known
        if reach not in self._reaches:
            await self._follow_ends(reach.among(self.broker.topics))
        self._reaches.add(reach)
        if self._known is not known:  # other nodes took their time: meanwhile there are new ones
            self._follow_new(self._grown(known), known)

    async def _ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        """Return where partitions end: of what other nodes lead, they know it."""
        bounds = self.broker.bounds
        try:
            extents = await bounds.of(partitions, patience_s=ENDS_PATIENCE_S) if partitions else {}
        except NotLeader:  # of some; what nobody leads must not keep clients from the rest
            extents = {}
            for partition in partitions:
                with suppress(NotLeader):
                    extents |= await bounds.of([partition], patience_s=0)
        return {one: extents[one].end if one in extents else UNKNOWN for one in partitions}

    async def _begin_waiting(self) -> None:
        """Follow what somebody leads again."""
        waiting = [one for one, tail in self.tails.items() if tail.is_waiting]
        for partition, end in (await self._ends(waiting)).items():
            tail = self.tails.get(partition)
            if end != UNKNOWN and tail is not None and tail.is_waiting:
                tail.begin(end)
                for session in self.sessions.values():
                    session.outbox.wake()

    def unreach(self, wanted: str) -> None:
        """Follow no more what nobody has subscribed to."""
        reach = self.names.reach(wanted)
        self._reaches.remove(reach)
        if reach in self._reaches:
            return
        for topic in reach.among(self.broker.topics):
            if not self._reaches.covers(topic.name):
                for tail in self._tails_at(topic):
                    tail.close()
                    del self.tails[tail.partition]

    def tails_of(self, session: Session) -> Iterator[Tail]:
        """Yield the ends that a session's filters may find something at."""
        topics = self.broker.topics
        found = {topic.id: topic for reach in session.reaches() for topic in reach.among(topics)}
        for topic in found.values():
            yield from self._tails_at(topic)

    def _tails_at(self, topic: Topic) -> list[Tail]:
        return [self.tails[one] for one in topic.partitions if one in self.tails]

    def _follow(self, partition: Partition, position: int) -> None:
        if partition not in self.tails:
            tail = self.tails[partition] = Tail(partition, position, self._spread)
            self.appends.follow(tail)

    def _readable(self) -> Iterator[Topic]:
        return (topic for topic in self.broker.topics if not topic.is_internal)

    def _note_topics(self) -> None:
        self._known = {topic.id: len(topic.partitions) for topic in self.broker.topics}

    def look_again(self) -> None:
        """Follow a change of topics or permissions."""
        self.interest.forget_decisions()
        self.routes.clear()
        for partition, tail in list(self.tails.items()):
            if partition.is_closed:
                del self.tails[partition]
                if partition.moved_to is None or not self._reaches.covers(partition.topic):
                    tail.close()
                else:
                    tail.move(partition.moved_to)
                    self.tails[partition.moved_to] = tail
        grown = self._grown(self._known)
        if grown:
            self._follow_new(grown, self._known)
            self.tasks.create_task(self.groups.reach(grown))
        self._note_topics()
        for session in self.sessions.values():
            for reader in session.shared.values():
                reader.look_again()
            if session.connection is not None:
                session.connection.look_again()

    def reroute(self) -> None:
        """Follow a change of the rules: filters may find something in other log topics now."""
        self._reaches = Reaches()
        for session in self.sessions.values():
            session.forget_reaches()
            for reach in session.reaches():
                self._reaches.add(reach)
        reached = [topic for topic in self._readable() if self._reaches.covers(topic.name)]
        self.tasks.create_task(self._follow_ends(reached))
        self.look_again()

    async def _follow_ends(self, topics: Iterable[Topic]) -> None:
        """Follow what is not followed of some log topics, from where they end now."""
        new = [one for topic in topics for one in topic.partitions if one not in self.tails]
        for partition, end in (await self._ends(new)).items():
            self._follow(partition, end)

    def _grown(self, known: dict[bytes, int]) -> list[Topic]:
        """Return the log topics that have more partitions than were known."""
        return [one for one in self._readable() if len(one.partitions) > known.get(one.id, 0)]

    def _follow_new(self, grown: list[Topic], known: dict[bytes, int]) -> None:
        """Follow the ends of partitions that were not known, from their beginning."""
        for topic in grown:
            if self._reaches.covers(topic.name):
                for partition in topic.partitions[known.get(topic.id, 0) :]:
                    self._follow(partition, partition.log.start_offset)

    def _spread(self, parcels: list[Parcel | Bundle]) -> None:
        """Give messages of a partition to everybody who wants them."""
        assert parcels[0].source is not None
        topic = parcels[0].source.partition.topic
        for parcel in parcels:
            if isinstance(parcel, Bundle):
                self._spread_letters(parcel, topic)
            else:
                _offer([parcel], self.interest.targets(parcel.name, topic))

    def _spread_letters(self, bundle: Bundle, topic: str) -> None:
        """Give letters to everybody who wants them; those that the same clients want, at once."""
        find = self.interest.targets
        last, targets, start = None, None, 0
        for index, letter in enumerate(bundle.letters):
            route = letter.route
            if route is last:
                continue
            last, others = route, find(route.name, topic)
            if others is not targets:
                if targets:
                    _offer_letters(bundle, start, index, targets)
                targets, start = others, index
        if targets:
            _offer_letters(bundle, start, len(bundle), targets)

    async def resubscribe(self, subscription: Subscription) -> None:
        """Take up a subscription that the log has kept."""
        if subscription.filter.startswith(READ_APART):
            subscription.session.dormant.append(subscription)
            return
        await self.reach(subscription.filter)
        subscription.session.subscribe(subscription)


def _offer(parcels: list[Parcel], targets: list[Target]) -> None:
    """Give messages to some who want them."""
    for target in targets:
        outbox = target.session.outbox
        for parcel in parcels:
            if target.no_local:  # it wants those of others
                for one in parcel.by_sender():
                    outbox.offer(one, target)
            else:
                outbox.offer(parcel, target)


def _offer_letters(bundle: Bundle, start: int, stop: int, targets: list[Target]) -> None:
    """Give letters to some who want them: as they are, or as what every outbox can take."""
    for target in targets:
        sent = target.session.outbox.send_letters(bundle, start, stop, target)
        if sent < stop:
            _offer(bundle.parcels(sent, stop), [target])

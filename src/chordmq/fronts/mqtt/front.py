"""What all MQTT clients share: sessions, subscriptions, the ends of partitions, and the node."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import structlog

from chordmq.broker.alarm import Alarm
from chordmq.broker.broker import Broker
from chordmq.broker.names import Names, Reach, name_of, plain_topic
from chordmq.broker.partition import Partition
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.principal import Principal
from chordmq.broker.subscriptions import SEPARATOR
from chordmq.broker.topic import Topic
from chordmq.client.partitioner import partition_for_key
from chordmq.codecs.mqtt.fields import write_binary
from chordmq.codecs.mqtt.packets import Connect
from chordmq.errors import ChordMQError
from chordmq.fronts.mqtt import publications, subscribing, sys_topics
from chordmq.fronts.mqtt.appends import MessageAppends
from chordmq.fronts.mqtt.expiry import expiry_of
from chordmq.fronts.mqtt.groups import READ_APART, Groups
from chordmq.fronts.mqtt.mapping import Parcel, headers_of
from chordmq.fronts.mqtt.rules import Rules, read_rules
from chordmq.fronts.mqtt.session import Session
from chordmq.fronts.mqtt.settings import MqttSettings
from chordmq.fronts.mqtt.sparkplug import certificate_of
from chordmq.fronts.mqtt.subscriptions import Interest, Subscription
from chordmq.fronts.mqtt.tails import Tail
from chordmq.records.record import Headers, Record, prepare_headers, prepare_key

if TYPE_CHECKING:
    from chordmq.fronts.mqtt.connection import MqttConnection

log = structlog.get_logger(__name__)

STORE_INTERVAL_S = 1.0
ROUTES_MAX = 100_000


class Route(NamedTuple):
    """Where the messages of a name go, and what their records have in common."""

    name: str
    topic: bytes
    partition: Partition
    key: bytes | None
    prepared_key: bytes
    headers: tuple[Headers, ...]
    """By QoS."""
    prepared_headers: tuple[bytes, ...]
    certificate: str
    """Where births of Sparkplug's edge nodes and devices are kept; nothing for other names."""


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
        self.sessions: dict[str, Session] = {}
        self.dirty: dict[Session, None] = {}
        """Sessions whose progress is to be stored."""
        self.appends = MessageAppends(broker, self.tails)
        self.tasks: asyncio.TaskGroup
        self.ready = asyncio.Event()
        self.messages_in = 0
        self.messages_out = 0
        self.refused = 0
        """Messages that could not be stored."""
        self.connected = 0
        self.routes: dict[bytes, Route] = {}
        self._reaches: Counter[Reach] = Counter()
        self._known: dict[bytes, int] = {}
        """How many partitions of each log topic were there when it was looked last."""
        self.groups = Groups(broker, names)
        self.alarm = Alarm(broker.clock, self._ring)
        self._began_s = self._told_s = broker.clock.monotonic_s()

    async def run(self) -> None:
        """Serve until cancelled: load sessions, then store their progress from time to time."""
        async with asyncio.TaskGroup() as self.tasks:
            self._note_topics()
            self.groups.load()
            self._load()
            self.ready.set()
            try:
                while True:
                    await asyncio.sleep(STORE_INTERVAL_S)
                    self.store_dirty()
                    self._tell_of_itself()
            finally:
                self.alarm.cancel()

    async def close(self) -> None:
        """Store what sessions have reached."""
        for tail in self.tails.values():
            tail.close()
        written = [
            self.broker.sessions.store(session.progress())
            for session in self.sessions.values()
            if session.is_durable
        ]
        await asyncio.gather(*written, return_exceptions=True)

    def store_dirty(self) -> None:
        """Have the progress stored of all sessions that went on."""
        dirty, self.dirty = self.dirty, {}
        for session in dirty:
            if not session.is_ended:
                session.when_stored(lambda: None)

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
        return self.names.destination(name).topic if SEPARATOR in name else plain_topic(name)

    def route(self, topic: bytes, name: str) -> Route | None:
        """Return where messages of a name go; None if its log topic is not there yet."""
        route = self.routes.get(topic)
        if route is None or route.partition.is_closed:
            found = self._route(name)
            if found is None:
                return None
            if len(self.routes) >= ROUTES_MAX:
                self.routes.clear()
            route = self.routes[topic] = found
        return route

    def _route(self, name: str) -> Route | None:
        key = self.names.destination(name).key if SEPARATOR in name else None
        topic = self.broker.topics.find(self.log_topic(name))
        if topic is None:
            return None
        # Messages without a key keep the order of their name.
        index = partition_for_key(name.encode() if key is None else key, len(topic.partitions))
        is_named = name_of(topic.name, Record(0, 0, key, b"")) != name
        headers = tuple(headers_of(name, qos, is_named=is_named) for qos in range(3))
        return Route(
            name,
            write_binary(name.encode()),
            topic.partitions[index],
            key,
            prepare_key(key),
            headers,
            tuple(map(prepare_headers, headers)),
            certificate_of(name),
        )

    def reach(self, wanted: str) -> None:
        """Follow the ends of all partitions in which a filter may find something."""
        reach = self.names.reach(wanted)
        self._reaches[reach] += 1
        if self._reaches[reach] > 1:
            return
        for topic in self._readable():
            if reach.covers(topic.name):
                for partition in topic.partitions:
                    self._follow(partition, partition.stable_offset)

    def unreach(self, wanted: str) -> None:
        """Follow no more what nobody has subscribed to."""
        reach = self.names.reach(wanted)
        self._reaches[reach] -= 1
        if self._reaches[reach] > 0:
            return
        del self._reaches[reach]
        for partition, tail in list(self.tails.items()):
            if not self._is_reached(partition.topic):
                tail.close()
                del self.tails[partition]

    def tails_of(self, session: Session) -> Iterator[Tail]:
        """Yield the ends that a session's filters may find something at."""
        reaches = session.reaches()
        for partition, tail in self.tails.items():
            if any(reach.covers(partition.topic) for reach in reaches):
                yield tail

    def _follow(self, partition: Partition, position: int) -> None:
        if partition not in self.tails:
            self.tails[partition] = Tail(partition, position, self._spread)

    def _is_reached(self, log_topic: str) -> bool:
        return any(reach.covers(log_topic) for reach in self._reaches)

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
                tail.close()
                del self.tails[partition]
        grown = [t for t in self._readable() if len(t.partitions) > self._known.get(t.id, 0)]
        if grown:
            self._follow_new(grown)
            self.tasks.create_task(self.groups.reach(grown))
        self._note_topics()
        for session in self.sessions.values():
            for reader in session.shared.values():
                reader.look_again()
            if session.connection is not None:
                session.connection.look_again()

    def _follow_new(self, grown: list[Topic]) -> None:
        """Follow the ends of new partitions, from their beginning."""
        for topic in grown:
            if self._is_reached(topic.name):
                for partition in topic.partitions[self._known.get(topic.id, 0) :]:
                    self._follow(partition, partition.log.start_offset)

    def _spread(self, parcel: Parcel) -> None:
        """Give messages to everybody who wants them."""
        assert parcel.source is not None
        for target in self.interest.targets(parcel.name, parcel.source.partition.topic):
            target.session.outbox.offer(parcel, target)

    # Sessions.

    def _load(self) -> None:
        now_ms = self.broker.clock.now_ms()
        for asked, progress in self.broker.sessions.take():
            session = Session(self, asked.client, Principal(asked.user), "")
            self.sessions[asked.client] = session
            session.restore(asked, progress)
            left_ms = asked.left_ms
            if left_ms is None:  # the node went down under it
                session.left_ms = left_ms = now_ms
                if session.will is not None:
                    self.alarm_in(f"w{asked.client}", session.will.properties.will_delay_s or 0)
            self.alarm_in(f"e{asked.client}", asked.expiry_s - (now_ms - left_ms) / 1000)

    def alarm_in(self, name: str, delay_s: float) -> None:
        """Ring for a session's end (`e`) or will (`w`) after some time."""
        self.alarm.set(name, self.alarm.now_ms() + max(int(delay_s * 1000), 0))

    def _ring(self, name: str) -> None:
        session = self.sessions.get(name[1:])
        self.alarm.discard(name)
        if session is None or session.connection is not None:
            return
        self.publish_will(session)
        if name[0] == "e":
            self.end(session)

    def publish_will(self, session: Session) -> None:
        """Publish what a client has left for this case."""
        will, session.will = session.will, None
        if will is not None:
            self.tasks.create_task(publications.publish_will(self, session, will))

    def resubscribe(self, subscription: Subscription) -> None:
        """Take up a subscription that the log has kept."""
        if subscription.filter.startswith(READ_APART):
            subscription.session.dormant.append(subscription)
            return
        self.reach(subscription.filter)
        subscription.session.subscribe(subscription)

    def open_session(
        self, connection: "MqttConnection", packet: Connect, client_id: str
    ) -> tuple[Session, bool]:
        """Return a client's session, old or new, and whether it is an old one.

        An older connection of the client is closed; what the client had goes over to this one.
        """
        assert connection.login is not None
        principal = connection.login.principal
        old = self.sessions.get(client_id)
        if old is not None and old.connection is not None:
            old.connection.taken_over()
            old = self.sessions.get(client_id)
        has_session = old is not None and not packet.clean_start and old.principal == principal
        if old is not None and not has_session:
            self.publish_will(old)  # MQTT-3.1.3.2: it does not outlive its session
            self.end(old)
        session = old if old is not None and has_session else None
        if session is None:
            session = self.sessions[client_id] = Session(self, client_id, principal, "")
            session.is_stored = False
        self.alarm.discard(f"e{client_id}")
        self.alarm.discard(f"w{client_id}")
        session.host = connection.host
        session.connection = connection
        session.will = packet.will
        session.left_ms = None
        session.expiry_s = expiry_of(packet, self.settings.session_expiry_max_s)
        return session, has_session

    async def opened(self, session: Session) -> None:
        """Store a session that is to outlive its connection; take up its part in groups."""
        dormant, session.dormant = session.dormant, []
        for subscription in dormant:
            await subscribing.join(self, subscription)
        if session.is_durable:
            session.is_stored = True
            await self.broker.sessions.store(session.stored(), session.progress())
        elif session.is_stored:
            session.is_stored = False
            await self.broker.sessions.delete(session.client_id)

    def left(self, session: Session, connection: "MqttConnection") -> None:
        """Keep what a client that has gone may come back for."""
        if session.connection is not connection:
            return
        session.connection = None
        session.outbox.detach()
        for reader in session.shared.values():
            reader.pause()
        session.left_ms = self.broker.clock.now_ms()
        if connection.is_leaving_well:
            session.will = None
        delay_s = 0
        if session.will is not None:
            delay_s = min(session.will.properties.will_delay_s or 0, session.expiry_s)
        if not delay_s:
            self.publish_will(session)
        if not session.is_durable:
            self.end(session)
            return
        if delay_s:
            self.alarm_in(f"w{session.client_id}", delay_s)
        self.alarm_in(f"e{session.client_id}", session.expiry_s)
        self._store(session)

    def _store(self, session: Session) -> None:
        session.is_stored = True
        try:
            stored = self.broker.sessions.store(session.stored(), session.progress())
        except ChordMQError as error:
            log.error("session not stored", client=session.client_id, error=str(error))
        else:
            stored.add_done_callback(_let_be)

    def end(self, session: Session) -> None:
        """Forget a session for good."""
        session.is_ended = True
        self.alarm.discard(f"e{session.client_id}")
        self.alarm.discard(f"w{session.client_id}")
        session.outbox.close()
        for reader in list(session.shared.values()):
            reader.close()
        session.shared.clear()
        for wanted in list(session.subscriptions):
            session.unsubscribe(wanted)
        self.dirty.pop(session, None)
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]
        if session.is_stored:
            session.is_stored = False
            try:
                self.broker.sessions.delete(session.client_id).add_done_callback(_let_be)
            except ChordMQError as error:
                log.error("session not deleted", client=session.client_id, error=str(error))


def _let_be(written: asyncio.Future[None]) -> None:
    """Take note of a failure that the log has told of already."""
    if not written.cancelled():
        written.exception()

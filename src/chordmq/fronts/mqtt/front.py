"""What all MQTT clients share: sessions, subscriptions, the ends of partitions, and the node."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from chordmq.broker.broker import Broker
from chordmq.broker.names import Names, Reach, name_of, plain_topic
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
from chordmq.fronts.mqtt.mapping import Parcel, headers_of
from chordmq.fronts.mqtt.register import Register
from chordmq.fronts.mqtt.rules import Rules, read_rules
from chordmq.fronts.mqtt.session import Session
from chordmq.fronts.mqtt.settings import MqttSettings
from chordmq.fronts.mqtt.sparkplug import certificate_of
from chordmq.fronts.mqtt.subscriptions import Interest, Subscription
from chordmq.fronts.mqtt.tails import Tail
from chordmq.records.record import Headers, Record, prepare_headers, prepare_key

STORE_INTERVAL_S = 1.0
REACH_INTERVAL_S = 0.5
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
        self.register = Register(self)
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
        self._began_s = self._told_s = broker.clock.monotonic_s()

    async def run(self) -> None:
        """Serve until cancelled: load sessions, then store their progress from time to time."""
        async with asyncio.TaskGroup() as self.tasks:
            self.names.watchers.append(self.reroute)
            self._note_topics()
            self.groups.load()
            await self.register.open()
            self.ready.set()
            try:
                while True:
                    await asyncio.sleep(STORE_INTERVAL_S)
                    self.register.store_dirty()
                    self._tell_of_itself()
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

    async def reach(self, wanted: str) -> None:
        """Follow the ends of all partitions in which a filter may find something."""
        reach = self.names.reach(wanted)
        if reach in self._reaches:
            self._reaches[reach] += 1
            return
        new = [partition for partition in self._partitions() if reach.covers(partition.topic)]
        # Of what other nodes lead, they know the end.
        extents = await self.broker.bounds.of(new) if new else {}
        self._reaches[reach] += 1
        for partition, extent in extents.items():
            self._follow(partition, extent.end)

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
                del self.tails[partition]
                if partition.moved_to is None:
                    tail.close()
                else:
                    tail.move(partition.moved_to)
                    self.tails[partition.moved_to] = tail
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

    def reroute(self) -> None:
        """Follow a change of the rules: filters may find something in other log topics now."""
        self._reaches.clear()
        for session in self.sessions.values():
            session.forget_reaches()
            self._reaches.update(session.reaches())
        unfollowed = [one for one in self._partitions() if self._is_reached(one.topic)]
        self.tasks.create_task(self._follow_ends(unfollowed))
        self.look_again()

    async def _follow_ends(self, partitions: list[Partition]) -> None:
        try:
            extents = await self.broker.bounds.of(partitions)
        except NotLeader:
            return  # whoever subscribes next asks again
        for partition, extent in extents.items():
            self._follow(partition, extent.end)

    def _partitions(self) -> Iterator[Partition]:
        """Yield what could be followed, and is not."""
        for topic in self._readable():
            yield from (one for one in topic.partitions if one not in self.tails)

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

    async def resubscribe(self, subscription: Subscription) -> None:
        """Take up a subscription that the log has kept."""
        if subscription.filter.startswith(READ_APART):
            subscription.session.dormant.append(subscription)
            return
        while True:
            try:
                await self.reach(subscription.filter)
            except NotLeader:  # the session needs to know where it is; there will be a leader
                await asyncio.sleep(REACH_INTERVAL_S)
            else:
                break
        subscription.session.subscribe(subscription)

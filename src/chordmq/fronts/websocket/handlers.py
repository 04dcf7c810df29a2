"""What each request of a gateway's client does: publish, subscribe, acknowledge, leave."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from chordmq.broker.broker import Broker
from chordmq.broker.cursors.cursors import EARLIEST, LATEST
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.feed import Offsets, read_position
from chordmq.broker.names import is_filter, named
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.security.principal import Principal
from chordmq.broker.subscriptions import check_filter
from chordmq.broker.topic import INTERNAL_TOPICS, Topic
from chordmq.client.partitioner import partition_for_key
from chordmq.codecs.websocket.messages import (
    Ack,
    Acknowledged,
    Credit,
    Id,
    Login,
    Ping,
    Pong,
    Publish,
    Published,
    Refused,
    Request,
    Start,
    Subscribe,
    Subscribed,
    Told,
    Unsubscribe,
    Unsubscribed,
)
from chordmq.codecs.websocket.subprotocols import Subprotocol
from chordmq.errors import (
    ChordMQError,
    InvalidRequest,
    PolicyViolation,
    UnknownTopic,
)
from chordmq.fronts.websocket.deliveries import (
    Client,
    Follower,
    OwnFollower,
    SharedFollower,
    Subscription,
)
from chordmq.fronts.websocket.front import View

T = TypeVar("T")

_turns = itertools.count()


class Who(NamedTuple):
    """Whose connection it is."""

    principal: Principal
    host: str
    number: str
    """Tells apart all connections of the node."""


class Session:
    """What one client may do, has asked for and is given."""

    def __init__(self, client: Client, broker: Broker, subprotocol: Subprotocol, who: Who) -> None:
        self._client = client
        self._front = client.front
        self._broker = broker
        self._subprotocol = subprotocol
        self.who = who
        self.subscriptions: dict[Id, Subscription] = {}
        self.unanswered = 0
        """Bytes of messages that are being stored."""

    async def answer(self, request: Request, size: int) -> None:
        """Do what a client asks, and tell it what came of it."""
        try:
            if isinstance(request, Publish):
                await self._publish(request, size)
            else:
                await HANDLERS[type(request)](self, request)
        except ChordMQError as error:
            self.refuse(request.id, error)

    def refuse(self, identifier: Id, error: ChordMQError) -> None:
        """Tell the client what is wrong with a request."""
        self._client.tell(Refused(id=identifier, error=type(error).__name__, message=str(error)))

    def check(self, operation: Operation, kind: Kind, name: str) -> None:
        """Raise the error for the kind of resource unless the client may do this with it."""
        permissions = self._broker.permissions
        if permissions.is_enforced:
            permissions.acl.check(self.who.principal, self.who.host, operation, kind, name)

    def _allows(self, operation: Operation, kind: Kind, name: str) -> bool:
        permissions = self._broker.permissions
        return not permissions.is_enforced or permissions.acl.allows(
            self.who.principal, self.who.host, operation, kind, name
        )

    def close(self) -> None:
        """Give everything back."""
        for subscription in self.subscriptions.values():
            subscription.close()
        self.subscriptions.clear()

    async def _publish(self, request: Publish, size: int) -> None:
        name, key = self._front.names.destination(request.topic)
        self.check(Operation.WRITE, Kind.TOPIC, name)
        if name in INTERNAL_TOPICS:
            raise PolicyViolation(f"{name} is the broker's own; clients may only read it")
        topic = self._broker.topics.find(name) or await self._created(name)
        record = self._subprotocol.to_record(request, self._front.listener.clock.now_ms())
        if record.key is None and key is not None:
            record = record._replace(key=key)
        partition = _partition_of(topic, request.partition, record.key)
        appended = self._front.appends.append(partition, [named(record, request.topic)])
        self._front.messages_in += 1
        self.unanswered += size
        appended.add_done_callback(lambda _: self._answered(size))

        def published(offset: int) -> Told:
            self._audit(f"{name}-{partition.index} offset {offset}")
            return Published(id=request.id, topic=name, partition=partition.index, offset=offset)

        self._when_done(appended, request.id, published)

    def _audit(self, place: str) -> None:
        audit = self._broker.audit
        if audit.sample and audit.is_sampled():
            who = f"User:{self.who.principal.name}"
            audit.record(who=who, host=self.who.host, act="publish", obj=place)

    def _answered(self, size: int) -> None:
        self.unanswered -= size
        self._client.answered()

    async def _created(self, name: str) -> Topic:
        """Make a topic on first use where that is allowed."""
        broker = self._broker
        if not broker.settings.auto_create_topics_enable:
            raise UnknownTopic(f"no topic {name}; create it first")
        if not self._allows(Operation.CREATE, Kind.CLUSTER, CLUSTER_NAME):
            self.check(Operation.CREATE, Kind.TOPIC, name)
        return await broker.topics.ensure(name)

    async def _subscribe(self, request: Subscribe) -> None:
        if request.id in self.subscriptions:
            raise InvalidRequest(f"the subscription {request.id!r} is there already")
        if len(self.subscriptions) >= self._front.settings.subscriptions_max:
            raise PolicyViolation(
                f"{len(self.subscriptions)} subscriptions are open, which is "
                "websocket.subscriptions_max"
            )
        subscription = Subscription(self._client, request)
        if request.group:
            await self._join(subscription)
        else:
            await self._follow(subscription)
        self.subscriptions[request.id] = subscription
        self._client.tell(Subscribed(id=request.id, positions=subscription.positions()))
        subscription.wake()

    def _view(self, request: Subscribe, topic: str) -> View:
        wanted = request.topic if is_filter(request.topic) else ""
        return View(topic, wanted, self._subprotocol, request.encoding)

    async def _join(self, subscription: Subscription) -> None:
        """Share a group's index in a log topic."""
        request = subscription.wanted
        broker = self._broker
        if is_filter(request.topic):
            raise InvalidRequest("a group shares a log topic; it cannot share a filter")
        if request.positions is not None or not isinstance(request.start, str):
            raise InvalidRequest("a group has its own place; it begins earliest or latest")
        self.check(Operation.READ, Kind.TOPIC, request.topic)
        self.check(Operation.READ, Kind.GROUP, request.group)
        if broker.groups.has(request.group):
            raise PolicyViolation(f"{request.group} is a group whose members own partitions")
        start_ms = EARLIEST if request.start == "earliest" else LATEST
        topic = broker.topics.get(request.topic)
        cursors = [
            await broker.cursors.open(request.group, topic.name, partition.index, start_ms=start_ms)
            for partition in topic.partitions
        ]
        holder = f"{self.who.number}:{request.id}"
        view = self._view(request, topic.name)
        subscription.followers[topic.name] = SharedFollower(subscription, view, cursors, holder)

    async def _follow(self, subscription: Subscription) -> None:
        """Read the log with an index of one's own."""
        request = subscription.wanted
        check_start(request)
        if is_filter(request.topic):
            check_filter(request.topic)
            for topic in self._matching(request.topic):
                if self._allows(Operation.READ, Kind.TOPIC, topic.name):
                    self._begin(subscription, topic, await starts(self._broker, request, topic))
                subscription.seen.add(topic.id)
            return
        self.check(Operation.READ, Kind.TOPIC, request.topic)
        topic = self._broker.topics.get(request.topic)
        start = request.start
        if isinstance(start, Start) and start.offset is not None and request.positions is None:
            self._broker.partition(topic.name, start.partition)
            follower = OwnFollower.of_one_partition(
                subscription,
                self._view(request, topic.name),
                topic,
                (start.partition, start.offset),
            )
            subscription.followers[topic.name] = follower
        else:
            self._begin(subscription, topic, await starts(self._broker, request, topic))

    def _begin(self, subscription: Subscription, topic: Topic, offsets: Offsets) -> None:
        view = self._view(subscription.wanted, topic.name)
        subscription.followers[topic.name] = OwnFollower(subscription, view, topic, offsets)

    def look_again(self) -> None:
        """Read what was made or allowed since, and no more what is forbidden now."""
        for subscription in list(self.subscriptions.values()):
            for follower in list(subscription.followers.values()):
                try:
                    self.check(Operation.READ, Kind.TOPIC, follower.topic)
                except ChordMQError as error:
                    self.lost(follower, error)
                    continue
                if isinstance(follower, OwnFollower):
                    follower.grow()
            if is_filter(subscription.wanted.topic):
                self._refresh(subscription)

    def _refresh(self, subscription: Subscription) -> None:
        """Read all log topics that may hold what is wanted; new ones from their beginning."""
        for topic in self._matching(subscription.wanted.topic):
            is_followed = topic.name in subscription.followers
            if not is_followed and self._allows(Operation.READ, Kind.TOPIC, topic.name):
                offsets = subscription.kept.pop(topic.id, None)
                if offsets is None and topic.id in subscription.seen:
                    self._front.listener.tasks.create_task(self._begin_late(subscription, topic))
                else:
                    self._begin(subscription, topic, offsets or {})
                    subscription.followers[topic.name].wake()
            subscription.seen.add(topic.id)

    async def _begin_late(self, subscription: Subscription, topic: Topic) -> None:
        """Read a log topic that the client may read from now on."""
        try:
            offsets = await starts(self._broker, subscription.wanted, topic)
        except ChordMQError as error:
            self.refuse(subscription.wanted.id, error)
            return
        is_there = self.subscriptions.get(subscription.wanted.id) is subscription
        if is_there and topic.name not in subscription.followers:
            self._begin(subscription, topic, offsets)
            subscription.followers[topic.name].wake()

    def _matching(self, wanted: str) -> list[Topic]:
        return list(self._front.names.reach(wanted).among(self._broker.topics))

    def has_room(self) -> None:
        """Tell what was dropped while there was no room."""
        for subscription in self.subscriptions.values():
            if subscription.is_dropping:
                subscription.wake()

    def lost(self, follower: Follower, error: ChordMQError) -> None:
        """End a subscription whose log topic cannot be read; a filter goes on without it."""
        subscription = follower.subscription
        subscription.forget(follower.topic)
        wanted = subscription.wanted
        if not is_filter(wanted.topic) and wanted.id in self.subscriptions:
            del self.subscriptions[wanted.id]
            told = Unsubscribed(id=wanted.id, error=type(error).__name__, message=str(error))
            self._client.tell(told)

    async def _unsubscribe(self, request: Unsubscribe) -> None:
        self._find(request.id).close()
        del self.subscriptions[request.id]
        self._client.tell(Unsubscribed(id=request.id))

    async def _add_credit(self, request: Credit) -> None:
        self._find(request.id).add_credit(request.count)

    async def _acknowledge(self, request: Ack) -> None:
        follower = self._find(request.id).followers.get(request.topic)
        if not isinstance(follower, SharedFollower):
            raise InvalidRequest("only what a group shares is acknowledged")
        last = request.offset if request.last is None else request.last
        outcome = Outcome[request.outcome.upper()]
        stored = follower.settle(request.partition, request.offset, last, outcome)
        told = Acknowledged(
            id=request.id, topic=request.topic, partition=request.partition, offset=last
        )
        self._when_done(stored, request.id, lambda _: told)

    def _when_done(
        self, work: asyncio.Future[T], identifier: Id, told: Callable[[T], Told]
    ) -> None:
        """Tell the client what came of work that others do not wait for."""

        def done(work: asyncio.Future[T]) -> None:
            if work.cancelled():
                return
            error = work.exception()
            if error is None:
                self._client.tell(told(work.result()))
            elif isinstance(error, ChordMQError):
                self.refuse(identifier, error)
            else:
                raise error

        work.add_done_callback(done)

    async def _ping(self, request: Ping) -> None:
        self._client.tell(Pong(id=request.id))

    async def _login(self, request: Login) -> None:
        raise InvalidRequest("the login comes first")

    def _find(self, identifier: Id) -> Subscription:
        subscription = self.subscriptions.get(identifier)
        if subscription is None:
            raise InvalidRequest(f"no subscription {identifier!r} is open")
        return subscription


HANDLERS: dict[type[Request], Callable[[Session, Any], Awaitable[None]]] = {
    Subscribe: Session._subscribe,
    Unsubscribe: Session._unsubscribe,
    Credit: Session._add_credit,
    Ack: Session._acknowledge,
    Ping: Session._ping,
    Login: Session._login,
}


def _partition_of(topic: Topic, asked: int | None, key: bytes | None) -> Partition:
    """Return the partition asked for, or that of the key as Kafka's clients choose it."""
    count = len(topic.partitions)
    if asked is None:
        asked = next(_turns) % count if key is None else partition_for_key(key, count)
    if asked >= count:
        raise InvalidRequest(f"{topic.name} has {count} partitions, not {asked}")
    return topic.partitions[asked]


def check_start(request: Subscribe) -> None:
    """Raise InvalidRequest if it is not clear where to begin."""
    start = request.start
    if isinstance(start, Start):
        if (start.timestamp is None) == (start.offset is None):
            raise InvalidRequest("a start is earliest, latest, a timestamp or an offset")
        if start.offset is not None and is_filter(request.topic):
            raise InvalidRequest("an offset is of one log topic; a filter may read several")


async def starts(broker: Broker, request: Subscribe, topic: Topic) -> Offsets:
    """Return where to begin in each partition; one that is not in it is read whole."""
    start, partitions = request.start, topic.partitions
    if request.positions is not None:
        position = request.positions.get(topic.name)
        return read_position(position) if position is not None else {}
    if isinstance(start, str):
        return await broker.bounds.starts(partitions, EARLIEST if start == "earliest" else LATEST)
    assert start.timestamp is not None
    return await broker.bounds.starts(partitions, start.timestamp)

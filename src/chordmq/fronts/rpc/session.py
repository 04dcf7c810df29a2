"""What one client of a procedure-call front may do, has asked for and is given."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from chordmq.broker.bounds import Extent
from chordmq.broker.broker import Broker
from chordmq.broker.feed import read_position, write_position
from chordmq.broker.groups.offsets import Commit
from chordmq.broker.partition import Partition
from chordmq.broker.presence import ClientFacts
from chordmq.broker.security.acl import CLUSTER_NAME, Kind, Operation
from chordmq.broker.security.meter import Meter
from chordmq.broker.security.principal import Principal
from chordmq.broker.topic import INTERNAL_TOPICS, Topic
from chordmq.errors import (
    AuthenticationFailed,
    ChordMQError,
    InvalidGroupId,
    InvalidRequest,
    MutationQuotaExceeded,
    PolicyViolation,
    ShuttingDown,
    UnknownTopic,
)
from chordmq.fronts.rpc.subscriptions import Subscription

if TYPE_CHECKING:
    from chordmq.fronts.rpc.front import RpcFront

STOPPING = "the node is shutting down"


class Who(NamedTuple):
    """Whose calls these are."""

    principal: Principal
    host: str
    client: str
    """What the client calls itself."""
    number: str
    """Tells apart all sessions of the node."""


class Session:
    """The rights of one client, and its subscriptions."""

    def __init__(self, front: "RpcFront", who: Who) -> None:
        self.front = front
        self.broker: Broker = front.broker
        self.who = who
        self.subscriptions: dict[Subscription, None] = {}
        quotas, clock = self.broker.permissions.quotas, self.broker.clock
        self._meter = Meter(quotas, clock, who.principal.name, who.client)
        self.ended = asyncio.Event()
        self._fault: ChordMQError | None = None
        self._holders = itertools.count()
        self._connected_ms = front.broker.clock.now_ms()
        self._expiry: asyncio.TimerHandle | None = None
        self.on_shut_out: Callable[[str], None] = lambda reason: None
        """Told when the client's login is not good any more."""

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        who = self.who
        return ClientFacts(
            id=who.number,
            name=who.client,
            protocol=self.front.name,
            user=who.principal.name,
            host=who.host,
            connected_ms=self._connected_ms,
            subscriptions=[one.topic for one in self.subscriptions],
        )

    def expire_at(self, time_ms: int) -> None:
        """End when the client's token does."""
        left_s = (time_ms - self.broker.clock.now_ms()) / 1000
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(left_s, self.shut_out, "the token has expired")

    def shut_out(self, reason: str) -> None:
        """End, for the client's login is not good any more."""
        self.end(AuthenticationFailed(reason))
        self.on_shut_out(reason)

    def new_holder(self) -> str:
        """Return a name for one more member of a group."""
        return f"{self.who.number}:{next(self._holders)}"

    def check(self, operation: Operation, kind: Kind, name: str) -> None:
        """Raise the error for the kind of resource unless the client may do this with it."""
        permissions = self.broker.permissions
        if permissions.is_enforced:
            permissions.acl.check(self.who.principal, self.who.host, operation, kind, name)

    def allows(self, operation: Operation, kind: Kind, name: str) -> bool:
        """Return whether the client may do this."""
        permissions = self.broker.permissions
        return not permissions.is_enforced or permissions.acl.allows(
            self.who.principal, self.who.host, operation, kind, name
        )

    async def charge(self, *, produced: int = 0, fetched: int = 0) -> None:
        """Count bytes against the client's quota, and wait as long as it asks."""
        self._meter.produced += produced
        self._meter.fetched += fetched
        await self._meter.pause()

    def _check_mutations(self, partitions: int) -> None:
        quotas = self.broker.permissions.quotas
        if quotas:
            now_s = self.broker.clock.monotonic_s()
            bucket = quotas.buckets(self.who.principal.name, self.who.client, now_s).mutation
            if bucket is not None and bucket.charge(0, now_s) > 0:
                raise MutationQuotaExceeded("too many partitions were made or deleted lately")
            if bucket is not None:
                bucket.charge(partitions, now_s)

    def audit(self, act: str, what: str) -> None:
        """Tell the audit trail what the client did."""
        who = f"User:{self.who.principal.name}"
        self.broker.audit.record(who=who, host=self.who.host, act=act, obj=what)

    # Topics.

    async def topic_to_write(self, name: str) -> Topic:
        """Return a topic that the client may write; it is made where that is allowed."""
        self.check_ended()
        self.check(Operation.WRITE, Kind.TOPIC, name)
        topic = self.broker.topics.find(name)
        if topic is None:
            if not self.broker.settings.auto_create_topics_enable:
                raise UnknownTopic(f"no topic {name}; create it first")
            if not self.allows(Operation.CREATE, Kind.CLUSTER, CLUSTER_NAME):
                self.check(Operation.CREATE, Kind.TOPIC, name)
            topic = await self.broker.topics.ensure(name)
        if topic.is_internal:
            raise PolicyViolation(f"{name} is the broker's own; clients may only read it")
        return topic

    def check_write(self, topic: Topic) -> None:
        """Raise an error if the client may not write a topic any more."""
        self.check_ended()
        self.check(Operation.WRITE, Kind.TOPIC, topic.name)

    def check_ended(self) -> None:
        """Raise why the client may do nothing any more."""
        if self._fault is not None:
            raise self._fault

    async def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> Topic:
        """Make a topic and return it once it would survive a crash."""
        if not self.allows(Operation.CREATE, Kind.CLUSTER, CLUSTER_NAME):
            self.check(Operation.CREATE, Kind.TOPIC, name)
        if name in INTERNAL_TOPICS:
            raise InvalidRequest(f"{name} is made by the broker itself")
        row = self.broker.topics.check_new(name, partitions, -1, settings)
        self._check_mutations(row.partitions)
        topic = await self.broker.topics.create(name, partitions, settings=settings)
        self.audit("topic.create", f"{name}, {row.partitions} partitions")
        return topic

    def list_topics(self) -> list[str]:
        """Return the topics that the client may see."""
        return sorted(
            topic.name
            for topic in self.broker.topics
            if self.allows(Operation.DESCRIBE, Kind.TOPIC, topic.name)
        )

    def describe_topic(self, name: str) -> Topic:
        """Return a topic that the client may see."""
        self.check(Operation.DESCRIBE, Kind.TOPIC, name)
        return self.broker.topics.get(name)

    async def extents(self, topic: Topic) -> dict[Partition, Extent]:
        """Return where a topic's partitions begin and end."""
        return await self.broker.bounds.known(topic.partitions)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        self.check(Operation.DELETE, Kind.TOPIC, name)
        topic = self.broker.topics.get(name)
        if topic.is_internal:
            raise PolicyViolation(f"{name} is the broker's own")
        self._check_mutations(len(topic.partitions))
        await self.broker.topics.delete(name)
        self.audit("topic.delete", name)

    # Indexes of one's own, by name.

    async def commit(self, index: str, topic: str, position: str) -> None:
        """Keep the place of a named index; return when it would survive a crash."""
        if not index:
            raise InvalidGroupId("an index without a name keeps no place")
        self.check(Operation.READ, Kind.GROUP, index)
        self.check(Operation.READ, Kind.TOPIC, topic)
        commits = []
        for partition, offset in read_position(position).items():
            self.broker.partition(topic, partition)
            commits.append(Commit(topic, partition, offset))
        await self.broker.group_reach.commit(index, commits)

    async def committed(self, index: str, topic: str) -> str:
        """Return the place of a named index; empty if nothing was committed."""
        self.check(Operation.READ, Kind.GROUP, index)
        self.check(Operation.READ, Kind.TOPIC, topic)
        found = await self.broker.group_reach.committed(index)
        return write_position({at[1]: offset for at, offset in found.items() if at[0] == topic})

    # Subscriptions.

    def open(self, subscription: Subscription) -> None:
        """Take note of a subscription, or refuse one too many."""
        if self._fault is not None:
            subscription.close()
            raise self._fault
        limit = self.front.settings.subscriptions_max
        if len(self.subscriptions) >= limit:
            subscription.close()
            raise PolicyViolation(
                f"{limit} subscriptions are open, which is {self.front.name}.subscriptions_max"
            )
        self.subscriptions[subscription] = None

    def forget(self, subscription: Subscription) -> None:
        """End one subscription."""
        self.subscriptions.pop(subscription, None)
        subscription.close()

    def look_again(self) -> None:
        """Have the subscriptions follow a change of topics or permissions."""
        for subscription in self.subscriptions:
            subscription.look_again()

    def end(self, fault: ChordMQError) -> None:
        """End all subscriptions, and take nothing more."""
        self._fault = fault
        self.ended.set()
        for subscription in self.subscriptions:
            subscription.end(fault)

    def close(self) -> None:
        """Give everything back."""
        self._fault = self._fault or ShuttingDown("the client has left")
        if self._expiry is not None:
            self._expiry.cancel()
        for subscription in list(self.subscriptions):
            self.forget(subscription)

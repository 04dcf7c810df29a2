"""A Cap'n Proto client as the node knows it: who it is, and what it can have done."""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from chordmq.broker.bounds import Extent
from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.broker.partition import Partition
from chordmq.broker.topic import Topic
from chordmq.errors import AuthenticationFailed, ChordMQError, InvalidRequest, ShuttingDown
from chordmq.fronts.rpc.front import Credentials, RpcFront
from chordmq.fronts.rpc.publishing import Addressed, Producer, publish, target_of
from chordmq.fronts.rpc.relay import Relay
from chordmq.fronts.rpc.session import STOPPING, Session, Who
from chordmq.fronts.rpc.subscriptions import Page, Subscription, Wanted, subscribe

NAME_LENGTH_MAX = 200


class Closed(ChordMQError):
    """The client wants no more."""


class Visitor:
    """One client; its producers and subscriptions have the numbers that its process gives them."""

    def __init__(self, front: RpcFront, relay: Relay) -> None:
        self.number = uuid.uuid4().hex
        self.relay = relay
        self._front = front
        self._session: Session | None = None
        self._producers: dict[int, Producer] = {}
        self._subscriptions: dict[int, Subscription] = {}

    @property
    def session(self) -> Session:
        """Return the client's rights, once it has logged in."""
        if self._session is None:
            raise AuthenticationFailed("log in first")
        return self._session

    def end(self) -> None:
        """End the client's subscriptions, for the node stops."""
        if self._session is not None:
            self._session.end(ShuttingDown(STOPPING))

    def leave(self) -> None:
        """Give everything back."""
        if self._session is not None:
            self._front.leave(self._session)

    async def log_in(self, credentials: Credentials, name: str) -> None:
        """Let the client in, once; for as long as its login is good."""
        relay, front = self.relay, self._front
        login = await front.log_in(credentials, relay.host, relay.certified())
        if self._session is not None:
            raise InvalidRequest("the client is logged in already")
        who = Who(login.principal, relay.host, name[:NAME_LENGTH_MAX], self.number)
        self._session = Session(front, who)
        self._session.on_shut_out = relay.close
        front.enter(self._session, login)
        relay.framing.size_max = front.settings.frame_size_max

    async def publish(self, topic: str, messages: list[Addressed]) -> dict[str, Any]:
        """Store messages, and return their places."""
        found = await publish(self.session, topic, messages)
        failure = found.failure
        text = f"{type(failure).__name__}: {failure}" if failure is not None else ""
        return {"partitions": found.partitions, "offsets": found.offsets, "failure": text}

    async def produce(self, number: int, topic: str) -> None:
        """Open a stream of messages."""
        self._producers[number] = Producer(self.session, await target_of(self.session, topic))

    async def push(self, number: int, messages: list[Addressed]) -> None:
        """Begin to store messages of a stream."""
        self._producers[number].push(messages)

    async def room(self, number: int) -> None:
        """Wait until a stream has room for more."""
        await self._producers[number].room()

    async def flush(self, number: int) -> int:
        """Wait until all of a stream is stored, and return how many messages."""
        return await self._producers[number].flush()

    async def forget_producer(self, number: int) -> None:
        """Forget a stream that the client has dropped."""
        self._producers.pop(number, None)

    async def subscribe(self, number: int, wanted: Wanted) -> dict[str, str]:
        """Open a subscription, and return where it begins."""
        subscription = await subscribe(self.session, wanted)
        self._subscriptions[number] = subscription
        return subscription.positions()

    async def next(self, number: int) -> Page:
        """Wait for the next page of a subscription."""
        return await self._subscription(number).next()

    async def credit(self, number: int, count: int) -> None:
        """Let more messages come."""
        self._subscription(number).add_credit(count)

    async def acknowledge(
        self, number: int, topic: str, place: tuple[int, int, int], outcome: str
    ) -> None:
        """Take the client's word on messages of a shared index."""
        partition, first, last = place
        subscription = self._subscription(number)
        await subscription.acknowledge(topic, partition, first, last, Outcome[outcome.upper()])

    async def commit_own(self, number: int, topic: str, position: str) -> None:
        """Keep the place of a subscription."""
        await self._subscription(number).commit(topic, position)

    async def unsubscribe(self, number: int) -> None:
        """End a subscription that the client has dropped, or that is over."""
        subscription = self._subscriptions.pop(number, None)
        if subscription is not None:
            subscription.end(Closed())
            self.session.forget(subscription)

    def _subscription(self, number: int) -> Subscription:
        if number not in self._subscriptions:
            raise Closed
        return self._subscriptions[number]

    async def commit(self, index: str, topic: str, position: str) -> None:
        """Keep the place of a named index."""
        await self.session.commit(index, topic, position)

    async def committed(self, index: str, topic: str) -> str:
        """Return the place of a named index."""
        return await self.session.committed(index, topic)

    async def create_topic(
        self, name: str, partitions: int, settings: dict[str, str]
    ) -> dict[str, Any]:
        """Make a topic."""
        topic = await self.session.create_topic(name, partitions, settings)
        return _described(topic, await self.session.extents(topic))

    async def list_topics(self) -> list[str]:
        """Return the topics that the client may see."""
        return self.session.list_topics()

    async def describe_topic(self, name: str) -> dict[str, Any]:
        """Return a topic."""
        topic = self.session.describe_topic(name)
        return _described(topic, await self.session.extents(topic))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        await self.session.delete_topic(name)


Method = Callable[..., Awaitable[Any]]

METHODS: dict[str, tuple[Method, Any]] = {
    "log_in": (Visitor.log_in, tuple[Credentials, str]),
    "publish": (Visitor.publish, tuple[str, list[Addressed]]),
    "produce": (Visitor.produce, tuple[int, str]),
    "push": (Visitor.push, tuple[int, list[Addressed]]),
    "room": (Visitor.room, tuple[int]),
    "flush": (Visitor.flush, tuple[int]),
    "forget_producer": (Visitor.forget_producer, tuple[int]),
    "subscribe": (Visitor.subscribe, tuple[int, Wanted]),
    "next": (Visitor.next, tuple[int]),
    "credit": (Visitor.credit, tuple[int, int]),
    "acknowledge": (Visitor.acknowledge, tuple[int, str, tuple[int, int, int], str]),
    "commit_own": (Visitor.commit_own, tuple[int, str, str]),
    "unsubscribe": (Visitor.unsubscribe, tuple[int]),
    "commit": (Visitor.commit, tuple[str, str, str]),
    "committed": (Visitor.committed, tuple[str, str]),
    "create_topic": (Visitor.create_topic, tuple[str, int, dict[str, str]]),
    "list_topics": (Visitor.list_topics, tuple[()]),
    "describe_topic": (Visitor.describe_topic, tuple[str]),
    "delete_topic": (Visitor.delete_topic, tuple[str]),
}
"""What the process may ask for a client, and the types of its arguments."""
DECODERS = {name: msgspec.msgpack.Decoder(types) for name, (_, types) in METHODS.items()}


def _described(topic: Topic, extents: Mapping[Partition, Extent]) -> dict[str, Any]:
    """Return a topic as the schema describes it."""
    return {
        "name": topic.name,
        "partitions": [
            {
                "partition": one.index,
                "startOffset": extent.start,
                "endOffset": extent.watermark,
            }
            for one, extent in extents.items()
        ],
        "settings": [{"name": name, "value": value} for name, value in topic.overrides.items()],
    }

"""What Cap'n Proto clients can call; runs in the front's thread."""

import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import capnp
import structlog

from chordmq.broker.cursors.shared_cursor import Outcome
from chordmq.codecs.capnp.schema import SCHEMA
from chordmq.errors import ChordMQError
from chordmq.fronts.capnp import mapping
from chordmq.fronts.capnp.client import Client
from chordmq.fronts.capnp.errors import internal_fault, refusal
from chordmq.fronts.rpc.publishing import Producer, publish, target_of
from chordmq.fronts.rpc.session import Session
from chordmq.fronts.rpc.subscriptions import Subscription, subscribe

log = structlog.get_logger(__name__)

OUTCOMES = {
    "accept": Outcome.ACCEPT,
    "release": Outcome.RELEASE,
    "reject": Outcome.REJECT,
    "renew": Outcome.RENEW,
}

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def answered(method: Method) -> Method:
    """Have a call counted, and its failure told as the schema says."""

    @functools.wraps(method)
    async def call(self: Any, **arguments: Any) -> Any:
        client: Client = self.client
        with client.calling():
            try:
                return await method(self, **arguments)
            except ChordMQError as error:
                raise refusal(error) from None
            except Exception:
                log.exception("call failed", listener="capnp", method=method.__name__)
                raise internal_fault() from None

    return call  # type: ignore[return-value]


class Door(SCHEMA.Door.Server):  # type: ignore[misc]
    """Lets clients in who say who they are."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @answered
    async def login(self, credentials: Any, client: str, **_: Any) -> Any:
        """Return the node as the client may use it."""
        wanted = mapping.to_credentials(credentials)
        session = await self.client.ask(self.client.log_in(wanted, client))
        return Node(self.client, session)


class Node(SCHEMA.Node.Server):  # type: ignore[misc]
    """The broker, for one client that is logged in."""

    def __init__(self, client: Client, session: Session) -> None:
        self.client = client
        self._session = session

    @answered
    async def publish(self, topic: str, messages: Any, **_: Any) -> Any:
        """Store messages."""
        records = mapping.to_messages(messages, self.client.now_ms())
        published = await self.client.ask(publish(self._session, topic, records))
        return mapping.from_published(published)

    @answered
    async def produce(self, topic: str, **_: Any) -> Any:
        """Open a stream of messages."""
        target = await self.client.ask(target_of(self._session, topic))
        return ProducerStream(self.client, Producer(self._session, target))

    @answered
    async def subscribe(self, wanted: Any, sink: Any, **_: Any) -> Any:
        """Begin to deliver messages."""
        session = self._session
        subscription = await self.client.ask(subscribe(session, mapping.to_wanted(wanted)))
        positions = await self.client.ask(_returned(subscription.positions))
        self.client.begin(deliver(self.client, session, subscription, sink))
        return SubscriptionHandle(self.client, session, subscription), mapping.from_positions(
            positions
        )

    @answered
    async def commit(self, index: str, topic: str, position: str, **_: Any) -> None:
        """Keep the place of a named index."""
        await self.client.ask(self._session.commit(index, topic, position))

    @answered
    async def committed(self, index: str, topic: str, **_: Any) -> str:
        """Return the place of a named index."""
        return await self.client.ask(_returned(self._session.committed, index, topic))

    @answered
    async def createTopic(self, name: str, partitions: int, settings: Any, **_: Any) -> Any:
        """Make a topic."""
        texts = {one.name: one.value for one in settings}
        topic = await self.client.ask(self._session.create_topic(name, partitions, texts))
        return await self.client.ask(_returned(mapping.from_topic, topic))

    @answered
    async def listTopics(self, **_: Any) -> list[str]:
        """Return the topics that the client may see."""
        return await self.client.ask(_returned(self._session.list_topics))

    @answered
    async def describeTopic(self, name: str, **_: Any) -> Any:
        """Return a topic."""
        topic = await self.client.ask(_returned(self._session.describe_topic, name))
        return await self.client.ask(_returned(mapping.from_topic, topic))

    @answered
    async def deleteTopic(self, name: str, **_: Any) -> None:
        """Delete a topic."""
        await self.client.ask(self._session.delete_topic(name))


class ProducerStream(SCHEMA.Producer.Server):  # type: ignore[misc]
    """A stream of messages: what is pushed goes over in one hand-over per turn."""

    def __init__(self, client: Client, producer: Producer) -> None:
        self.client = client
        self._producer = producer
        self._handed_over = 0

    @answered
    async def push(self, messages: Any, **_: Any) -> None:
        """Take messages; return when there is room for more."""
        fault = self._producer.fault
        if fault is not None:
            raise fault
        records = mapping.to_messages(messages, self.client.now_ms())
        self._handed_over += sum(len(one.record.value or b"") for one in records)
        self.client.post(self._producer.push, records)
        if self._handed_over > self.client.window_bytes // 4:
            self._handed_over = 0
            await self.client.ask(self._producer.room())

    @answered
    async def flush(self, **_: Any) -> int:
        """Return how many messages are stored, when all are."""
        return await self.client.ask(self._producer.flush())


class SubscriptionHandle(SCHEMA.Subscription.Server):  # type: ignore[misc]
    """What a subscriber says of what it gets; ends the subscription when it is dropped."""

    def __init__(self, client: Client, session: Session, subscription: Subscription) -> None:
        self.client = client
        self._session = session
        self._subscription = subscription

    @answered
    async def credit(self, count: int, **_: Any) -> None:
        """Let more messages come."""
        self.client.post(self._subscription.add_credit, count)

    @answered
    async def acknowledge(
        self, topic: str, partition: int, first: int, last: int, outcome: Any, **_: Any
    ) -> None:
        """Take the client's word on messages of a shared index."""
        work = self._subscription.acknowledge(topic, partition, first, last, OUTCOMES[str(outcome)])
        await self.client.ask(work)

    @answered
    async def commit(self, topic: str, position: str, **_: Any) -> None:
        """Keep the place of a named index."""
        await self.client.ask(self._subscription.commit(topic, position))

    @answered
    async def close(self, **_: Any) -> None:
        """End the subscription."""
        self.client.post(end, self._session, self._subscription)

    def __del__(self) -> None:
        self.client.post(end, self._session, self._subscription)


class Closed(ChordMQError):
    """The client wants no more."""


async def deliver(client: Client, session: Session, subscription: Subscription, sink: Any) -> None:
    """Push pages to a subscriber, as fast as it takes them, until the subscription ends."""
    try:
        while True:
            page = await client.ask(subscription.next())
            request = sink.deliver_request()
            mapping.fill_batch(request.init("batch"), page)
            await request.send()
    except Closed:
        return
    except ChordMQError as error:
        with contextlib.suppress(capnp.KjException):
            await sink.end(f"{type(error).__name__}: {error}")
    except capnp.KjException as error:
        log.debug("subscriber failed", listener="capnp", reason=error.description)
    finally:
        client.post(session.forget, subscription)


def end(session: Session, subscription: Subscription) -> None:
    """End a subscription that its client has dropped."""
    subscription.end(Closed())
    session.forget(subscription)


async def _returned(what: Callable[..., Any], *arguments: Any) -> Any:
    """Call something on the loop that owns what it reads."""
    return what(*arguments)

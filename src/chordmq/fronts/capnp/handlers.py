"""What Cap'n Proto clients can call; runs in the front's process."""

import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import capnp

from chordmq.clock import SystemClock
from chordmq.codecs.capnp.schema import SCHEMA
from chordmq.errors import ChordMQError
from chordmq.fronts.capnp import mapping
from chordmq.fronts.capnp.connection import CapnpConnection
from chordmq.fronts.capnp.errors import Failed, refusal
from chordmq.fronts.rpc.subscriptions import Page
from chordmq.logs import get_logger

log = get_logger(__name__)

CLOSED = "Closed"
"""The error of a subscription that the client itself has ended."""

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def answered(method: Method) -> Method:
    """Have a call counted, and its failure told as the schema says."""

    @functools.wraps(method)
    async def call(self: Any, **arguments: Any) -> Any:
        client: CapnpConnection = self.client
        with client.calling():
            try:
                return await method(self, **arguments)
            except Failed as failed:
                raise refusal(failed.error, failed.reason) from None
            except ChordMQError as error:
                raise refusal(type(error).__name__, str(error)) from None
            except Exception:
                log.exception("call failed", listener="capnp", method=method.__name__)
                reason = "a fault of this node; its log says more"
                raise refusal("InternalError", reason) from None

    return call  # type: ignore[return-value]


class Door(SCHEMA.Door.Server):  # type: ignore[misc]
    """Lets clients in who say who they are."""

    def __init__(self, client: CapnpConnection) -> None:
        self.client = client

    @answered
    async def login(self, credentials: Any, client: str, **_: Any) -> Any:
        """Return the node as the client may use it."""
        await self.client.ask("log_in", mapping.to_credentials(credentials), client)
        return Node(self.client)


class Node(SCHEMA.Node.Server):  # type: ignore[misc]
    """The broker, for one client that is logged in."""

    def __init__(self, client: CapnpConnection) -> None:
        self.client = client

    @answered
    async def publish(self, topic: str, messages: Any, **_: Any) -> Any:
        """Store messages."""
        records = mapping.to_messages(messages, now_ms())
        return await self.client.ask("publish", topic, records, returns=dict[str, Any])

    @answered
    async def produce(self, topic: str, **_: Any) -> Any:
        """Open a stream of messages."""
        number = self.client.new_number()
        await self.client.ask("produce", number, topic)
        return Producer(self.client, number)

    @answered
    async def subscribe(self, wanted: Any, sink: Any, **_: Any) -> Any:
        """Begin to deliver messages."""
        number, asked = self.client.new_number(), mapping.to_wanted(wanted)
        positions = await self.client.ask("subscribe", number, asked, returns=dict[str, str])
        self.client.begin(deliver(self.client, number, sink))
        return Subscription(self.client, number), mapping.from_positions(positions)

    @answered
    async def commit(self, index: str, topic: str, position: str, **_: Any) -> None:
        """Keep the place of a named index."""
        await self.client.ask("commit", index, topic, position)

    @answered
    async def committed(self, index: str, topic: str, **_: Any) -> Any:
        """Return the place of a named index."""
        return await self.client.ask("committed", index, topic, returns=str)

    @answered
    async def createTopic(self, name: str, partitions: int, settings: Any, **_: Any) -> Any:
        """Make a topic."""
        texts = {one.name: one.value for one in settings}
        asked = (name, partitions, texts)
        return await self.client.ask("create_topic", *asked, returns=dict[str, Any])

    @answered
    async def listTopics(self, **_: Any) -> Any:
        """Return the topics that the client may see."""
        return await self.client.ask("list_topics", returns=list[str])

    @answered
    async def describeTopic(self, name: str, **_: Any) -> Any:
        """Return a topic."""
        return await self.client.ask("describe_topic", name, returns=dict[str, Any])

    @answered
    async def deleteTopic(self, name: str, **_: Any) -> None:
        """Delete a topic."""
        await self.client.ask("delete_topic", name)


class Producer(SCHEMA.Producer.Server):  # type: ignore[misc]
    """A stream of messages: what was handed over is asked after only when there is much of it."""

    def __init__(self, client: CapnpConnection, number: int) -> None:
        self.client = client
        self._number = number
        self._handed_over = 0

    @answered
    async def push(self, messages: Any, **_: Any) -> None:
        """Take messages; return when there is room for more."""
        records = mapping.to_messages(messages, now_ms())
        self._handed_over += sum(len(one.record.value or b"") for one in records)
        self.client.tell("push", self._number, records)
        if self._handed_over > self.client.window_bytes // 4:
            self._handed_over = 0
            await self.client.ask("room", self._number)

    @answered
    async def flush(self, **_: Any) -> Any:
        """Return how many messages are stored, when all are."""
        return await self.client.ask("flush", self._number, returns=int)

    def __del__(self) -> None:
        self.client.tell("forget_producer", self._number)


class Subscription(SCHEMA.Subscription.Server):  # type: ignore[misc]
    """What a subscriber says of what it gets; ends the subscription when it is dropped."""

    def __init__(self, client: CapnpConnection, number: int) -> None:
        self.client = client
        self._number = number

    @answered
    async def credit(self, count: int, **_: Any) -> None:
        """Let more messages come."""
        await self.client.ask("credit", self._number, count)

    @answered
    async def acknowledge(
        self, topic: str, partition: int, first: int, last: int, outcome: Any, **_: Any
    ) -> None:
        """Take the client's word on messages of a shared index."""
        place = (partition, first, last)
        await self.client.ask("acknowledge", self._number, topic, place, str(outcome))

    @answered
    async def commit(self, topic: str, position: str, **_: Any) -> None:
        """Keep the place of a named index."""
        await self.client.ask("commit_own", self._number, topic, position)

    @answered
    async def close(self, **_: Any) -> None:
        """End the subscription."""
        await self.client.ask("unsubscribe", self._number)

    def __del__(self) -> None:
        self.client.tell("unsubscribe", self._number)


async def deliver(client: CapnpConnection, number: int, sink: Any) -> None:
    """Push pages to a subscriber, as fast as it takes them, until the subscription ends."""
    try:
        while True:
            page = await client.ask("next", number, returns=Page)
            request = sink.deliver_request()
            mapping.fill_batch(request.init("batch"), page)
            await request.send()
    except Failed as failed:
        if failed.error != CLOSED:
            with contextlib.suppress(capnp.KjException):
                await sink.end(str(failed))
    except capnp.KjException as error:
        log.debug("subscriber failed", listener="capnp", reason=error.description)
    finally:
        client.tell("unsubscribe", number)


now_ms = SystemClock().now_ms
"""The time of messages that have none."""

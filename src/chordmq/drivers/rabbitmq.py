"""The driver of RabbitMQ: topic exchanges for the levels of names, a quorum queue per index."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import aio_pika
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractExchange,
    AbstractIncomingMessage,
)
from aiormq.exceptions import AMQPError, ChannelInvalidStateError, PublishError
from pamqp.common import FieldTable, FieldValue

from chordmq.broker.subscriptions import matches
from chordmq.client.opened import Opened
from chordmq.drivers.adapter import ClientType, Delivery, Inbox, Message, Subscription
from chordmq.drivers.errors import Refused, Unavailable
from chordmq.drivers.routing_keys import ROOT, binding_of, key_of, links_to, name_of
from chordmq.errors import ChordMQError

KEY_HEADER, NULL_HEADER = "chordmq.key", "chordmq.null"
TIMEOUT_S = 10.0
DEVICE_EXPIRES_MS = 7 * 24 * 60 * 60 * 1000
BROWSER_LENGTH_MAX = 10_000
AT_ONCE = 500
"""Messages that are published before their confirms are awaited."""

QUEUES: dict[ClientType, FieldTable] = {
    ClientType.SERVICE: {"x-queue-type": "quorum"},
    ClientType.DEVICE: {"x-queue-type": "quorum", "x-expires": DEVICE_EXPIRES_MS},
    ClientType.BROWSER: {"x-max-length": BROWSER_LENGTH_MAX, "x-overflow": "drop-head"},
}
"""How a queue is made, by who reads it."""


class RabbitDriver(Opened):
    """One broker; `rabbitmq://user:password@host:5672/virtual-host`, or `rabbitmqs` with TLS."""

    def __init__(self, address: str) -> None:
        self._address = "amqp" + address.removeprefix("rabbitmq")
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchange: AbstractExchange | None = None
        self._is_broken = False
        self._opening = asyncio.Lock()

    async def _open(self) -> None:
        """Begin; nothing is connected yet."""

    async def _close(self, error: BaseException | None) -> None:
        """Close the connection."""
        await self._disconnect()

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when the broker has confirmed all of them."""
        with self._told():
            exchange = await self._root()
            for start in range(0, len(messages), AT_ONCE):
                await asyncio.gather(
                    *(
                        exchange.publish(to_amqp(one), key_of(one.name), mandatory=False)
                        for one in messages[start : start + AT_ONCE]
                    )
                )

    @asynccontextmanager
    async def subscribed(self, subscription: Subscription) -> AsyncIterator[Inbox]:
        """Read for the length of a block."""
        with self._told():
            connection = await self._connected()
            channel = await connection.channel(publisher_confirms=False)
            inbox = RabbitInbox(channel, subscription)
            await inbox.open()
        try:
            yield inbox
        finally:
            await _closed(channel)

    async def _root(self) -> AbstractExchange:
        """Return the exchange that messages are published to, on a channel with confirms."""
        connection = await self._connected()
        async with self._opening:
            if self._exchange is None or self._channel is None or self._channel.is_closed:
                self._channel = await connection.channel(publisher_confirms=True)
                self._exchange = await self._channel.declare_exchange(
                    ROOT, aio_pika.ExchangeType.TOPIC, durable=True
                )
            return self._exchange

    async def _connected(self) -> AbstractConnection:
        async with self._opening:
            if self._connection is None or self._connection.is_closed or self._is_broken:
                await self._disconnect()
                self._connection = await aio_pika.connect(self._address, timeout=TIMEOUT_S)
                self._is_broken = False
            return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection, self._exchange = self._connection, None, None
        if connection is not None:
            await _closed(connection)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell failures; one that may be the connection's has the next call open another."""
        try:
            with told():
                yield
        except Unavailable:
            self._is_broken = True
            raise


class RabbitInbox:
    """An open subscription: a queue of its own name, and what has come out of it."""

    def __init__(self, channel: AbstractChannel, subscription: Subscription) -> None:
        self._channel = channel
        self._wanted = subscription
        self._come: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()
        """None when the channel has closed."""

    async def open(self) -> None:
        """Declare the exchanges on the way, the queue and its bindings; begin to read."""
        wanted, channel = self._wanted, self._channel
        channel.close_callbacks.add(self._hear_end)
        await channel.set_qos(prefetch_count=wanted.credit)
        source = await channel.declare_exchange(ROOT, aio_pika.ExchangeType.TOPIC, durable=True)
        for link in links_to(wanted.filter):
            branch = await channel.declare_exchange(
                link.exchange, aio_pika.ExchangeType.TOPIC, durable=True
            )
            await branch.bind(source, link.key)
            source = branch
        is_passing = wanted.client is ClientType.BROWSER
        arguments = dict(QUEUES[wanted.client])
        if not wanted.is_shared:
            arguments["x-single-active-consumer"] = True
        queue = await channel.declare_queue(
            None if is_passing else f"{ROOT}.{wanted.client}.{wanted.index}",
            durable=not is_passing,
            exclusive=is_passing,
            auto_delete=is_passing,
            arguments=arguments,
        )
        await queue.bind(source, binding_of(wanted.filter))
        await queue.consume(self._come.put)

    async def take(self, timeout_s: float) -> list[Delivery]:
        """Return what has come; the broker sends no more than the credit."""
        try:
            async with asyncio.timeout(timeout_s):
                found = [await self._come.get()]
        except TimeoutError:
            return []
        while not self._come.empty():
            found.append(self._come.get_nowait())
        if None in found:
            self._come.put_nowait(None)
            raise Unavailable("RabbitMQ has closed the connection")
        come = [Delivery(to_message(one), one) for one in found if one is not None]
        # A binding `a.#` of the exchange is the filter `a/#`, and `$` is nothing special to it.
        strange = [one for one in come if not matches(self._wanted.filter, one.message.name)]
        await self.accept(strange)
        return [one for one in come if one not in strange]

    async def accept(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge messages; one whose acknowledgement is lost comes again."""
        with told():
            for one in deliveries:
                await _amqp(one).ack()

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give messages back to the queue."""
        with told():
            for one in deliveries:
                await _amqp(one).nack(requeue=True)

    def _hear_end(self, *_: object) -> None:
        self._come.put_nowait(None)


def _amqp(delivery: Delivery) -> AbstractIncomingMessage:
    assert isinstance(delivery.place, AbstractIncomingMessage)
    return delivery.place


def to_amqp(message: Message) -> aio_pika.Message:
    """Return a message as RabbitMQ keeps it: on disk, with the key among the headers."""
    headers: dict[str, FieldValue] = {}
    for name, value in message.headers:
        held = _held(value)
        if name in headers:
            before = headers[name]
            held = [*(before if isinstance(before, list) else [before]), held]
        headers[name] = held
    if message.key is not None:
        headers[KEY_HEADER] = _held(message.key)
    if message.value is None:
        headers[NULL_HEADER] = True
    return aio_pika.Message(
        message.value or b"",
        headers=headers,
        message_id=message.id,
        timestamp=datetime.fromtimestamp(message.timestamp_ms / 1000, UTC)
        if message.timestamp_ms
        else None,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )


def to_message(found: AbstractIncomingMessage) -> Message:
    """Return what a message of RabbitMQ says; one of a foreign publisher is known by its tag."""
    headers = dict(found.headers)
    key = headers.pop(KEY_HEADER, None)
    is_null = headers.pop(NULL_HEADER, False)
    for name in [name for name in headers if name.startswith("x-")]:
        del headers[name]  # what the broker itself adds
    name = name_of(found.routing_key or "")
    return Message(
        name=name,
        value=None if is_null else found.body,
        key=_bytes(key),
        headers=tuple(_flat(headers)),
        timestamp_ms=round(found.timestamp.timestamp() * 1000) if found.timestamp else 0,
        **({"id": found.message_id} if found.message_id else {}),
    )


def _flat(headers: dict[str, Any]) -> Iterator[tuple[str, bytes | None]]:
    for name, held in headers.items():
        for value in held if isinstance(held, list) else [held]:
            yield name, _bytes(value)


def _held(value: bytes | None) -> FieldValue:
    """Return bytes as a table has them: as text where they are some, for people to read."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return bytearray(value)


def _bytes(held: Any) -> bytes | None:
    if held is None or isinstance(held, bytes):
        return held
    return bytes(held) if isinstance(held, bytearray) else str(held).encode()


async def _closed(part: AbstractChannel | AbstractConnection) -> None:
    try:
        await part.close()
    except (AMQPError, OSError, RuntimeError):
        pass  # it was not open any more


@contextmanager
def told() -> Iterator[None]:
    """Tell the library's failures in the words of drivers."""
    try:
        yield
    except PublishError as error:
        raise Refused(f"RabbitMQ: {error}") from error
    except (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, RuntimeError) as error:
        raise Unavailable(f"RabbitMQ: {error}") from error
    except ChordMQError as error:
        raise Refused(str(error)) from error

"""The driver of brokers that keep a log: ChordMQ, and Apache Kafka.

Both are spoken to in Kafka's protocol. Names lie in log topics as the node's own fronts put them,
so that devices, browsers and Kafka's clients see the same messages. An index is a consumer group:
its own is read without being a member, a shared one by all its members.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from chordmq.broker.names import Names, is_filter, literal_topic, name_of, named, without_name
from chordmq.broker.subscriptions import matches
from chordmq.client.admin import Admin
from chordmq.client.connection import ConnectionSettings
from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.distinct import ID_HEADER, id_of
from chordmq.client.errors import BrokerRefused, ClientError, Closed, DeliveryTimedOut
from chordmq.client.membership import GroupSettings
from chordmq.client.offsets import EARLIEST, LATEST, Start, TopicPartition
from chordmq.client.opened import Opened
from chordmq.client.producer import Producer, ProducerSettings
from chordmq.client.progress import Progress
from chordmq.client.security import Security
from chordmq.drivers.adapter import (
    ClientType,
    Delivery,
    Inbox,
    Message,
    Subscription,
)
from chordmq.drivers.errors import Refused, Unavailable, UnknownDriver
from chordmq.drivers.room import Room
from chordmq.errors import ChordMQError
from chordmq.records.record import NewRecord, Record

DELIVERY_TIMEOUT_S = 30.0
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_S = 2.0
LOOK_S = 1.0
"""How often it is looked whether there are new log topics that a filter can match."""

PARAMETERS = {"mechanism", "token", "tls", "tls_ca", "tls_certificate", "tls_key"}


class Place(NamedTuple):
    """Where a message lies."""

    partition: TopicPartition
    offset: int


class LogDriver(Opened):
    """One cluster; `kafka://user:password@host:9092,other:9092?tls_ca=ca.pem`."""

    def __init__(self, address: str) -> None:
        self.bootstrap, self.connection = read_address(address)
        self.names = Names()
        self._stack = AsyncExitStack()
        self._producer: Producer | None = None
        self._opening = asyncio.Lock()

    async def _open(self) -> None:
        """Begin; nothing is connected yet."""

    async def _close(self, error: BaseException | None) -> None:
        """Close all connections."""
        try:
            await self._stack.__aexit__(None if error is None else type(error), error, None)
        except ClientError:
            pass  # of messages that `publish` has told to be not stored

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when all are stored; the producer is idempotent, so that none is twice."""
        with told():
            producer = await self._connected()
            deliveries = []
            for message in messages:
                topic, key = self.names.destination(message.name)
                record = NewRecord(
                    message.timestamp_ms or producer.cluster.clock.now_ms(),
                    key if message.key is None else message.key,
                    message.value,
                    (*message.headers, (ID_HEADER, message.id.encode())),
                )
                deliveries.append(await producer.enqueue_record(topic, named(record, message.name)))
            for delivery in deliveries:
                await delivery

    @asynccontextmanager
    async def subscribed(self, subscription: Subscription) -> AsyncIterator[Inbox]:
        """Read for the length of a block."""
        inbox = LogInbox(self, subscription)
        try:
            with told():
                await inbox.open()
            yield inbox
        finally:
            await inbox.close()

    async def _connected(self) -> Producer:
        async with self._opening:
            if self._producer is None:
                settings = ProducerSettings(delivery_timeout_s=DELIVERY_TIMEOUT_S)
                producer = Producer(self.bootstrap, settings, self.connection)
                self._producer = await self._stack.enter_async_context(producer)
            return self._producer


class LogInbox:
    """An open subscription: a consumer of all log topics that the filter can match."""

    def __init__(self, driver: LogDriver, subscription: Subscription) -> None:
        self._driver = driver
        self._wanted = subscription
        self._is_kept = subscription.client is not ClientType.BROWSER
        self._has_levels = is_filter(subscription.filter)
        """If not, a whole log topic is read, whatever its messages are called."""
        self._stack = AsyncExitStack()
        self._reading = AsyncExitStack()
        """Closed and opened again when there are new topics for a group."""
        self._topics: list[str] = []
        self._progress = Progress()
        self._at: dict[TopicPartition, int] = {}
        self._ready: deque[Delivery] = deque()
        self._out = 0
        """Messages that are handed out."""
        self._look_at_s = 0.0
        self._room = Room()
        self._admin: Admin
        self._consumer: Consumer

    async def open(self) -> None:
        """Find topics, and begin an index that is new with what comes next."""
        driver = self._driver
        admin = Admin(driver.bootstrap, driver.connection)
        self._admin = await self._stack.enter_async_context(admin)
        topic = literal_topic(self._wanted.filter)
        if topic is not None:
            await self._admin.cluster.topic(topic, create=True)
        self._topics = await self._find_topics()
        begin = await self._begun() if self._is_kept else {}
        await self._read(begin, LATEST if not self._is_kept else EARLIEST)

    async def close(self) -> None:
        """Leave; what was not accepted comes again."""
        try:
            await self._reading.aclose()
            await self._stack.aclose()
        except ClientError:
            pass  # it is gone, and so are we

    async def take(self, timeout_s: float) -> list[Delivery]:
        """Return what has come, as far as credit goes."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        with told():
            while True:
                if found := self._hand_out():
                    return found
                await self._look_for_topics()
                left_s = max(0.0, deadline_s - loop.time())
                if self._ready:
                    await self._room.wait(left_s)
                elif self._topics:
                    await self._fetch(min(left_s, LOOK_S))
                else:
                    await asyncio.sleep(min(left_s, LOOK_S))
                if not left_s:
                    return self._hand_out()

    async def accept(self, deliveries: Sequence[Delivery]) -> None:
        """Commit how far everything is done."""
        for one in deliveries:
            self._finish(one)
        self._take_back(deliveries)
        if self._is_kept:
            with told():
                await self._commit()

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Hand messages out again, before those that come after them."""
        self._ready.extendleft(reversed(deliveries))
        self._take_back(deliveries)

    def _take_back(self, deliveries: Sequence[Delivery]) -> None:
        self._out = max(0, self._out - len(deliveries))
        self._room.make()

    async def _commit(self) -> None:
        try:
            await self._consumer.commit(self._progress.committable())
        except BrokerRefused:
            if not self._wanted.is_shared:
                raise
            # The group has moved on without us; what we read comes again to its new owner.

    def _hand_out(self) -> list[Delivery]:
        """Return what is at hand, as far as credit goes."""
        count = min(len(self._ready), max(0, self._wanted.credit - self._out))
        self._out += count
        return [self._ready.popleft() for _ in range(count)]

    async def _fetch(self, timeout_s: float) -> None:
        chunk = await self._consumer.poll(timeout_s)
        if chunk is None:
            return
        place = (chunk.topic, chunk.partition)
        for record in chunk.records:
            message = to_message(place, record)
            if self._has_levels and not matches(self._wanted.filter, message.name):
                continue
            self._progress.begin(place, record.offset)
            self._ready.append(Delivery(message, Place(place, record.offset)))
        self._progress.reach(place, chunk.next_offset)
        self._at[place] = chunk.next_offset

    def _finish(self, delivery: Delivery) -> None:
        assert isinstance(delivery.place, Place)
        self._progress.finish(*delivery.place)

    async def _begun(self) -> dict[TopicPartition, int]:
        """Return where the index is; a new one is at the end of all topics there are."""
        found = await self._admin.committed(self._wanted.index)
        if found:
            return found
        pairs = [
            (topic, index)
            for topic in self._topics
            for index in range(len((await self._admin.topic(topic)).partitions))
        ]
        if not pairs:
            return {}
        ends = {pair: end for pair, (_, end) in (await self._admin.ends(pairs)).items()}
        try:
            await self._admin.set_offsets(self._wanted.index, ends)
        except BrokerRefused:
            # There are members of the group, which has begun then.
            return await self._admin.committed(self._wanted.index)
        return ends

    async def _read(self, begin: Mapping[TopicPartition, int], otherwise: Start) -> None:
        """Read the topics: from where the index is, and new partitions as is said."""
        driver, wanted = self._driver, self._wanted
        group = GroupSettings(
            group=wanted.index,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_s=HEARTBEAT_S,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        )
        settings = ConsumerSettings(
            group=group if self._is_kept else None, auto_commit_s=None, start=otherwise
        )
        consumer = Consumer(driver.bootstrap, settings, driver.connection)
        self._consumer = await self._reading.enter_async_context(consumer)
        if not self._topics:
            return
        if wanted.is_shared and self._is_kept:
            consumer.before_rejoin = self._hand_over
            await consumer.subscribe(*self._topics)
            return
        starts: dict[TopicPartition, Start] = {}
        for topic in self._topics:
            for index in range(len((await self._admin.topic(topic)).partitions)):
                place = (topic, index)
                at = self._at.get(place, begin.get(place))
                starts[place] = otherwise if at is None else Start(at)
        await consumer.assign(starts)

    async def _look_for_topics(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_S
        topics = await self._find_topics()
        if topics == self._topics:
            return
        self._topics = topics
        if self._wanted.is_shared:
            await self._hand_over()
        await self._reading.aclose()
        begin = await self._admin.committed(self._wanted.index) if self._is_kept else {}
        await self._read(begin, EARLIEST)

    async def _find_topics(self) -> list[str]:
        known = (info.name for info in await self._admin.topics())
        return sorted(filter(self._driver.names.reach(self._wanted.filter).covers, known))

    async def _hand_over(self) -> None:
        """Commit what is done before others may get the partitions; the rest is theirs."""
        await self._commit()
        self._progress.forget()
        self._ready.clear()
        self._out = 0
        self._room.make()


def to_message(place: TopicPartition, record: Record) -> Message:
    """Return the message that a record is; one that has no id is known by its place."""
    topic, partition = place
    return Message(
        name=name_of(topic, record),
        value=record.value,
        key=record.key,
        headers=tuple(one for one in without_name(record.headers) if one[0] != ID_HEADER),
        timestamp_ms=record.timestamp,
        id=id_of(record.headers) or f"{topic}-{partition}-{record.offset}",
    )


def read_address(address: str) -> tuple[str, ConnectionSettings]:
    """Return the brokers that an address names, and how to log in there."""
    parts = urlsplit(address)
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if unknown := query.keys() - PARAMETERS:
        raise UnknownDriver(f"an address of a log has no {', '.join(sorted(unknown))}")
    security = Security(
        user=unquote(user),
        password=unquote(password),
        tls=query.pop("tls", "") == "true",
        **query,
    )
    return hosts, ConnectionSettings(security=security)


@contextmanager
def told() -> Iterator[None]:
    """Tell the client's failures in the words of drivers."""
    try:
        yield
    except (Closed, DeliveryTimedOut) as error:
        raise Unavailable(str(error)) from error
    except ClientError as error:
        raise (Unavailable if error.retriable else Refused)(str(error)) from error
    except ChordMQError as error:
        raise Refused(str(error)) from error

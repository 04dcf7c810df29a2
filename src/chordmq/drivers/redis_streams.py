"""The driver of Redis: streams with consumer groups for what is kept, Pub/Sub for who looks on.

Names lie in streams `chordmq:stream:<log topic>`, as many as there are first two levels. A script
adds a message, tells it to those who look on, and drops one whose id has come before.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit, urlunsplit

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as ConnectionBroken
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as TimedOut

from chordmq.broker.names import Names
from chordmq.broker.subscriptions import matches
from chordmq.client.opened import Opened
from chordmq.drivers.adapter import ClientType, Delivery, Inbox, Message, Subscription
from chordmq.drivers.errors import Refused, Unavailable
from chordmq.drivers.room import Room
from chordmq.errors import ChordMQError
from chordmq.records.record import Headers

PREFIX = "chordmq:"
STREAMS = f"{PREFIX}streams"
"""The set of all log topics that have a stream."""
LENGTH_MAX = 0
"""Entries that a stream keeps, about; 0 for all, since one that goes may not have been read."""
SEEN_MS = 10 * 60 * 1000
"""How long ids are kept, so that a message that is published again is dropped."""
REDELIVERY_MS = 30_000
LOOK_S = 1.0
CONNECT_TIMEOUT_S = 5.0
OWN, GIVEN_BACK = "own", "given back"
LONG_AGO_MS = 24 * 60 * 60 * 1000

PUBLISH = """
if redis.call('SET', KEYS[3], '1', 'NX', 'PX', ARGV[4]) then
  redis.call('SADD', KEYS[2], ARGV[5])
  if tonumber(ARGV[3]) > 0 then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'm', ARGV[1])
  else
    redis.call('XADD', KEYS[1], '*', 'm', ARGV[1])
  end
  redis.call('PUBLISH', ARGV[2], ARGV[1])
end
return 1
"""


class Place(NamedTuple):
    """Where a message lies."""

    stream: str
    entry: bytes


class Written(msgspec.Struct, array_like=True):
    """A message as it lies in a stream, in MessagePack."""

    name: str
    id: str
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RedisDriver(Opened):
    """One server; `redis://user:password@host:6379/0?redelivery_ms=30000&length_max=1000000`."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.redelivery_ms = int(query.pop("redelivery_ms", REDELIVERY_MS))
        self._length_max = int(query.pop("length_max", LENGTH_MAX))
        rest = "&".join(f"{name}={value}" for name, value in query.items())
        self.redis: Redis = Redis.from_url(
            urlunsplit(parts._replace(query=rest)),
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            # Its time-out is asyncio.wait_for, which loses cancellations before Python 3.12.
            socket_timeout=None,
            socket_keepalive=True,
        )
        self._publish = self.redis.register_script(PUBLISH)
        self._names = Names()

    async def _open(self) -> None:
        """Begin; nothing is connected yet."""

    async def _close(self, error: BaseException | None) -> None:
        """Close all connections."""
        await self.redis.aclose()

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when the server has added all of them; it writes them down as it is set to."""
        with told():
            async with self.redis.pipeline(transaction=False) as pipeline:
                for one in messages:
                    topic, key = self._names.destination(one.name)
                    written = Written(
                        one.name,
                        one.id,
                        one.timestamp_ms,
                        key if one.key is None else one.key,
                        one.value,
                        one.headers,
                    )
                    await self._publish(
                        keys=[stream_of(topic), STREAMS, f"{PREFIX}seen:{one.id}"],
                        args=[
                            msgspec.msgpack.encode(written), f"{PREFIX}name:{one.name}",
                            self._length_max, SEEN_MS, topic,
                        ],
                        client=pipeline,
                    )  # fmt: skip
                await pipeline.execute()

    @asynccontextmanager
    async def subscribed(self, subscription: Subscription) -> AsyncIterator[Inbox]:
        """Read for the length of a block."""
        kind = PassingInbox if subscription.client is ClientType.BROWSER else StreamInbox
        inbox = kind(self, subscription)
        with told():
            await inbox.open()
        try:
            yield inbox
        finally:
            await inbox.close()

    async def topics(self, wanted: str) -> list[str]:
        """Return the log topics that may hold what a filter matches."""
        known = await self.redis.smembers(STREAMS)
        return sorted(filter(self._names.reach(wanted).covers, map(_text, known)))


class StreamInbox:
    """An open subscription: a consumer group on every stream that the filter can match."""

    def __init__(self, driver: RedisDriver, subscription: Subscription) -> None:
        self._driver = driver
        self._redis = driver.redis
        self._wanted = subscription
        self._consumer = uuid.uuid4().hex if subscription.is_shared else OWN
        self._streams: list[str] = []
        self._held: dict[Place, None] = {}
        self._again: deque[Delivery] = deque()
        self._look_at_s = 0.0
        self._room = Room()

    async def open(self) -> None:
        """Begin an index that is new with what comes next; take back what was held before."""
        await self._find_streams(is_first=True)
        if not self._wanted.is_shared:
            for stream in self._streams:
                await self._read_held(stream)

    async def close(self) -> None:
        """Give back what was not accepted, so that others have it at once."""
        try:
            for place in self._held if self._wanted.is_shared else ():
                await self._redis.xclaim(
                    place.stream, self._wanted.index, GIVEN_BACK, 0, [place.entry],
                    idle=LONG_AGO_MS, justid=True,
                )  # fmt: skip
        except RedisError:
            pass  # others get it when it has been held for long enough

    async def take(self, timeout_s: float) -> list[Delivery]:
        """Return what has come, as far as credit goes."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        with told():
            while True:
                if self._again:
                    found = list(self._again)
                    self._again.clear()
                    return found
                if loop.time() >= self._look_at_s:
                    self._look_at_s = loop.time() + LOOK_S
                    await self._find_streams()
                    await self._claim()
                left_s = max(0.0, min(deadline_s, self._look_at_s) - loop.time())
                if not self._again and (found := await self._read(left_s)):
                    return found
                if not self._again and loop.time() >= deadline_s:
                    return []

    async def accept(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge messages."""
        with told():
            await self._acknowledge([_place(one) for one in deliveries])

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Hand messages out again, before those that come after them."""
        self._again.extendleft(reversed(deliveries))

    async def _read(self, timeout_s: float) -> list[Delivery]:
        credit = self._wanted.credit - len(self._held)
        if credit <= 0 or not self._streams:
            await self._room.wait(timeout_s)
            return []
        answer = await self._redis.xreadgroup(
            self._wanted.index, self._consumer, dict.fromkeys(self._streams, ">"),
            count=credit, block=max(1, round(timeout_s * 1000)),
        )  # fmt: skip
        return await self._taken(_entries(answer))

    async def _taken(self, entries: Sequence[tuple[Place, bytes | None]]) -> list[Delivery]:
        """Return the messages that are wanted; the others are done."""
        found: list[Delivery] = []
        strange: list[Place] = []
        for place, data in entries:
            message = None if data is None else read(data)
            if message is None or not matches(self._wanted.filter, message.name):
                strange.append(place)
            elif place not in self._held:
                self._held[place] = None
                found.append(Delivery(message, place))
        await self._acknowledge(strange)
        return found

    async def _acknowledge(self, places: Sequence[Place]) -> None:
        if not places:
            return
        by_stream: dict[str, list[bytes]] = {}
        for place in places:
            by_stream.setdefault(place.stream, []).append(place.entry)
        for stream, entries in by_stream.items():
            await self._redis.xack(stream, self._wanted.index, *entries)
        for place in places:
            self._held.pop(place, None)
        self._room.make()

    async def _find_streams(self, *, is_first: bool = False) -> None:
        topics = await self._driver.topics(self._wanted.filter)
        begins = is_first and not await self._is_known()
        for stream in map(stream_of, topics):
            if stream in self._streams:
                continue
            try:
                await self._redis.xgroup_create(
                    stream, self._wanted.index, "$" if begins else "0", mkstream=True
                )
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
            self._streams.append(stream)
        if begins:
            await self._redis.sadd(f"{PREFIX}indexes", self._wanted.index)

    async def _is_known(self) -> bool:
        return bool(await self._redis.sismember(f"{PREFIX}indexes", self._wanted.index))

    async def _read_held(self, stream: str) -> None:
        """Take back what this reader had before it went."""
        answer = await self._redis.xreadgroup(
            self._wanted.index, self._consumer, {stream: "0"}, count=self._wanted.credit
        )
        self._again.extend(await self._taken(_entries(answer)))

    async def _claim(self) -> None:
        """Take over what others have held for too long, or have given back."""
        if not self._wanted.is_shared:
            return
        for stream in self._streams:
            credit = self._wanted.credit - len(self._held)
            if credit <= 0:
                return
            _, found, *_ = await self._redis.xautoclaim(
                stream, self._wanted.index, self._consumer, self._driver.redelivery_ms, count=credit
            )
            entries = [(Place(stream, entry), _data(fields)) for entry, fields in found]
            self._again.extend(await self._taken(entries))


class PassingInbox:
    """A subscription that keeps nothing: what is published while it is open, in its order."""

    def __init__(self, driver: RedisDriver, subscription: Subscription) -> None:
        self._wanted = subscription
        self._listening: PubSub = driver.redis.pubsub()

    async def open(self) -> None:
        """Listen to all names that the filter may match."""
        glob = "".join(
            "*" if one in "+#" else f"\\{one}" if one in "*?[]\\" else one
            for one in self._wanted.filter.removesuffix("/#")
        )
        tail = "*" if self._wanted.filter.endswith("/#") else ""
        await self._listening.psubscribe(f"{PREFIX}name:{glob}{tail}")
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            while await self._listening.get_message(timeout=None) is None:
                pass

    async def close(self) -> None:
        """Listen no more."""
        try:
            await self._listening.aclose()  # type: ignore[no-untyped-call]
        except RedisError:
            pass  # nobody is there to be told

    async def take(self, timeout_s: float) -> list[Delivery]:
        """Return what has come."""
        found: list[Delivery] = []
        with told():
            wait_s = timeout_s
            while len(found) < self._wanted.credit:
                told_us = await self._listening.get_message(
                    ignore_subscribe_messages=True, timeout=wait_s
                )
                if told_us is None:
                    break
                message = read(told_us["data"])
                if matches(self._wanted.filter, message.name):
                    found.append(Delivery(message, None))
                wait_s = 0.0
        return found

    async def accept(self, deliveries: Sequence[Delivery]) -> None:
        """Do nothing: nothing is kept."""

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Refuse: nothing is kept that could come again."""
        if deliveries:
            raise Refused("a browser's messages are not kept, and cannot be given back")


def stream_of(topic: str) -> str:
    """Return the stream of a log topic."""
    return f"{PREFIX}stream:{topic}"


def read(data: bytes) -> Message:
    """Return the message that lies in a stream."""
    try:
        found = msgspec.msgpack.decode(data, type=Written)
    except msgspec.MsgspecError as error:
        raise Refused(f"an entry of a stream makes no sense: {error}") from None
    return Message(
        name=found.name,
        value=found.value,
        key=found.key,
        headers=found.headers,
        timestamp_ms=found.timestamp_ms,
        id=found.id,
    )


def _text(data: bytes | str) -> str:
    return data.decode() if isinstance(data, bytes) else data


def _place(delivery: Delivery) -> Place:
    assert isinstance(delivery.place, Place)
    return delivery.place


def _data(fields: dict[bytes, bytes] | None) -> bytes | None:
    """Return the message of an entry; None if it was deleted meanwhile."""
    return None if not fields else fields.get(b"m")


def _entries(answer: Any) -> list[tuple[Place, bytes | None]]:
    rows = answer.items() if isinstance(answer, dict) else answer or ()
    found = []
    for stream, entries in rows:
        if entries and isinstance(entries[0], list):
            entries = entries[0]
        found += [(Place(_text(stream), entry), _data(fields)) for entry, fields in entries]
    return found


@contextmanager
def told() -> Iterator[None]:
    """Tell the library's failures in the words of drivers."""
    try:
        yield
    except (ConnectionBroken, TimedOut, OSError, TimeoutError) as error:
        raise Unavailable(f"Redis: {error}") from error
    except RedisError as error:
        is_passing = str(error).startswith(("LOADING", "NOGROUP", "READONLY", "MASTERDOWN"))
        raise (Unavailable if is_passing else Refused)(f"Redis: {error}") from error
    except ChordMQError as error:
        raise Refused(str(error)) from error

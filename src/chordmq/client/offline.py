"""A producer for places without a network: messages wait in SQLite and go out in their order.

A message is on disk when `send` returns. It is published when there is a broker, and deleted when
that has acknowledged it. A crash in between publishes it again, with the same id in the header
`message-id`, so that a consumer can drop the second one.
"""

import asyncio
import random
import sqlite3
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from chordmq.client.backoff import Backoff
from chordmq.client.connection import ConnectionSettings
from chordmq.client.distinct import ID_HEADER
from chordmq.client.errors import BrokerRefused, ClientError
from chordmq.client.opened import Opened
from chordmq.client.producer import Producer, ProducerSettings
from chordmq.clock import Clock, SystemClock
from chordmq.dataclass import dataclass
from chordmq.logs import get_logger
from chordmq.records.record import Headers, NewRecord

log = get_logger(__name__)

AT_ONCE = 500
RETRY_MOST_S = 10.0

SCHEMA = """
CREATE TABLE IF NOT EXISTS waiting (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, message BLOB NOT NULL
) STRICT;
"""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A message that no broker has yet."""

    id: str
    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = 0


T = TypeVar("T")

Refusal = Callable[[Waiting, BrokerRefused], Awaitable[Waiting | None]]
"""Says what becomes of a message that the broker refuses: another one in its place, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineSettings:
    """Where messages wait, and what becomes of those that are refused."""

    path: Path
    on_refused: Refusal | None = None
    """Without it, a refused message is dropped and logged."""
    producer: ProducerSettings | None = None


class OfflineProducer(Opened):
    """Takes messages at any time; use it as `async with OfflineProducer(...) as producer`."""

    def __init__(
        self,
        bootstrap: str,
        settings: OfflineSettings,
        connection: ConnectionSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._connection = connection
        self._clock = clock or SystemClock()
        self._threads = ThreadPoolExecutor(1, "offline queue")
        self._database: sqlite3.Connection
        self._more = asyncio.Event()
        self._empty = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        self._delivering: asyncio.Task[None] | None = None
        self.refused = 0
        self.delivered = 0

    async def _open(self) -> None:
        """Open the queue; a broker need not be there."""
        await self._run(self._open_file)
        await self._tasks.__aenter__()
        self._more.set()
        self._delivering = self._tasks.create_task(self._deliver())

    async def _close(self, error: BaseException | None) -> None:
        """Close; what no broker has yet is delivered by the next producer on this file."""
        assert self._delivering is not None
        self._delivering.cancel()
        await self._tasks.__aexit__(None, None, None)
        await self._run(self._database.close)
        self._threads.shutdown()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        message_id: str | None = None,
    ) -> str:
        """Return the message's id when it is on disk; the same id again changes nothing."""
        message = Waiting(
            id=message_id or uuid.uuid4().hex,
            topic=topic,
            value=value,
            key=key,
            headers=headers,
            timestamp_ms=self._clock.now_ms(),
        )
        await self._run(self._put, message)
        self._empty.clear()
        self._more.set()
        return message.id

    async def flush(self) -> None:
        """Return when a broker has all of it."""
        while await self._run(self._count):
            await self._empty.wait()

    async def waiting(self) -> int:
        """Return how many messages no broker has yet."""
        return await self._run(self._count)

    async def _deliver(self) -> None:
        backoff = Backoff(random.Random(), most_s=RETRY_MOST_S)  # noqa: S311 (jitter, not a secret)
        while True:
            try:
                async with Producer(
                    self._bootstrap, self._settings.producer, self._connection
                ) as producer:
                    backoff.reset()
                    await self._deliver_all(producer)
            except ClientError as error:
                wait_s = backoff.next_s()
                log.info("messages wait", error=str(error), again_in_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)

    async def _deliver_all(self, producer: Producer) -> None:
        while True:
            self._more.clear()
            messages = await self._run(self._first, AT_ONCE)
            if messages:
                self._empty.clear()
                await self._publish(producer, messages)
            else:
                self._empty.set()
                await self._more.wait()

    async def _publish(self, producer: Producer, messages: Sequence[Waiting]) -> None:
        """Publish messages in their order; stop at the first that fails for now."""
        deliveries = [await producer.enqueue_record(one.topic, _record(one)) for one in messages]
        done: list[str] = []
        try:
            for message, delivery in zip(messages, deliveries, strict=True):
                try:
                    await delivery
                except BrokerRefused as error:
                    if error.retriable:
                        raise
                    await self._refuse(message, error)
                else:
                    done.append(message.id)
        finally:
            self.delivered += len(done)
            await self._run(self._remove, done)

    async def _refuse(self, message: Waiting, error: BrokerRefused) -> None:
        self.refused += 1
        log.warning("message refused", topic=message.topic, id=message.id, error=str(error))
        decide = self._settings.on_refused
        other = None if decide is None else await decide(message, error)
        if other is None:
            await self._run(self._remove, [message.id])
        else:
            await self._run(self._replace, message.id, other)

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)

    def _open_file(self) -> None:
        self._settings.path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(self._settings.path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.executescript(SCHEMA)

    def _put(self, message: Waiting) -> None:
        self._database.execute(
            "INSERT OR IGNORE INTO waiting (id, message) VALUES (?, ?)",
            (message.id, msgspec.msgpack.encode(message)),
        )

    def _replace(self, message_id: str, other: Waiting) -> None:
        self._database.execute(
            "UPDATE waiting SET id = ?, message = ? WHERE id = ?",
            (other.id, msgspec.msgpack.encode(other), message_id),
        )

    def _remove(self, message_ids: Sequence[str]) -> None:
        with self._database:
            self._database.execute("BEGIN")
            self._database.executemany(
                "DELETE FROM waiting WHERE id = ?", [(one,) for one in message_ids]
            )

    def _first(self, count: int) -> list[Waiting]:
        rows = self._database.execute(
            "SELECT message FROM waiting ORDER BY place LIMIT ?", (count,)
        )
        return [msgspec.msgpack.decode(row[0], type=Waiting) for row in rows]

    def _count(self) -> int:
        (count,) = self._database.execute("SELECT count(*) FROM waiting").fetchone()
        return int(count)


def _record(message: Waiting) -> NewRecord:
    headers = (*message.headers, (ID_HEADER, message.id.encode()))
    return NewRecord(message.timestamp_ms, message.key, message.value, headers)

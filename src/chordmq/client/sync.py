"""The client for programs without asyncio: the same, on an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from chordmq.client import consumer, offline, producer
from chordmq.client.connection import ConnectionSettings
from chordmq.client.consumer import ConsumerSettings, Message
from chordmq.client.fetcher import Chunk
from chordmq.client.offline import OfflineSettings
from chordmq.client.offsets import EARLIEST, Start, TopicPartition
from chordmq.client.outbox import Delivery
from chordmq.client.producer import ProducerSettings
from chordmq.records.record import Headers

Part = TypeVar("Part")
T = TypeVar("T")


class _Face(Generic[Part]):
    """A part of the asynchronous client that lives in a thread; opened and closed by one task."""

    def __init__(self, open_part: Callable[[], AbstractAsyncContextManager[Part]]) -> None:
        self._open_part = open_part
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chordmq", daemon=True)
        self._stop = asyncio.Event()
        self._hosting: Future[None]
        self._part: Part

    def __enter__(self) -> Self:
        """Begin; raise what the asynchronous client would."""
        self._thread.start()
        opened: Future[Part] = Future()
        self._hosting = asyncio.run_coroutine_threadsafe(self._host(opened), self._loop)
        try:
            self._part = opened.result()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End as the asynchronous client does: what is under way is delivered or committed."""
        if error is not None:
            self._hosting.cancel()
        self._loop.call_soon_threadsafe(self._stop.set)
        try:
            if error is None:
                self._hosting.result()
        finally:
            self._end()

    async def _host(self, opened: "Future[Part]") -> None:
        try:
            async with self._open_part() as part:
                opened.set_result(part)
                await self._stop.wait()
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
                return
            raise

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        rest = asyncio.all_tasks(self._loop)
        if rest:
            self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self._loop.close()


class Producer(_Face[producer.Producer]):
    """Sends records; use it as `with Producer("host:port") as producer`."""

    def __init__(
        self,
        bootstrap: str,
        settings: ProducerSettings | None = None,
        connection: ConnectionSettings | None = None,
    ) -> None:
        super().__init__(lambda: producer.Producer(bootstrap, settings, connection))

    def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers = ()
    ) -> int:
        """Deliver one record and return its offset."""
        return self._call(self._part.send(topic, value, key=key, headers=headers))

    def enqueue(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers = ()
    ) -> Delivery:
        """Queue one record, waiting only for room; `flush` tells what became of it."""
        return self._call(self._part.enqueue(topic, value, key=key, headers=headers))

    def flush(self) -> None:
        """Wait until all records are answered; raise the first failure since the last flush."""
        self._call(self._part.flush())


class OfflineProducer(_Face[offline.OfflineProducer]):
    """Takes messages at any time, and delivers them when there is a broker."""

    def __init__(
        self,
        bootstrap: str,
        settings: OfflineSettings,
        connection: ConnectionSettings | None = None,
    ) -> None:
        super().__init__(lambda: offline.OfflineProducer(bootstrap, settings, connection))

    def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers = ()
    ) -> str:
        """Return the message's id when it is on disk."""
        return self._call(self._part.send(topic, value, key=key, headers=headers))

    def flush(self) -> None:
        """Return when a broker has all of it."""
        self._call(self._part.flush())

    def waiting(self) -> int:
        """Return how many messages no broker has yet."""
        return self._call(self._part.waiting())


class Consumer(_Face[consumer.Consumer]):
    """Reads records; use it as `with Consumer(...) as consumer`, then `for message in consumer`."""

    def __init__(
        self,
        bootstrap: str,
        settings: ConsumerSettings | None = None,
        connection: ConnectionSettings | None = None,
    ) -> None:
        super().__init__(lambda: consumer.Consumer(bootstrap, settings, connection))

    def subscribe(self, *topics: str) -> None:
        """Read these topics as a member of the group named in the settings."""
        self._call(self._part.subscribe(*topics))

    def assign_topic(self, topic: str, start: Start = EARLIEST) -> None:
        """Read a topic from one kind of place."""
        self._call(self._part.assign_topic(topic, start))

    def poll(self, timeout_s: float = 1.0) -> Chunk | None:
        """Return the next records of one partition, or None when none came in time."""
        return self._call(self._part.poll(timeout_s))

    def commit(self, offsets: dict[TopicPartition, int] | None = None) -> None:
        """Commit the offsets, or everything handed out so far."""
        self._call(self._part.commit(offsets))

    def __iter__(self) -> Iterator[Message]:
        """Yield messages for ever; one counts as processed when the next is asked for."""
        while True:
            yield self._call(self._part.__anext__())

"""Runs one message handler: reads its topic in a group, processes, and commits what is done."""

import asyncio
import random
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from chordmq.client.connection import ConnectionSettings
from chordmq.client.consumer import Consumer, ConsumerSettings, Message
from chordmq.client.errors import BrokerRefused, ClientError
from chordmq.client.fetcher import Chunk
from chordmq.client.handlers import Decision, Failure, MessageHandler
from chordmq.client.membership import GroupSettings
from chordmq.client.offsets import TopicPartition
from chordmq.client.producer import Producer
from chordmq.client.progress import Progress
from chordmq.dataclass import dataclass
from chordmq.logs import get_logger
from chordmq.records.dead_letter import obituary
from chordmq.records.record import NewRecord

if TYPE_CHECKING:
    from chordmq.tracing.tracing import Tracing

log = get_logger(__name__)

COMMIT_INTERVAL_S = 1.0
POLL_S = 0.5
STOP_TIMEOUT_S = 30.0
"""How long messages that are being processed may take at the end, or when the group moves on."""
BEATS_PER_SESSION = 6
READ_AHEAD = 10
"""Messages per lane that are read before they can be processed."""


class Stopped(Exception):
    """A message could not be processed, and its consumer may not go on without it."""


class _Interrupted(Exception):
    """A message is not tried again here: it comes again, to whoever goes on."""


@dataclass(slots=True)
class Counts:
    """What a worker has done since it began."""

    processed: int = 0
    failed: int = 0
    """Attempts that failed."""
    dead: int = 0
    skipped: int = 0


class Worker:
    """One handler at work.

    A message counts as done when its function has returned, or its dead letter is stored. Each lane
    processes one message at a time, and all messages with the same key are in one lane: so they
    stay in order, retries included.
    """

    def __init__(
        self, handler: MessageHandler, bootstrap: str, connection: ConnectionSettings | None
    ) -> None:
        self.handler = handler
        self.counts = Counts()
        self.has_begun = False
        """Whether a broker was there."""
        group = GroupSettings(
            group=handler.group,
            session_timeout_ms=handler.session_timeout_ms,
            heartbeat_interval_s=handler.session_timeout_ms / 1000 / BEATS_PER_SESSION,
            rebalance_timeout_ms=int(2 * STOP_TIMEOUT_S * 1000),
        )
        settings = ConsumerSettings(group=group, auto_commit_s=None)
        self._consumer = Consumer(bootstrap, settings, connection)
        self._consumer.before_rejoin = self._hand_over
        self._producer = Producer(bootstrap, connection=connection)
        self._progress = Progress()
        self._lanes: list[asyncio.Queue[Message]] = [
            asyncio.Queue() for _ in range(handler.concurrency)
        ]
        self._running = 0
        self._farthest: dict[TopicPartition, int] = {}
        """The last message of each partition that was begun."""
        self._round = 0
        """Counts how often the partitions were dealt anew; what is older is not ours to commit."""
        self._moved = asyncio.Event()
        self._stop = asyncio.Event()
        self._ending = asyncio.Event()
        """Set while what is being processed should come to its end, and nothing be tried again."""
        self._threads: ThreadPoolExecutor | None = None
        if not handler.is_async:
            self._threads = ThreadPoolExecutor(handler.concurrency, handler.name)

    def stop(self) -> None:
        """Finish what is being processed, commit it and end."""
        self._stop.set()
        self._wind_up()
        self._moved.set()

    async def run(self) -> None:
        """Process messages until `stop`; raise Stopped when one stands in the way."""
        try:
            async with self._producer, self._consumer:
                await self._consumer.subscribe(self.handler.topic)
                self.has_begun = True
                try:
                    await self._run_lanes()
                finally:
                    await self._commit()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run_lanes(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._work(lane)) for lane in self._lanes]
            background.append(tasks.create_task(self._commit_now_and_then()))
            await self._read()
            await self._finish()
            for task in background:
                task.cancel()

    async def _read(self) -> None:
        while not self._stop.is_set():
            chunk = await self._consumer.poll(POLL_S)
            if chunk is not None:
                await self._deal(chunk)

    async def _deal(self, chunk: Chunk) -> None:
        """Give messages to the lanes as they have room; give up if the group moves on meanwhile."""
        place, dealt_in = (chunk.topic, chunk.partition), self._round
        room = READ_AHEAD * len(self._lanes)
        for record in chunk.records:
            while len(self._progress) >= room and not self._stop.is_set():
                await self._movement()
                await self._consumer.keep_up()
            if self._stop.is_set() or self._round != dealt_in:
                return
            message = Message(chunk.topic, chunk.partition, *record)
            self._progress.begin(place, message.offset)
            self._lane(message).put_nowait(message)
        self._progress.reach(place, chunk.next_offset)

    def _lane(self, message: Message) -> asyncio.Queue[Message]:
        if self.handler.order == "partition" or message.key is None:
            return self._lanes[message.partition % len(self._lanes)]
        return self._lanes[crc32(message.key) % len(self._lanes)]

    async def _work(self, lane: asyncio.Queue[Message]) -> None:
        while True:
            message = await lane.get()
            place, begun_in = (message.topic, message.partition), self._round
            self._farthest[place] = max(message.offset, self._farthest.get(place, -1))
            self._running += 1
            try:
                await self._process(message)
                if self._round == begun_in:
                    self._progress.finish(place, message.offset)
            except _Interrupted:
                continue
            finally:
                self._running -= 1
                self._moved.set()

    async def _process(self, message: Message) -> None:
        """Try until the message is done; raise Stopped if it must not be passed over."""
        attempt, handler = 1, self.handler
        while True:
            try:
                await self._call(message)
            except Exception as error:  # noqa: BLE001 (whatever the function raises is its failure)
                failure = Failure(handler, message, error, attempt)
            else:
                self.counts.processed += 1
                return
            self.counts.failed += 1
            decision = await self._decide(failure)
            log.warning(
                "message failed", consumer=handler.name, topic=message.topic,
                partition=message.partition, offset=message.offset, attempt=attempt,
                error=failure.reason, decision=decision.value,
            )  # fmt: skip
            if decision is Decision.STOP:
                raise Stopped(
                    f"{handler.name} stops at {message.topic}-{message.partition} "
                    f"offset {message.offset}: {failure.reason}"
                ) from failure.error
            if decision is not Decision.RETRY:
                await self._give_up(failure, decision)
                return
            await self._wait(handler.retry.delay_s(attempt, random.uniform))
            attempt += 1

    async def _wait(self, delay_s: float) -> None:
        """Wait for the next attempt; raise _Interrupted if it is not for us to make."""
        try:
            async with asyncio.timeout(delay_s):
                await self._ending.wait()
        except TimeoutError:
            return
        raise _Interrupted

    def trace(self, tracing: "Tracing") -> None:
        """Have a span around the processing of each message, in the trace that it carries."""
        call = self._call

        async def traced(message: Message) -> None:
            with tracing.processing(message.topic, message.headers):
                await call(message)

        self._call = traced  # type: ignore[method-assign]

    async def _call(self, message: Message) -> None:
        if self._threads is None:
            await self.handler(message)
        else:
            loop = asyncio.get_running_loop()
            # A thread knows of the span around the call only if it is told.
            work = partial(copy_context().run, self.handler, message)
            result = await loop.run_in_executor(self._threads, work)
            if isinstance(result, Awaitable):
                await result  # a plain function that hands on an async one's work

    async def _decide(self, failure: Failure) -> Decision:
        decision = self.handler.on_error(failure)
        return decision if isinstance(decision, Decision) else await decision

    async def _give_up(self, failure: Failure, decision: Decision) -> None:
        if decision is Decision.SKIP:
            self.counts.skipped += 1
            return
        message, handler = failure.message, self.handler
        why = obituary(
            message.topic, message.partition, message.offset,
            handler.group, failure.attempt, failure.reason,
        )  # fmt: skip
        letter = NewRecord(message.timestamp, message.key, message.value, (*message.headers, *why))
        await (await self._producer.enqueue_record(handler.dead_letter, letter))
        self.counts.dead += 1

    async def _finish(self) -> None:
        """Wait until nothing is being processed, but not for ever."""
        self._wind_up()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + STOP_TIMEOUT_S
        while (self._running or any(map(asyncio.Queue.qsize, self._lanes))) and (
            loop.time() < deadline_s
        ):
            await self._movement()

    async def _hand_over(self) -> None:
        """Commit what is done before others may get the partitions."""
        await self._finish()
        await self._commit()
        self._progress.forget()
        self._farthest.clear()
        self._round += 1
        self._ending.clear()

    def _wind_up(self) -> None:
        """Begin no message that can be left to others.

        One that comes before another that is done cannot: the place of the group would stay before
        it, and the other one be processed twice.
        """
        self._ending.set()
        for lane in self._lanes:
            waiting = [lane.get_nowait() for _ in range(lane.qsize())]
            for message in waiting:
                if message.offset < self._farthest.get((message.topic, message.partition), -1):
                    lane.put_nowait(message)

    async def _movement(self) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(POLL_S):
                await self._moved.wait()
        except TimeoutError:
            return

    async def _commit_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_INTERVAL_S)
            await self._commit()

    async def _commit(self) -> None:
        try:
            await self._consumer.commit(self._progress.committable())
        except (BrokerRefused, ClientError) as error:
            # Nothing is lost: what is not committed comes again.
            log.warning("cannot commit", consumer=self.handler.name, error=str(error))

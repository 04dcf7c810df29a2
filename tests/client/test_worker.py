"""Message handlers at work on a real node."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chordmq.client.admin import Admin
from chordmq.client.app import ConsumerApp
from chordmq.client.consumer import Consumer, Message
from chordmq.client.handlers import Decision, Failure, MessageHandler, Reject, consumer
from chordmq.client.offsets import EARLIEST
from chordmq.client.producer import Producer
from chordmq.client.retries import RetryPolicy
from chordmq.client.worker import Stopped
from chordmq.records.record import NewRecord
from tests.running_node import RunningNode

QUICK = RetryPolicy(attempts=3, first_s=0.001, most_s=0.002)
TIMEOUT_S = 60


@pytest.fixture
async def topic(node: RunningNode, name: str) -> str:
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 3)
        await admin.create_topic(f"{name}.dlq", 1)
    return name


async def fill(node: RunningNode, topic: str, *values: bytes, keys: int = 7) -> None:
    """Write messages; those with the same key are in one partition."""
    records = [NewRecord(1, b"%d" % (at % keys), one) for at, one in enumerate(values)]
    async with Producer(node.bootstrap) as producer:
        await producer.enqueue_all(topic, records)
        await producer.flush()


@asynccontextmanager
async def running(node: RunningNode, *handlers: MessageHandler) -> AsyncIterator[ConsumerApp]:
    """Run handlers for the length of a block, and stop them well."""
    app = ConsumerApp(*handlers)
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(app.serve(node.bootstrap))
        yield app
        app.stop()


async def lag(node: RunningNode, group: str) -> int:
    async with Admin(node.bootstrap) as admin:
        return sum(row.lag or 0 for row in await admin.lag(group))


async def letters(node: RunningNode, topic: str, count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(TIMEOUT_S), Consumer(node.bootstrap) as reader:
        await reader.assign_topic(topic, EARLIEST)
        async for message in reader:
            found.append(message)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_every_message_is_processed_in_the_order_of_its_key(
    node: RunningNode, topic: str, kind: str
) -> None:
    """D10: several at a time, in threads or on the loop; what is done is committed at the end."""
    seen: list[tuple[bytes | None, int]] = []
    threads: list[str] = []
    several = threading.Event()
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(message: Message) -> None:
        threads.append(threading.current_thread().name)
        if len(set(threads)) > 1:
            several.set()
        if kind == "plain":
            several.wait(TIMEOUT_S)  # until another is at work in another thread
        seen.append((message.key, int(message.value or b"")))
        if len(seen) == 200:
            loop.call_soon_threadsafe(done.set)

    async def note_later(message: Message) -> None:
        await asyncio.sleep(0)
        note(message)

    await fill(node, topic, *(b"%d" % number for number in range(200)))
    decorate = consumer(topic, group=topic, concurrency=4)
    async with running(node, decorate(note if kind == "plain" else note_later)) as app:
        await done.wait()
    for key in {key for key, _ in seen}:
        numbers = [number for one, number in seen if one == key]
        assert numbers == sorted(numbers)
    assert len(seen) == 200
    assert (len(set(threads)) > 1) == (kind == "plain")
    assert [counts.processed for counts in app.counts.values()] == [200]
    assert await lag(node, topic) == 0


async def test_whole_partitions_can_be_kept_in_order(node: RunningNode, topic: str) -> None:
    """D10: whatever the keys; different partitions still go on at the same time."""
    seen: defaultdict[int, list[int]] = defaultdict(list)
    done = asyncio.Event()
    busy, most = 0, 0

    @consumer(topic, group=topic, concurrency=3, order="partition")
    async def note(message: Message) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.001)
        busy -= 1
        seen[message.partition].append(message.offset)
        if sum(map(len, seen.values())) == 100:
            done.set()

    await fill(node, topic, *(b"%d" % number for number in range(100)), keys=30)
    async with running(node, note):
        await done.wait()
    assert all(offsets == sorted(offsets) for offsets in seen.values())
    assert 1 < most <= 3


async def test_a_message_is_tried_again_and_then_becomes_a_dead_letter(
    node: RunningNode, topic: str
) -> None:
    """D10: with the reason and where it came from; those behind it are processed."""
    attempts: defaultdict[bytes | None, int] = defaultdict(int)

    @consumer(topic, group=topic, retry=QUICK)
    async def picky(message: Message) -> None:
        attempts[message.value] += 1
        if message.value == b"late" and attempts[b"late"] < 3:
            raise ConnectionError("not yet")
        if message.value == b"bad":
            raise ValueError("no such order")
        if message.value == b"never":
            raise Reject("malformed")

    await fill(node, topic, b"one", b"late", b"bad", b"never", b"two")
    async with running(node, picky) as app:
        bad, never = sorted(
            await letters(node, f"{topic}.dlq", 2), key=lambda letter: letter.value or b""
        )
        while sum(attempts.values()) < 9:  # noqa: ASYNC110 (what others do)
            await asyncio.sleep(0.01)
    assert attempts == {b"one": 1, b"late": 3, b"bad": 3, b"never": 1, b"two": 1}
    headers = dict(bad.headers)
    assert headers["chordmq.origin.topic"] == topic.encode()
    assert headers["chordmq.dead.group"] == topic.encode()
    assert headers["chordmq.dead.deliveries"] == b"3"
    assert headers["chordmq.dead.reason"] == b"ValueError: no such order"
    assert (bad.key, bad.timestamp) == (b"2", 1)
    assert dict(never.headers)["chordmq.dead.reason"] == b"Reject: malformed"
    (counts,) = app.counts.values()
    assert (counts.processed, counts.failed, counts.dead) == (3, 6, 2)
    assert await lag(node, topic) == 0


async def test_an_error_handler_decides(node: RunningNode, topic: str) -> None:
    """D10: a function of the user's, plain or async, sees every failure."""
    failures: list[tuple[bytes | None, int]] = []
    done = asyncio.Event()

    async def lenient(failure: Failure) -> Decision:
        failures.append((failure.message.value, failure.attempt))
        return Decision.SKIP

    @consumer(topic, group=topic, on_error=lenient)
    async def failing(message: Message) -> None:
        if message.value == b"last":
            done.set()
            return
        raise ValueError

    await fill(node, topic, b"one", b"last", keys=1)
    async with running(node, failing) as app:
        await done.wait()
    assert failures == [(b"one", 1)]
    assert next(iter(app.counts.values())).skipped == 1


async def test_without_a_dead_letter_topic_a_consumer_stops_and_skips_nothing(
    node: RunningNode, topic: str
) -> None:
    """D10: the message is there for whoever goes on; what came before it is committed."""

    @consumer(topic, group=topic, dead_letter="", retry=RetryPolicy(attempts=1))
    async def strict(message: Message) -> None:
        if message.value == b"bad":
            raise ValueError("no")

    await fill(node, topic, b"good", b"bad", b"after", keys=1)
    with pytest.raises(Stopped, match="ValueError: no"):
        await asyncio.wait_for(ConsumerApp(strict).serve(node.bootstrap), TIMEOUT_S)
    assert await lag(node, topic) == 2


async def test_stopping_finishes_what_is_being_processed_and_gives_back_the_rest(
    node: RunningNode, topic: str
) -> None:
    """D10: a graceful stop: done is done, and what was not begun comes again."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    finished: list[bytes | None] = []

    @consumer(topic, group=topic)
    async def slow(message: Message) -> None:
        begun.set()
        await go_on.wait()
        finished.append(message.value)

    await fill(node, topic, b"1", b"2", b"3", keys=1)
    async with running(node, slow) as app:
        await begun.wait()
        app.stop()
        await asyncio.sleep(0)
        go_on.set()
    assert finished == [b"1"]
    assert await lag(node, topic) == 2


async def test_a_retry_that_waits_does_not_hold_up_the_end(node: RunningNode, topic: str) -> None:
    """D10: the message is not done, so it comes again."""
    failed = asyncio.Event()

    @consumer(topic, group=topic, retry=RetryPolicy(attempts=9, first_s=60, most_s=60))
    async def failing(message: Message) -> None:
        failed.set()
        raise ValueError

    await fill(node, topic, b"1")
    async with running(node, failing):
        await failed.wait()
    async with Admin(node.bootstrap) as admin:
        assert not any((await admin.committed(topic)).values())


async def test_a_second_application_takes_its_share_and_nothing_is_lost(
    node: RunningNode, topic: str
) -> None:
    """D10: when the group moves on, what is done is committed before partitions change hands."""
    seen: list[bytes | None] = []
    readers: dict[str, set[int]] = {"first": set(), "second": set()}

    def reader(name: str) -> MessageHandler:
        @consumer(topic, group=topic, concurrency=2)
        async def read(message: Message) -> None:
            await asyncio.sleep(0.001)
            seen.append(message.value)
            readers[name].add(message.partition)

        return read

    written = 0

    async def write(count: int) -> None:
        nonlocal written
        values = [b"%d" % number for number in range(written, written + count)]
        await fill(node, topic, *values, keys=50)
        written += count

    async with running(node, reader("first")):
        await write(200)
        while len(seen) < 50:  # noqa: ASYNC110 (what others do)
            await asyncio.sleep(0.01)
        async with running(node, reader("second")):
            while not readers["second"] or len(seen) < written:
                if not readers["second"] and len(seen) > written - 100:
                    await write(100)
                await asyncio.sleep(0.02)
    assert set(seen) == {b"%d" % number for number in range(written)}
    assert len(seen) == written, "a hand-over in good order repeats nothing"
    assert await lag(node, topic) == 0

"""What flushes do when threads, or the loop, are not to be had."""

import asyncio
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.threads import Threads
from chordmq.clock import SystemClock
from chordmq.records.record import NewRecord, build_batch

LARGE = 100_000


def refused(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_work_is_done_although_no_more_threads_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D5: a node that may have no more threads goes on with those that it has."""
    threads, gate, done = Threads(2, "test"), threading.Event(), threading.Event()

    def held_up() -> None:
        gate.wait()

    threads.submit(held_up)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        threads.submit(done.set)
    gate.set()
    assert done.wait(5)
    threads.close()


def test_work_for_which_there_is_no_thread_at_all_is_done_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D5: rather blocked than forgotten; the next one tries again."""
    threads, names = Threads(2, "test"), list[str]()

    def work() -> None:
        names.append(threading.current_thread().name)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        threads.submit(work)
    threads.submit(work)
    threads.close()
    assert names == [threading.current_thread().name, "test_0"]


class Hesitant(SimpleQueue[Callable[[], None] | None]):
    """A queue where a thread that finds nothing is slow to say so."""

    def __init__(self) -> None:
        super().__init__()
        self.has_found_nothing, self.may_say_so = threading.Event(), threading.Event()

    def get_nowait(self) -> Callable[[], None] | None:
        try:
            return super().get_nowait()
        except Empty:
            self.has_found_nothing.set()
            self.may_say_so.wait(5)
            raise


def test_a_thread_that_is_about_to_wait_does_not_take_the_place_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D5: three pieces of work that wait for each other are all begun, as four threads may be."""
    threads, queue, start = Threads(4, "test"), Hesitant(), threading.Thread.start
    monkeypatch.setattr(threads, "_work", queue)
    has_begun, met = threading.Event(), threading.Barrier(4)

    def meet() -> None:
        has_begun.set()
        met.wait(5)

    def start_late(thread: threading.Thread) -> None:
        """Start a thread when the one before waits, or has found the work on its way there."""
        queue.may_say_so.set()
        has_begun.wait(0.1)
        start(thread)

    threads.submit(lambda: None)
    queue.has_found_nothing.wait(5)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_late)
        threads.submit(meet)
    for _ in range(2):
        threads.submit(meet)
    met.wait(5)
    threads.close()


async def appended(partition: Partition) -> "asyncio.Future[None]":
    record = NewRecord(SystemClock().now_ms(), None, b"x" * LARGE)
    partition.append(memoryview(build_batch([record])))
    committed = partition.committed(partition.log.end_offset)
    assert committed is not None
    return committed


async def test_a_partition_is_flushed_although_no_more_threads_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5, C12: its producers would wait for ever, and no other flush of it would begin."""
    broker = Broker(tmp_path, BrokerSettings(node_id=1), SystemClock(), Flusher())
    names = ("first", "second")
    first, second = [
        (await broker.topics.create(name, 1, 1, {"flush": "disk"})).partitions[0] for name in names
    ]
    for _ in range(4):
        await (await appended(first))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        waits = [await appended(partition) for partition in (first, second)]
        await asyncio.wait(waits, timeout=5)
    waits.append(await appended(second))
    await asyncio.wait_for(asyncio.gather(*waits), 5)
    broker.close()


class Work:
    """Work that can be watched."""

    def __call__(self) -> None:
        pass


def test_work_that_is_done_is_forgotten() -> None:
    """C11: a thread that waits keeps no partition in memory that was deleted since."""
    threads, work = Threads(1, "test"), Work()
    seen = weakref.ref(work)
    threads.submit(work)
    del work
    done = threading.Event()
    threads.submit(done.set)
    done.wait()
    is_kept = seen() is not None
    threads.close()
    assert not is_kept


def test_nothing_is_taken_after_the_end() -> None:
    """D5: rather than have somebody wait for what nobody does."""
    threads, done = Threads(2, "test"), threading.Event()
    threads.submit(done.set)
    threads.close()
    with pytest.raises(RuntimeError):
        threads.submit(done.set)
    threads.close()


def test_flushes_are_finished_although_the_loop_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: closing waits for all of them, and no thread dies of having nobody to tell."""
    flusher, gate, done = Flusher(), threading.Event(), list[int]()
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)

    def work(number: int) -> None:
        gate.wait()
        done.append(number)

    async def begin() -> None:
        for number in range(20):
            flusher._submit(partial(work, number), lambda _: None)

    asyncio.run(begin())
    gate.set()
    flusher.close()
    assert sorted(done) == list(range(20))
    assert not faults

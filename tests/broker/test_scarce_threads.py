"""What flushes do when threads, or the loop, are not to be had."""

import asyncio
import threading
import weakref
from functools import partial
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.threads import Threads, Work, Worker
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


def test_a_thread_that_is_about_to_wait_does_not_take_the_place_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D5: three pieces of work that wait for each other are all begun, as four threads may be."""
    threads, met = Threads(4, "test"), threading.Barrier(4)
    has_ended, may_look, waits = threading.Event(), threading.Event(), threading.Event()
    start, take, look = threading.Thread.start, Worker.take, Threads._next

    def look_late(self: Threads, worker: Worker) -> Work | None:
        has_ended.set()
        assert may_look.wait(5)
        return look(self, worker)

    def take_what_comes(worker: Worker) -> Work | None:
        waits.set()
        return take(worker)

    def start_late(thread: threading.Thread) -> None:
        """Start a thread when the one before has found nothing, and waits."""
        may_look.set()
        assert waits.wait(5)
        start(thread)

    def meet() -> None:
        met.wait(5)

    monkeypatch.setattr(Threads, "_next", look_late)
    threads.submit(lambda: None)
    assert has_ended.wait(5)
    monkeypatch.setattr(Worker, "take", take_what_comes)
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


class Watched:
    """Work that can be watched."""

    def __call__(self) -> None:
        pass


def test_work_that_is_done_is_forgotten() -> None:
    """C11: a thread that waits keeps no partition in memory that was deleted since."""
    threads, work = Threads(1, "test"), Watched()
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

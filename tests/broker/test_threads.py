"""Threads for work that blocks: started when needed, no more than allowed, ended in order."""

import threading
from functools import partial

from chordmq.broker.threads import Threads


def test_work_is_done_by_as_many_threads_as_it_needs() -> None:
    """D5: two pieces of work that wait for each other are both begun."""
    threads = Threads(4, "test")
    met = threading.Barrier(3)

    def meet() -> None:
        met.wait(10)

    for _ in range(2):
        threads.submit(meet)
    meet()
    threads.close()


def test_what_finds_no_thread_waits_for_one() -> None:
    """D5: no more threads run than there may be, and nothing is left undone."""
    threads = Threads(2, "test")
    gate, done, names = threading.Event(), list[int](), set[str]()

    def work(number: int) -> None:
        gate.wait()
        names.add(threading.current_thread().name)
        done.append(number)

    for number in range(20):
        threads.submit(partial(work, number))
    gate.set()
    threads.close()
    assert sorted(done) == list(range(20))
    assert names <= {"test_0", "test_1"}


def test_a_thread_that_is_idle_does_the_next_work() -> None:
    """D5: threads are kept, and none is started beside one that waits."""
    threads = Threads(4, "test")
    for _ in range(50):
        done = threading.Event()
        threads.submit(done.set)
        done.wait()
    before = threading.active_count()
    threads.close()
    assert before - threading.active_count() <= 2  # it may not yet say that it is idle


def test_closing_waits_for_all_work() -> None:
    """D5: what was submitted is done, even if nobody needed a thread before."""
    Threads(2, "test").close()
    threads, done = Threads(1, "test"), list[int]()
    for number in range(100):
        threads.submit(partial(done.append, number))
    threads.close()
    assert done == list(range(100))

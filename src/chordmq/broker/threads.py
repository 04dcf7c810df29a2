"""A few threads for work that blocks: the least that hands it over.

A `ThreadPoolExecutor` makes a future for each piece of work and takes five locks, which cost more
than the system call that the thread is there for. And threads that wait at one queue wake each
other: whoever has taken the last piece of work releases the queue, and the next one wakes for
nothing. Here each waits by itself, and the one that has worked last is woken first.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock, Thread

from chordmq.logs import get_logger

log = get_logger(__name__)

Work = Callable[[], None]


class Worker:
    """One thread, as others see it: what it is given, and whether it may look."""

    __slots__ = ("_given", "_work")

    def __init__(self) -> None:
        self._given = Lock()
        self._given.acquire()
        self._work: Work | None = None

    def give(self, work: Work | None) -> None:
        """Have the thread do this, or end if it is nothing."""
        self._work = work
        self._given.release()

    def take(self) -> Work | None:
        """Return what is given, once it is; the thread's own call."""
        self._given.acquire()
        work, self._work = self._work, None
        return work


class Threads:
    """Threads that are started when all others are busy, up to a number, and kept.

    The work must not raise: nobody would hear of it.
    """

    def __init__(self, count_max: int, name: str) -> None:
        self._count_max = count_max
        self._name = name
        self._lock = Lock()
        """Held to look at who is idle and what waits, and for nothing that takes time."""
        self._idle: list[Worker] = []
        self._waiting: deque[Work] = deque()
        self._threads: list[Thread] = []
        self._is_closed = False

    def submit(self, work: Work) -> None:
        """Have one of the threads do this; only one thread may submit, and none after the end."""
        if self._is_closed:
            raise RuntimeError("the threads have ended")
        if self._hand_over(work):
            return
        if len(self._threads) < self._count_max and self._has_started(work):
            return
        if self._threads:
            self._hand_over(work, may_wait=True)
        else:
            work()  # rather blocked than forgotten

    def _hand_over(self, work: Work, *, may_wait: bool = False) -> bool:
        """Give work to a thread that is idle, or to the next that will be."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
            if worker is None and may_wait:
                self._waiting.append(work)
        if worker is not None:
            worker.give(work)
        return worker is not None or may_wait

    def _has_started(self, work: Work) -> bool:
        """Start one more thread for this; return whether the system allows it."""
        name = f"{self._name}_{len(self._threads)}"
        worker = Worker()
        worker.give(work)
        thread = Thread(target=self._run, args=[worker], name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.error("thread cannot be started", name=name, error=str(error))
            return False
        self._threads.append(thread)
        return True

    def _run(self, worker: Worker) -> None:
        work = worker.take()
        while work is not None:
            work()
            work = None  # or it would be kept, with all that it knows, until the next one comes
            work = self._next(worker)

    def _next(self, worker: Worker) -> Work | None:
        """Return what a thread does next, once there is something; None for its end."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._is_closed:
                return None
            self._idle.append(worker)
        return worker.take()

    def close(self) -> None:
        """Wait until all work is done that was submitted, and end the threads."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.give(None)
        for thread in self._threads:
            thread.join()

"""A few threads for work that blocks: the least that hands it over.

A `ThreadPoolExecutor` makes a future for each piece of work and takes five locks, which cost more
than the system call that the thread is there for.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from chordmq.logs import get_logger

log = get_logger(__name__)


class Threads:
    """Threads that are started when all others are busy, up to a number, and kept.

    The work must not raise: nobody would hear of it.
    """

    def __init__(self, count_max: int, name: str) -> None:
        self._count_max = count_max
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle: list[None] = []
        """An item for each thread that waits; lists are safe to change from several threads."""
        self._threads: list[Thread] = []
        self._is_closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Have one of the threads do this; only one thread may submit, and none after the end."""
        if self._is_closed:
            raise RuntimeError("the threads have ended")
        if not self._idle and len(self._threads) < self._count_max and self._has_started(work):
            return
        if not self._threads:
            work()  # rather blocked than forgotten
            return
        if self._idle:
            self._idle.pop()
        self._work.put(work)

    def _has_started(self, work: Callable[[], None]) -> bool:
        """Start one more thread for this; return whether the system allows it.

        The work is handed to it past the queue: a thread that is about to wait would take it from
        there, and count as one that waits.
        """
        name = f"{self._name}_{len(self._threads)}"
        thread = Thread(target=self._run, args=[[work]], name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.error("thread cannot be started", name=name, error=str(error))
            return False
        self._threads.append(thread)
        return True

    def _run(self, first: list[Callable[[], None]]) -> None:
        work: Callable[[], None] | None = first.pop()  # the thread keeps the list, but not the work
        while work is not None:
            work()
            work = None  # or it would be kept, with all that it knows, until the next one comes
            try:
                work = self._work.get_nowait()
            except Empty:
                self._idle.append(None)
                work = self._work.get()

    def close(self) -> None:
        """Wait until all work is done that was submitted, and end the threads."""
        self._is_closed = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

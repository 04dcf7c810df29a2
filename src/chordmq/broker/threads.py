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
        """An item for each thread that waits, or is about to find what it would have waited for."""
        self._threads: list[Thread] = []
        self._is_closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Have one of the threads do this; only one thread may submit, and none after the end."""
        if self._is_closed:
            raise RuntimeError("the threads have ended")
        self._work.put(work)
        if self._idle:
            self._idle.pop()
        elif len(self._threads) < self._count_max and not self._has_started() and not self._threads:
            self._work.get()
            work()  # rather blocked than forgotten

    def _has_started(self) -> bool:
        """Start one more thread; return whether the system allows it."""
        name = f"{self._name}_{len(self._threads)}"
        thread = Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.error("thread cannot be started", name=name, error=str(error))
            return False
        self._threads.append(thread)
        return True

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get_nowait()
            except Empty:
                self._idle.append(None)
                work = self._work.get()
            if work is None:
                return
            work()
            del work  # or it would be kept, with all that it knows, until the next one comes

    def close(self) -> None:
        """Wait until all work is done that was submitted, and end the threads."""
        self._is_closed = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

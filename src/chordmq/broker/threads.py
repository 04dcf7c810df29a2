"""A few threads for work that blocks: the least that hands it over.

A `ThreadPoolExecutor` makes a future for each piece of work and takes five locks, which cost more
than the system call that the thread is there for.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread


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

    def submit(self, work: Callable[[], None]) -> None:
        """Have one of the threads do this; only one thread may submit."""
        if not self._idle and len(self._threads) < self._count_max:
            self._start(work)
            return
        if self._idle:
            self._idle.pop()
        self._work.put(work)

    def _start(self, work: Callable[[], None]) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = Thread(target=self._run, args=[work], name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, first: Callable[[], None]) -> None:
        work: Callable[[], None] | None = first
        while work is not None:
            work()
            try:
                work = self._work.get_nowait()
            except Empty:
                self._idle.append(None)
                work = self._work.get()

    def close(self) -> None:
        """Wait until all work is done that was submitted, and end the threads."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

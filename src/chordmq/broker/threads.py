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
        if self._idle:
            self._idle.pop()
        elif len(self._threads) < self._count_max:
            self._start()
        self._work.put(work)

    def _start(self) -> None:
        thread = Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

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

    def close(self) -> None:
        """Wait until all work is done that was submitted, and end the threads."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

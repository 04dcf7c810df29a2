"""Has threads wait for the disk in the event loop's place, for readers that can wait, too."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from chordmq.errors import ChordMQError
from chordmq.storage.cold import ColdRange
from chordmq.storage.log import Log

THREADS = 4
SERVED_S = 2.0
"""For how long who had to wait is served, whatever memory has by then."""
DISK_WAIT_S = 5.0
"""How long those wait who are told once and for all."""
UNDER_WAY_MAX = 256
"""Places that are waited for at a time, each with a descriptor; beyond it, the read waits."""
BROUGHT_MAX = 64
"""Places that were waited for that are remembered."""

Place = tuple[Log, int]
Wake = Callable[[], None]


class ReadAhead:
    """What is being brought into memory, and who is woken when it is there.

    A disk may take a hundredth of a second, in which a node could answer a thousand requests.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: dict[Place, dict[Wake, None]] = {}
        self._brought: dict[Place, float] = {}
        """Until when those are served who have waited for what lies there."""
        self.fetched = 0
        """How often the disk was waited for."""
        self._last: object = None
        self._is_closed = False

    def awaits(self, log: Log, offset: int, max_bytes: int, wake: Wake) -> bool:
        """Return whether a read has to wait for the disk; then `wake` is called when it need not.

        Who asks after the wait is served, whatever memory has: where it is short, what was brought
        may be gone already, each time.
        """
        if (offset, max_bytes) in log.reader.ahead or self._is_closed:
            return False
        if self.joins(log, offset, wake):
            return True
        place = (log, offset)
        if place in self._brought and _now_s() < self._brought[place]:
            return False
        if len(self._under_way) >= UNDER_WAY_MAX:
            return False
        cold = log.reader.cold(offset, max_bytes)
        if cold is None:
            return False
        self._begin(place, cold)[wake] = None
        return True

    def joins(self, log: Log, offset: int, wake: Wake) -> bool:
        """Return whether what lies at an offset is on its way; then `wake` is called afterwards."""
        woken = self._under_way.get((log, offset))
        if woken is None:
            return False
        woken[wake] = None
        return True

    def note(self, reader: object) -> bool:
        """Take note of who reads from files; return whether it is the one who did last."""
        last, self._last = self._last, reader
        return last is reader

    def prepare(self, log: Log, offset: int, max_bytes: int, limit: int) -> None:
        """Read what a reader of `limit` will ask for next, while it takes what it has got.

        What memory does not have is only brought there.
        """
        place, reader = (log, offset), log.reader
        if place in self._under_way or (offset, max_bytes) in reader.ahead:
            return
        if log.fault or self._is_closed:
            return
        with suppress(ChordMQError):  # whoever asks is told
            cold = reader.cold(offset, max_bytes) if offset < log.end_offset else None
            if cold is None:
                reader.prepare(offset, max_bytes, limit)
            else:
                self._begin(place, cold)

    def _begin(self, place: Place, cold: ColdRange) -> dict[Wake, None]:
        """Have a thread wait for the disk; return who is to be woken then."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-ahead")
        self._under_way[place] = woken = dict[Wake, None]()
        self.fetched += 1
        work = asyncio.get_running_loop().run_in_executor(self._pool, cold.fetch)
        work.add_done_callback(lambda _: self._fetched(place))
        return woken

    def _fetched(self, place: Place) -> None:
        woken = self._under_way.pop(place)
        if woken:
            self._brought.pop(place, None)
            self._brought[place] = _now_s() + SERVED_S
            if len(self._brought) > BROUGHT_MAX:
                del self._brought[next(iter(self._brought))]
        for wake in woken:
            wake()

    def close(self) -> None:
        """Wait for what is under way, and begin nothing more."""
        self._is_closed = True
        if self._pool is not None:
            self._pool.shutdown()


def _now_s() -> float:
    return asyncio.get_running_loop().time()

"""The in-memory tail: the newest batches of every log, bounded in bytes over the whole node.

A log that nobody follows keeps none: what is appended to it is then written from where it was
received, and the memory it was received into is used again while it lies in the processor's cache.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from chordmq.clock import Clock
from chordmq.records.batch import LENGTH_END

_FRONT = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_STALE_MIN = 1024
_VIEWS_MAX = 64
CHUNK_OVERHEAD = 700
"""Bytes that a chunk takes besides its data, measured; for single records it is most of it."""
UNREAD_MAX = 4 << 20
"""Bytes that are appended, with nobody reading up to the end, until a log counts as unfollowed."""
SPARE_SHARE = 4
NOTHING = 2**63 - 1
"""The start of an empty tail: no offset lies at or after it."""


class Keeper(Protocol):
    """Who keeps chunks, in the order in which it got them."""

    def drop_oldest(self) -> None:
        """Forget the oldest chunk."""
        ...


class Chunk:
    """What one append or read brought: whole batches, in one piece of memory."""

    __slots__ = ("added_s", "base_offset", "data", "keeper", "next_offset")

    def __init__(
        self, keeper: Keeper, base_offset: int, next_offset: int, data: memoryview, added_s: float
    ) -> None:
        self.keeper = keeper
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.data: memoryview | None = data
        """None once dropped; the budget's queue then skips the chunk."""
        self.added_s = added_s

    def batches(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (position, end, base offset, next offset) of each batch."""
        data, position = self.data, 0
        assert data is not None
        while position < len(data):
            base, length = _FRONT.unpack_from(data, position)
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_AT)
            end = position + LENGTH_END + length
            yield position, end, base, base + delta + 1
            position = end


class Budget:
    """Memory shared by all logs; the oldest chunk of the node goes first when it is used up."""

    def __init__(self, clock: Clock) -> None:
        self.bytes_used = 0
        self.clock = clock
        self._queue: deque[Chunk] = deque()
        self._stale = 0

    @property
    def limit(self) -> int:
        """Return how many bytes may be used now."""
        raise AssertionError("a budget knows")

    def add(self, chunk: Chunk, size: int) -> None:
        """Count the chunk in, and drop the oldest ones until all fit."""
        self._queue.append(chunk)
        self.bytes_used += size
        self.trim()

    def trim(self) -> None:
        """Drop the oldest chunks until all fit."""
        while self.bytes_used > self.limit and self._queue:
            oldest = self._queue[0]
            if oldest.data is None:
                self._queue.popleft()
                self._stale -= 1
            else:
                oldest.keeper.drop_oldest()

    def release(self, size: int) -> None:
        """Give back the bytes of a chunk that was dropped while it stands in the queue."""
        self.bytes_used -= size
        self._stale += 1
        if self._stale > _STALE_MIN and self._stale > len(self._queue) // 2:
            self._queue = deque(chunk for chunk in self._queue if chunk.data is not None)
            self._stale = 0


class TailBudget(Budget):
    """What the tails of all logs may take."""

    def __init__(self, bytes_max: int, clock: Clock) -> None:
        super().__init__(clock)
        self.bytes_max = bytes_max
        self.spare = Spare(self)

    @property
    def limit(self) -> int:
        """Return how many bytes may be used, always the same."""
        return self.bytes_max

    def add(self, chunk: Chunk, size: int) -> None:
        """Count the chunk in, and drop what was only borrowed, and the oldest ones."""
        super().add(chunk, size)
        self.spare.trim()


class Spare(Budget):
    """What is left for pieces of files: what the tails do not take, and a quarter at least."""

    def __init__(self, tails: TailBudget) -> None:
        super().__init__(tails.clock)
        self._tails = tails

    @property
    def limit(self) -> int:
        """Return how many bytes the tails leave."""
        tails = self._tails
        return max(tails.bytes_max - tails.bytes_used, tails.bytes_max // SPARE_SHARE)


class Tail:
    """The newest batches of one log."""

    __slots__ = ("_bases", "_budget", "_chunks", "_first", "_unread", "start")

    def __init__(self, budget: TailBudget) -> None:
        self._budget = budget
        self._bases: list[int] = []
        self._chunks: list[Chunk] = []
        self._first = 0  # dropped chunks stay in the lists until there are many
        self._unread = 0
        self.start = NOTHING
        """The first offset that is in memory."""

    def add(
        self, base_offset: int, next_offset: int, pieces: Sequence[memoryview], *, is_lent: bool
    ) -> None:
        """Keep what was just appended, if the log is followed.

        It must not change any more; what is lent will, and is copied. So is a view that keeps a
        much larger buffer alive, so that the budget tells the truth.
        """
        size = sum(map(len, pieces))
        self._unread += size
        if self._unread > UNREAD_MAX or size > self._budget.bytes_max:
            self.clear()
            return
        data = pieces[0]
        if is_lent or len(pieces) > 1 or 2 * size < memoryview(data.obj).nbytes:
            data = memoryview(b"".join(pieces))
        chunk = Chunk(self, base_offset, next_offset, data, self._budget.clock.monotonic_s())
        if not self._chunks:
            self.start = base_offset
        self._bases.append(base_offset)
        self._chunks.append(chunk)
        self._budget.add(chunk, size + CHUNK_OVERHEAD)

    def followed(self) -> None:
        """Take note that somebody has read all there is."""
        self._unread = 0

    def read(
        self, offset: int, max_bytes: int, limit: int, *, at_least_one: bool = True
    ) -> list[memoryview]:
        """Return whole batches from the one that contains `offset` on, with base below `limit`."""
        self._unread = 0
        views: list[memoryview] = []
        number = bisect_right(self._bases, offset, self._first) - 1
        room = max_bytes
        while number < len(self._chunks):
            chunk = self._chunks[number]
            data = chunk.data
            assert data is not None
            start, end = 0, len(data)
            if offset > chunk.base_offset or chunk.next_offset > limit or end > room:
                start, end = _part(chunk, offset, limit, room, at_least_one and not views)
            if start == end:
                break
            views.append(data[start:end])
            room -= end - start
            if end < len(data):
                break
            number += 1
        # Sending very many small pieces costs more than copying them together.
        return views if len(views) <= _VIEWS_MAX else [memoryview(b"".join(views))]

    def drop_oldest(self) -> None:
        """Forget the oldest chunk."""
        chunk = self._chunks[self._first]
        assert chunk.data is not None
        size, chunk.data = len(chunk.data), None
        self._first += 1
        if self._first == len(self._chunks):
            self._bases.clear()
            self._chunks.clear()
            self._first = 0
            self.start = NOTHING
        else:
            self.start = self._bases[self._first]
            if self._first > 64 and self._first > len(self._chunks) // 2:
                del self._bases[: self._first]
                del self._chunks[: self._first]
                self._first = 0
        self._budget.release(size + CHUNK_OVERHEAD)

    def expire(self, age_ms: int) -> None:
        """Forget what was added longer ago than `age_ms`."""
        oldest_s = self._budget.clock.monotonic_s() - age_ms / 1000
        while self._chunks and self._chunks[self._first].added_s < oldest_s:
            self.drop_oldest()

    def clear(self) -> None:
        """Forget everything."""
        while self._chunks:
            self.drop_oldest()


def _part(chunk: Chunk, offset: int, limit: int, room: int, at_least_one: bool) -> tuple[int, int]:
    """Return where the batches that a reader may have start and end within the chunk."""
    start = end = 0
    for position, after, base, following in chunk.batches():
        if following <= offset:
            continue
        if start == end:
            start = end = position
        too_large = after - start > room and not (at_least_one and start == end)
        if base >= limit or too_large:
            break
        end = after
    return start, end

"""Pieces of one log's files in memory, for those who are about to ask for them.

A reader that goes on where it stopped finds its next piece read and checked, while it was taking
the one before; it is not kept then, so that the memory is used again while it lies in the
processor's cache. Where several read the same one soon after the other, the first reads it for all
of them. The memory is what the logs' tails leave (`tail.Spare`).
"""

import math

from chordmq.storage.segment import Piece
from chordmq.storage.tail import CHUNK_OVERHEAD, Budget, Chunk

AGE_S = 2.0
"""How long a piece is kept for those who do not come."""
SHARED_S = 5.0
"""How long a log counts as read by several after two have read the same."""
ASKS_MAX = 16
"""How many reads are remembered: about as many as memory would have pieces of."""

Ask = tuple[int, int]
"""The offset that a reader wants, and the bytes that it has room for."""


class Ahead:
    """What is kept of one log, by who would ask for it."""

    __slots__ = ("_asks", "_budget", "_chunks", "_shared_s")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._chunks: dict[Ask, Chunk] = {}
        self._asks: dict[Ask, float] = {}
        """What readers have asked for last, and when."""
        self._shared_s = -math.inf

    def __contains__(self, ask: Ask) -> bool:
        return ask in self._chunks

    def put(self, ask: Ask, piece: Piece) -> None:
        """Keep what a reader would get, unless it is kept already or larger than all memory.

        A view that keeps a much larger buffer alive is copied, so that the budget tells the truth.
        """
        data = piece.data
        if ask in self._chunks or not self.has_room(len(data)):
            return
        if 2 * len(data) < memoryview(data.obj).nbytes:
            data = memoryview(bytes(data))
        chunk = Chunk(self, ask[0], piece.next_offset, data, self._budget.clock.monotonic_s())
        self._chunks[ask] = chunk
        self._budget.add(chunk, len(data) + CHUNK_OVERHEAD)

    def has_room(self, size: int) -> bool:
        """Return whether a piece of such a size could be kept."""
        return size + CHUNK_OVERHEAD <= self._budget.limit

    def take(self, ask: Ask, limit: int) -> tuple[memoryview, int] | None:
        """Return what a reader gets who may have what lies before `limit`, and where it ends."""
        now_s = self._budget.clock.monotonic_s()
        if now_s - self._asks.pop(ask, -math.inf) < SHARED_S:
            self._shared_s = now_s
        self._asks[ask] = now_s
        if len(self._asks) > ASKS_MAX:
            del self._asks[next(iter(self._asks))]
        chunk = self._chunks.get(ask)
        if chunk is None or chunk.next_offset > limit:
            return None
        data = chunk.data
        assert data is not None, "what is dropped is not found"
        if not self.is_shared:
            self._drop(ask)
        return data, chunk.next_offset

    @property
    def is_shared(self) -> bool:
        """Return whether several read the same, so that what one has read is kept for others."""
        return self._budget.clock.monotonic_s() - self._shared_s < SHARED_S

    def drop_oldest(self) -> None:
        """Forget the piece that was put first."""
        self._drop(next(iter(self._chunks)))

    def expire(self) -> None:
        """Forget what nobody has come for."""
        oldest_s = self._budget.clock.monotonic_s() - AGE_S
        while self._chunks and next(iter(self._chunks.values())).added_s < oldest_s:
            self.drop_oldest()

    def clear(self) -> None:
        """Forget everything."""
        while self._chunks:
            self.drop_oldest()
        self._asks.clear()

    def _drop(self, ask: Ask) -> None:
        chunk = self._chunks.pop(ask)
        assert chunk.data is not None, "it is dropped once"
        size, chunk.data = len(chunk.data), None
        self._budget.release(size + CHUNK_OVERHEAD)

"""Records of partitions that other nodes hold, kept here a while for those who read them."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from operator import attrgetter

from chordmq.codecs.peer.reading import Aborted
from chordmq.records.batch import walk

BYTES_MAX = 32 * 1024 * 1024
"""Of all partitions together; the chunk not read for longest goes first."""
OVERHEAD = 1024
"""Bytes that a chunk takes besides its records, roughly."""


class Chunk:
    """Whole batches in a row, from the one with the offset `start` on."""

    __slots__ = ("_bounds", "_data", "_ends", "aborted", "next", "start")

    def __init__(self, start: int, data: memoryview, aborted: Sequence[Aborted] = ()) -> None:
        self.start = start
        self.aborted = aborted
        self._data = data
        batches = list(walk(data))
        self._bounds = [*(position for position, _ in batches), len(data)]
        """Where each batch begins, and where the last one ends."""
        self._ends = [header.next_offset for _, header in batches]
        self.next = self._ends[-1] if batches else start
        """The offset after its last record."""

    @property
    def size(self) -> int:
        """Return how many bytes it keeps."""
        return len(self._data) + OVERHEAD

    def read(self, offset: int, bytes_max: int) -> tuple[memoryview, int]:
        """Return whole batches from the one that holds the offset on, and the offset after them.

        It is one batch at least.
        """
        first = bisect_right(self._ends, offset)
        begin = self._bounds[first]
        last = max(bisect_right(self._bounds, begin + bytes_max) - 1, first + 1)
        return self._data[begin : self._bounds[last]], self._ends[last - 1]


class Chunks:
    """The chunks of all partitions, up to a bound."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[Chunk, object] = OrderedDict()
        """With their owners, the one that was read last at the end."""
        self._owned: dict[object, list[Chunk]] = {}
        """By where they start; they may overlap."""
        self.size = 0

    def add(self, owner: object, chunk: Chunk) -> None:
        """Keep a chunk; others may have to go for it."""
        chunks = self._owned.setdefault(owner, [])
        chunks.insert(bisect_right(chunks, chunk.start, key=_start), chunk)
        self._kept[chunk] = owner
        self.size += chunk.size
        while self.size > self._bytes_max and len(self._kept) > 1:
            self._drop(*self._kept.popitem(last=False))

    def find(self, owner: object, offset: int) -> Chunk | None:
        """Return a chunk with what follows an offset, if there is one."""
        chunks = self._owned.get(owner, ())
        number = bisect_right(chunks, offset, key=_start) - 1
        if number < 0 or offset >= chunks[number].next:
            return None
        self._kept.move_to_end(chunks[number])
        return chunks[number]

    def forget(self, owner: object) -> None:
        """Let go of all chunks of a partition."""
        for chunk in self._owned.pop(owner, ()):
            del self._kept[chunk]
            self.size -= chunk.size

    def _drop(self, chunk: Chunk, owner: object) -> None:
        self.size -= chunk.size
        chunks = self._owned[owner]
        chunks.remove(chunk)
        if not chunks:
            del self._owned[owner]


_start = attrgetter("start")

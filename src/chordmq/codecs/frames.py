"""Cuts a byte stream into length-prefixed frames.

All connections share one receive buffer: a connection owns memory only while a frame of it is half
received, and that memory grows with what has really arrived, not with what the peer announced.
"""

import struct

from chordmq.errors import DecodeError

PREFIX_SIZE = 4
SHARED_SIZE = 512 * 1024
FIRST_SIZE_MAX = 1024 * 1024

_PREFIX = struct.Struct(">i")
_shared = memoryview(bytearray(SHARED_SIZE))


class FrameReader:
    """Turns bytes into frames: `room()` says where to put them, `received(n)` how many came.

    The beginning of a frame at the end of a read is kept, and put before what the next read brings.
    A frame that is not whole then either, or is too large for that, gets memory of its own.
    """

    __slots__ = ("_begun", "_filled", "_frame", "_size", "frame_size_max")

    def __init__(self, frame_size_max: int) -> None:
        self.frame_size_max = frame_size_max
        self._begun = b""
        self._frame: bytearray | None = None
        self._size = 0
        self._filled = 0

    @property
    def held(self) -> int:
        """Return the bytes of memory kept for a frame that has not arrived whole."""
        return len(self._begun) if self._frame is None else len(self._frame)

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return bool(self._begun) or self._frame is not None

    def room(self) -> memoryview:
        """Return the buffer for the next bytes of the connection."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return _shared[len(self._begun) :] if self._begun else _shared

    def lone(self, count: int) -> memoryview | None:
        """Return the one frame that `count` bytes put into `room()` are, lent; None if not so."""
        if self._frame is not None or self._begun or count < PREFIX_SIZE:
            return None
        size = count - PREFIX_SIZE
        is_one = _PREFIX.unpack_from(_shared)[0] == size <= self.frame_size_max
        return _shared[PREFIX_SIZE:count] if is_one else None

    def received(self, count: int) -> list[memoryview]:
        """Take note of `count` bytes put into `room()`; return the frames they complete."""
        return [own(frame) for frame in self.lent(count)]

    def lent(self, count: int) -> list[memoryview]:
        """Do the same, but leave the frames where they are, in the buffer that all share.

        Whoever has not done with one when the next bytes are received makes it its `own`.
        """
        if self._frame is not None:
            return self._received_frame(count)
        begun, self._begun = self._begun, b""
        if begun:
            _shared[: len(begun)] = begun
        return self._cut(len(begun) + count, was_begun=len(begun) >= PREFIX_SIZE)

    def _received_frame(self, count: int) -> list[memoryview]:
        assert self._frame is not None
        self._filled += count
        if self._filled == self._size:
            frame, self._frame = self._frame, None
            return [memoryview(frame)]
        if self._filled == len(self._frame):
            grown = bytearray(min(self._size, 2 * len(self._frame)))
            grown[: self._filled] = self._frame
            self._frame = grown
        return []

    def _cut(self, count: int, *, was_begun: bool) -> list[memoryview]:
        """Return the frames in the shared buffer, and keep what is left of it."""
        frames: list[memoryview] = []
        position, limit = 0, self.frame_size_max
        while count - position >= PREFIX_SIZE:
            (size,) = _PREFIX.unpack_from(_shared, position)
            if not 0 <= size <= limit:
                raise DecodeError(f"frame of {size} bytes; the limit is {limit}")
            start = position + PREFIX_SIZE
            end = start + size
            if end > count:
                if (was_begun and not position) or end - position > SHARED_SIZE:
                    self._begin(size, _shared[start:count])
                    return frames
                break
            frames.append(_shared[start:end])
            position = end
        if position < count:
            self._begun = bytes(_shared[position:count])
        return frames

    def _begin(self, size: int, data: memoryview) -> None:
        self._size = size
        self._filled = len(data)
        self._frame = bytearray(min(size, FIRST_SIZE_MAX))
        self._frame[: len(data)] = data


def own(data: memoryview) -> memoryview:
    """Return the bytes of a frame where nobody else receives any."""
    return memoryview(bytearray(data)) if data.obj is _shared.obj else data


class SmallFrameReader:
    """Cuts many small frames out of each read, every one as bytes of its own.

    A frame begins with a head whose last four bytes say how many follow it. Same use as
    `FrameReader`, which is for frames that are kept as they came.
    """

    __slots__ = ("_head_size", "_needed", "_rest", "_skipped", "frame_size_max")

    def __init__(self, frame_size_max: int, head_size: int = PREFIX_SIZE) -> None:
        """Read frames with such a head, which is part of the frame unless it is the size only."""
        self.frame_size_max = frame_size_max
        self._head_size = head_size
        self._skipped = PREFIX_SIZE if head_size == PREFIX_SIZE else 0
        self._rest = bytearray()
        self._needed = 0

    @property
    def held(self) -> int:
        """Return the bytes of memory kept for a frame that has not arrived whole."""
        return len(self._rest)

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return bool(self._rest)

    def room(self) -> memoryview:
        """Return the buffer for the next bytes of the connection."""
        return _shared

    def received(self, count: int) -> list[bytes]:
        """Take note of `count` bytes put into `room()`; return the frames they complete."""
        if not self._rest:
            return self._cut(bytes(_shared[:count]))
        self._rest += _shared[:count]
        return self._cut(bytes(self._rest)) if len(self._rest) >= self._needed else []

    def _cut(self, data: bytes) -> list[bytes]:
        frames = []
        head_size, skipped, limit = self._head_size, self._skipped, self.frame_size_max
        position, end = 0, len(data)
        self._needed = head_size
        while end - position >= head_size:
            (size,) = _PREFIX.unpack_from(data, position + head_size - PREFIX_SIZE)
            if not 0 <= size <= limit:
                raise DecodeError(f"frame of {size} bytes; the limit is {limit}")
            stop = position + head_size + size
            if stop > end:
                self._needed = stop - position
                break
            frames.append(data[position + skipped : stop])
            position = stop
        self._rest = bytearray(data[position:])
        return frames

"""Follows the frames of Cap'n Proto's stream format without keeping their bytes.

A frame is the number of its segments less one and each segment's size in words, as 32-bit numbers,
padded to a whole word; then the segments.
"""

import struct

from chordmq.errors import DecodeError

SEGMENTS_MAX = 512
WORD = 8
COUNT = struct.Struct("<I")


class Framing:
    """Where in its frames a stream is; a frame that is too large is refused by its first bytes."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.held = 0
        """Bytes of the frame that has begun and not ended."""
        self._head = bytearray()
        self._left = 0

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return self.held > 0

    def receive(self, data: bytes) -> None:
        """Take note of bytes; raise DecodeError if they cannot be frames, or too large ones."""
        position, end = 0, len(data)
        while position < end:
            if self._left:
                step = min(self._left, end - position)
                self._left -= step
                position += step
                self.held = self.held + step if self._left else 0
            else:
                position = self._read_head(data, position)

    def _read_head(self, data: bytes, position: int) -> int:
        """Read on in a frame's head, and return where the bytes after it are."""
        while missing := self._head_size() - len(self._head):
            taken = data[position : position + missing]
            if not taken:
                return position
            self._head += taken
            self.held += len(taken)
            position += len(taken)
        self._begin()
        return position

    def _head_size(self) -> int:
        """Return how many bytes the head has, as far as that is known."""
        if len(self._head) < WORD:
            return WORD
        (last,) = COUNT.unpack_from(self._head)
        if last >= SEGMENTS_MAX:
            raise DecodeError(f"a frame of {last + 1} segments is not Cap'n Proto")
        size: int = COUNT.size * (last + 2)
        return size + -size % WORD

    def _begin(self) -> None:
        (last,) = COUNT.unpack_from(self._head)
        sizes = struct.unpack_from(f"<{last + 1}I", self._head, COUNT.size)
        self._left = sum(sizes) * WORD
        self._head.clear()
        if self._left > self.size_max:
            raise DecodeError(f"a frame of {self._left} bytes is over {self.size_max}")
        if not self._left:
            self.held = 0

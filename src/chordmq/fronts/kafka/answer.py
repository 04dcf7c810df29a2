"""The places that answers have in the order of their connection."""

from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.header import RequestHeader

Buffers = list[Buffer]


class Answer:
    """The place of one answer in the order of the connection; filled when it is ready."""

    __slots__ = ("buffers", "head", "header", "is_ready")

    def __init__(self, header: RequestHeader, head: bytes | None) -> None:
        self.header = header
        self.head = head
        """What stands between the size and the buffers, or None if the buffers begin with both."""
        self.buffers: Buffers | None = None
        self.is_ready = False

    @property
    def has_records(self) -> bool:
        """Return whether it holds what was read of the log, which may be much."""
        return self.buffers is not None and len(self.buffers) > 1

"""The places that answers have in the order of their connection."""

import math
import struct

from chordmq.codecs.kafka.fetch import Buffer
from chordmq.codecs.kafka.header import RequestHeader, response_head
from chordmq.codecs.kafka.throttle import stamp
from chordmq.fronts.kafka.sasl_session import SASL_AUTHENTICATE

Buffers = list[Buffer]

BARE = RequestHeader(SASL_AUTHENTICATE, 0, 0, None, 0)
"""Stands for the request that a bare SASL message does not have."""

_SIZE = struct.Struct(">i")


class Answer:
    """The place of one answer in the order of the connection; filled when it is ready."""

    __slots__ = ("buffers", "head", "header", "is_ready")

    def __init__(self, header: RequestHeader) -> None:
        self.header = header
        self.head: bytes | None = b""
        """What stands between the size and the buffers, or None if the buffers begin with both."""
        if header is not BARE:
            self.head = response_head(header.correlation_id, header.api_key, header.api_version)
        self.buffers: Buffers | None = None
        self.is_ready = False

    @property
    def has_records(self) -> bool:
        """Return whether it holds what was read of the log, which may be much."""
        return self.buffers is not None and len(self.buffers) > 1

    def tell_to_wait(self, wait_s: float) -> None:
        """Let the answer say for how long the client is to send nothing."""
        if self.buffers and self.header is not BARE:
            header = self.header
            stamp(self.buffers, header.api_key, header.api_version, math.ceil(wait_s * 1000))


def take_ready(answers: list[Answer]) -> Buffers:
    """Remove the answers up to the first that is not ready; return what is to be sent for them."""
    out: Buffers = []
    while answers and answers[0].is_ready:
        place = answers.pop(0)
        if place.buffers is not None:
            if place.head is not None:
                size = len(place.head) + sum(map(len, place.buffers))
                out.append(_SIZE.pack(size) + place.head)
            out.extend(place.buffers)
    return out

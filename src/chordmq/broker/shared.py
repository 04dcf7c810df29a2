"""What all partitions of a node share, and what each says of a batch that it took."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from chordmq.broker.decoded import DecodedBatches, New, one_by_one
from chordmq.broker.flusher import Flusher
from chordmq.broker.payloads import Payloads
from chordmq.broker.read_ahead import ReadAhead
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError
from chordmq.logs import get_logger
from chordmq.records.record import NewRecord, Record

if TYPE_CHECKING:
    from chordmq.broker.absent import Reads
    from chordmq.broker.partition import Partition
    from chordmq.broker.replica import Replica

logger = get_logger(__name__)

REPORT_INTERVAL_S = 10.0


class Appended(NamedTuple):
    """Where a batch came to lie."""

    base_offset: int
    next_offset: int
    append_time_ms: int
    """The broker's time when the topic uses it, else -1."""
    start_offset: int


@dataclass(slots=True)
class Shared:
    """What all partitions of a node share."""

    flusher: Flusher
    clock: Clock
    full: str = ""
    """Why writes are refused, or empty; set when the disk is almost full. Reads go on."""
    intercept: Callable[[str, memoryview], memoryview] | None = None
    """Sees each batch before it is checked, and may change it; None where nobody wants to."""
    deliver: Callable[[str, int, list[Record]], list[Record]] | None = None
    """Sees records before they are handed out, and may change them; None as above."""
    copied: Callable[[str, memoryview], None] | None = None
    """Sees the batches that this node has got from their leaders; None as above."""
    payloads: Payloads | None = None
    """Encrypts for clients that cannot; None where nothing is to be encrypted."""
    read_ahead: ReadAhead = field(default_factory=ReadAhead)
    decoded: DecodedBatches = field(default_factory=DecodedBatches)
    new_replica: "Callable[[Partition], Replica] | None" = None
    """Makes a partition one of several copies; None where the node is alone."""
    forward: "Callable[[Partition, memoryview], asyncio.Future[int]] | None" = None
    """Hands a batch to the leader of its partition; None where the node is alone."""
    reads: "Reads | None" = None
    """Reads what other nodes hold; None where the node is alone."""
    reported_s: float = -math.inf

    @property
    def is_plain(self) -> bool:
        """Return whether records are handed out as they are stored."""
        return self.payloads is None and self.deliver is None

    def sealed(self, topic: str, records: Sequence[New]) -> Sequence[New] | Sequence[NewRecord]:
        """Return records as fronts that build batches are to store them."""
        if self.payloads is None:
            return records
        return self.payloads.seal(topic, one_by_one(records))

    def delivered(self, topic: str, index: int, records: list[Record]) -> list[Record]:
        """Return records as they are handed out by fronts that do not send batches as stored."""
        if self.payloads is not None:
            records = self.payloads.open(topic, records)
        return records if self.deliver is None else self.deliver(topic, index, records)

    def report(self, fault: ChordMQError) -> None:
        """Log that the disk refused a write, once in a while and not for every batch."""
        now_s = self.clock.monotonic_s()
        if now_s - self.reported_s >= REPORT_INTERVAL_S:
            self.reported_s = now_s
            logger.error("write failed", reason=str(fault))

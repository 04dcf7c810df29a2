"""Where pipes end in this node: one partition takes batches of other clusters, each once."""

import asyncio

from chordmq.broker.partition import Partition
from chordmq.errors import UnknownTopic
from chordmq.records.batch import BatchHeader, verify, walk
from chordmq.records.origin import cluster_of, is_copy, mark, origin_offset
from chordmq.records.record import build_compacted, read_records

STEP_BYTES = 256 * 1024
"""What is appended at once: a larger turn of the event loop would keep others waiting."""


class Inlet:
    """One partition; what it has of each origin is known from its own log.

    `own` is the number of this cluster: what it wrote first does not come back to it. Of one origin
    each way brings the offsets in their order, so whatever is below the next one is here already.
    """

    def __init__(self, partition: Partition, own: int) -> None:
        self.partition = partition
        self.topic, self.index = partition.topic, partition.index
        self._own = own
        self.records = 0
        """Records that were copied."""
        self.repeated = 0
        """Records that came and were here already."""

    @property
    def is_leader(self) -> bool:
        """Return whether this node may write to the partition."""
        return self.partition.is_leader and not self.partition.is_closed

    async def known(self) -> dict[int, int]:
        """Return what is here of each origin: the offset that comes next."""
        return dict(self.partition.producers.origins.next)

    async def take(self, source: int, body: bytearray) -> int:
        """Append what is new of a source's batches; return how many records are safe by it."""
        data = memoryview(body)
        count = end = size = 0
        for position, header in walk(data):
            batch = data[position : position + header.size]
            new = self._new(source, batch, header)
            if new is None:
                continue
            end = self.partition.append(new, is_copy=True).next_offset
            count += header.record_count
            size += len(new)
            if size >= STEP_BYTES:
                size = 0
                await asyncio.sleep(0)  # others have their turn
        await self._committed(end)
        self.records += count
        return count

    def _new(self, source: int, batch: memoryview, header: BatchHeader) -> memoryview | None:
        """Return a batch as it is to be stored here, or None if nothing of it is new."""
        if header.is_control or not header.record_count:
            return None
        origin, first = source, header.base_offset
        if is_copy(header):
            origin, first = header.producer_id, origin_offset(header)
        if cluster_of(origin) == self._own:
            return None
        verify(batch, 0, header)
        known = self.partition.producers.origins.next.get(origin, 0)
        if first < known:
            # Batches keep their bounds on every way, so that mostly all of it is known.
            behind = header.base_offset + known - first
            records = read_records(batch) if behind <= header.last_offset else []
            new = [record for record in records if record.offset >= behind]
            self.repeated += header.record_count - len(new)
            if not new:
                return None
            batch = memoryview(build_compacted(header, new))
            header.record_count = len(new)
        mark(batch, header.attributes, origin, first)
        return batch

    async def _committed(self, end: int) -> None:
        committed = self.partition.committed(end)
        if committed is None:
            return
        try:
            await committed
        except asyncio.CancelledError:
            if self.partition.is_closed:
                raise UnknownTopic(f"{self.partition.topic} was deleted meanwhile") from None
            raise

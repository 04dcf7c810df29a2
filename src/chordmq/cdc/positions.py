"""Where it is kept how far a source is: one record per step, written with the step's output."""

import msgspec

from chordmq.cdc.change import Position
from chordmq.cdc.errors import Malformed
from chordmq.client.cluster import Cluster
from chordmq.client.fetcher import Fetcher, FetchSettings
from chordmq.client.offsets import EARLIEST_TIME, LATEST_TIME, Start, offsets_for
from chordmq.records.record import NewRecord

PARTITION = 0
TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
WINDOW = 64
WAIT_S = 30.0

_DECODER = msgspec.json.Decoder(Position)


def record_of(source: str, position: Position, now_ms: int) -> NewRecord:
    """Return a position as it is stored."""
    return NewRecord(now_ms, source.encode(), msgspec.json.encode(position))


def read(value: bytes) -> Position:
    """Read a stored position, or raise Malformed."""
    try:
        return _DECODER.decode(value)
    except msgspec.MsgspecError as error:
        raise Malformed(f"the stored position cannot be read: {error}") from None


async def load(cluster: Cluster, topic: str) -> Position | None:
    """Return the newest committed position of a topic, or None if there is none.

    The topic belongs to one source, so that its newest record is near the end.
    """
    place = (topic, PARTITION)
    end = (await offsets_for(cluster, {place: LATEST_TIME}, committed=True))[place]
    start = (await offsets_for(cluster, {place: EARLIEST_TIME}, committed=True))[place]
    window = WINDOW
    while end > start:
        first = max(start, end - window)
        found = await _newest(cluster, topic, first, end)
        if found is not None:
            return read(found)
        if first == start:
            break
        window *= 8
    return None


async def _newest(cluster: Cluster, topic: str, first: int, end: int) -> bytes | None:
    """Return the value of the last record in a range; transactions leave gaps in it."""
    fetcher = Fetcher(cluster, FetchSettings(max_wait_s=0.1))
    fetcher.assign({(topic, PARTITION): Start(offset=first)})
    newest = None
    deadline_s = cluster.clock.monotonic_s() + WAIT_S
    while True:
        chunk = await fetcher.poll(0.2)
        if chunk is not None:
            newest = chunk.records[-1].value
        if fetcher.offset(topic, PARTITION) >= end:
            return newest
        if cluster.clock.monotonic_s() > deadline_s:
            raise TimeoutError(f"{topic} could not be read up to offset {end}")

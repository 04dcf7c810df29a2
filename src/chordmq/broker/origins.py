"""How far a partition has what other clusters wrote, and where in its log that lies."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from chordmq.dataclass import dataclass
from chordmq.records.batch import CONTROL, BatchHeader, walk
from chordmq.records.origin import NO_PRODUCER, origin_offset

if TYPE_CHECKING:
    from chordmq.broker.partition import Partition

READ_BYTES = 256 * 1024
"""Of a log that is looked at for one batch; each step of a search reads so much at most."""
Next = dict[int, int]
"""The offset that comes next, by origin: of everything before it, nothing is missing."""

_COUNT = struct.Struct(">qI")
_ORIGIN = struct.Struct(">qqq")


@dataclass(slots=True)
class Origins:
    """What the batches of one log say, taken together."""

    next: Next = field(default_factory=dict)
    """The offset that follows the last one that is here, by origin."""
    last: dict[int, int] = field(default_factory=dict)
    """The last offset here, by origin."""
    own_end: int = 0
    """The offset after the last batch that was first written here."""

    def replay(self, header: BatchHeader) -> None:
        """Take note of a batch that is in the log."""
        if header.producer_id < NO_PRODUCER:
            following = origin_offset(header) + header.last_offset_delta + 1
            self.next[header.producer_id] = following
            self.last[header.producer_id] = header.last_offset
        elif header.record_count and not header.attributes & CONTROL:
            self.own_end = header.base_offset + header.last_offset_delta + 1

    def snapshot(self) -> bytes:
        """Return the state as bytes: own end i64, count u32, each as id, next, last, all i64."""
        rows = [_ORIGIN.pack(one, self.next[one], self.last[one]) for one in self.next]
        return _COUNT.pack(self.own_end, len(rows)) + b"".join(rows)

    def restore(self, data: bytes, start: int) -> None:
        """Take over the state that stands at a place in a snapshot."""
        self.own_end, count = _COUNT.unpack_from(data, start)
        for number in range(count):
            place = start + _COUNT.size + number * _ORIGIN.size
            one, self.next[one], self.last[one] = _ORIGIN.unpack_from(data, place)


def known_at(partition: "Partition", own: int, offset: int) -> Next:
    """Return how far each origin is for whoever has all that lies before an offset here."""
    origins = partition.producers.origins
    known = dict(origins.next)
    known[own] = offset
    missing = {one for one, last in origins.last.items() if last >= offset}
    for header in _headers(partition, offset) if missing else ():
        if header.producer_id in missing:
            missing.discard(header.producer_id)
            known[header.producer_id] = origin_offset(header) + max(0, offset - header.base_offset)
        if not missing:
            break
    return known


def place_after(partition: "Partition", own: int, known: Mapping[int, int]) -> int:
    """Return an offset here before which nothing is new for whoever knows so much.

    What follows may still hold what is known; of each origin, nothing is passed over.
    """
    origins = partition.producers.origins
    log = partition.log
    places = [partition.stable_offset]
    if origins.own_end > known.get(own, 0):
        places.append(known.get(own, 0))
    for one, following in origins.next.items():
        wanted = known.get(one, 0)
        if following > wanted:
            places.append(_find(partition, one, wanted, origins.last[one]))
    return max(min(places), log.start_offset)


def _find(partition: "Partition", origin: int, wanted: int, last: int) -> int:
    """Return the offset of the first record of an origin at or after `wanted`.

    An origin's offsets grow with those of the log; where it is seldom, the answer is too low.
    """
    low, high = partition.log.start_offset, last
    while low < high:
        middle = (low + high) // 2
        found = _first(partition, origin, middle)
        if found is None:
            # Not near: the search goes on before it, so that nothing is passed over.
            high = middle
        elif origin_offset(found) + found.last_offset_delta < wanted:
            low = found.next_offset
        else:
            high = middle
    found = _first(partition, origin, low)
    if found is None:
        return low
    return max(low, found.base_offset + max(0, wanted - origin_offset(found)))


def _first(partition: "Partition", origin: int, offset: int) -> BatchHeader | None:
    for buffer in partition.log.read(offset, READ_BYTES):
        for _, header in walk(buffer):
            if header.producer_id == origin:
                return header
    return None


def _headers(partition: "Partition", offset: int) -> Iterator[BatchHeader]:
    offset = max(offset, partition.log.start_offset)
    while buffers := partition.log.read(offset, READ_BYTES):
        for buffer in buffers:
            for _, header in walk(buffer):
                offset = header.next_offset
                yield header

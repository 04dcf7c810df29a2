"""Reads a log from its files: by offset and by time, only what passes the checks."""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from chordmq.errors import CorruptBatch, StorageFailed
from chordmq.logs import get_logger
from chordmq.records.batch import BatchHeader
from chordmq.records.record import read_records
from chordmq.storage.ahead import Ahead
from chordmq.storage.cold import ColdRange
from chordmq.storage.epochs import Epochs
from chordmq.storage.index import START, BrokenIndex, Place
from chordmq.storage.segment import NO_TIMESTAMP, Piece, Segment, Wanted
from chordmq.storage.tail import Tail

CORRUPTIONS_MAX = 100
_LOOKUP_BYTES = 64 << 10
_READERS_REMEMBERED = 16
NOWHERE = -1
_base_offset = attrgetter("base_offset")

log = get_logger(__name__)


class Reader:
    """Reads the segments of one log, a list that the log itself keeps up to date."""

    def __init__(
        self, name: str, segments: list[Segment], epochs: Epochs, tail: Tail, ahead: Ahead
    ) -> None:
        self._name = name
        self._segments = segments
        self._epochs = epochs
        self._tail = tail
        self._resume: dict[int, tuple[Segment, Place]] = {}
        self.ahead = ahead
        self.stopped_at = NOWHERE
        """The offset at which the last read from files ended because its room did."""
        self.corruptions: dict[str, None] = {}
        """Damage met so far, each with its file, position and offset; the scrub adds to it."""

    def read(self, offset: int, room: int, limit: int) -> list[memoryview]:
        """Read whole batches from as many segments as there is room for, and go on in memory."""
        ask = offset, room
        ready = self.ahead.take(ask, limit)
        if ready is not None:
            data, self.stopped_at = ready
            return [data]
        views: list[memoryview] = []
        self.stopped_at = NOWHERE
        while offset < min(limit, self._tail.start) and (room > 0 or not views):
            try:
                segment, piece = self._read_segment(Wanted(offset, room, limit), not views)
            except CorruptBatch:
                if views:
                    return views
                raise
            if piece.data:
                views.append(piece.data)
                room -= len(piece.data)
            offset = piece.next_offset
            if piece.position < segment.size:
                self._remember(segment, piece)
                self.stopped_at = offset
                if len(views) == 1 and offset < limit and self.ahead.is_shared:
                    self.ahead.put(ask, piece)
                break
        if offset >= limit:  # all that may be read
            self._tail.followed()
        elif room > 0 and self._tail.start <= offset:
            views += self._tail.read(offset, room, limit, at_least_one=not views)
        return views

    def prepare(self, offset: int, room: int, limit: int) -> None:
        """Read what a reader gets who asks for this next, if that is all it will get."""
        if not (self.ahead.has_room(room) and self._begins_in_files(offset, limit)):
            return
        try:
            segment, piece = self._read_segment(Wanted(offset, room, limit), True)
        except (CorruptBatch, StorageFailed):
            return  # whoever asks is told
        if piece.next_offset < limit and piece.position < segment.size:
            self._remember(segment, piece)
            self.ahead.put((offset, room), piece)

    def _begins_in_files(self, offset: int, limit: int) -> bool:
        end = min(limit, self._tail.start, self._segments[-1].next_offset)
        return self._segments[0].base_offset <= offset < end

    def cold(self, offset: int, max_bytes: int) -> ColdRange | None:
        """Return what a read from an offset would wait for the disk for; None if for nothing."""
        if offset >= self._tail.start:
            return None
        segment, place = self._resume.get(offset) or (self._segment_of(offset), None)
        try:
            place = place or segment.place(max(offset, segment.base_offset))
        except BrokenIndex:
            return None  # the read mends it
        return segment.cold(place.position, max_bytes)

    def number_of(self, offset: int) -> int:
        """Return the number of the last segment that begins at or before the offset."""
        return bisect_right(self._segments, offset, key=_base_offset) - 1

    def forget_places(self) -> None:
        """Forget where readers stopped, because segments have changed."""
        self._resume.clear()
        self.ahead.clear()

    def scan(self, start: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield header and bytes of the batches that end after `start`.

        What is damaged is reported, and the rest of its segment left out.
        """
        for segment in list(self._segments):
            if segment.next_offset <= start:
                continue
            try:
                place = self._place(segment, start)
                for _, header, batch in segment.scan(place, epochs=self._epochs):
                    if header.next_offset > start:
                        yield header, batch
            except CorruptBatch as fault:
                self.report(fault)

    def offset_for_time(self, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record not earlier than the given time."""
        for segment in self._segments:
            if segment.max_timestamp < timestamp_ms or segment.next_offset <= start_offset:
                continue
            try:
                place = segment.place_of_time(timestamp_ms)
            except BrokenIndex:
                place = START
            for _, header, batch in segment.scan(
                place, chunk_bytes=_LOOKUP_BYTES, epochs=self._epochs
            ):
                if header.max_timestamp >= timestamp_ms and header.next_offset > start_offset:
                    for record in read_records(batch):
                        if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                            return record.offset, record.timestamp
        return None

    def latest_time(self) -> tuple[int, int]:
        """Return (offset, timestamp) of the latest record by time, or (-1, -1) if there is none."""
        segment = max(self._segments, key=attrgetter("max_timestamp"))
        if segment.max_timestamp == NO_TIMESTAMP:
            return -1, -1
        place = self._place(segment, segment.max_timestamp_offset)
        for _, header, batch in segment.scan(place, chunk_bytes=_LOOKUP_BYTES, epochs=self._epochs):
            if header.base_offset == segment.max_timestamp_offset:
                for record in read_records(batch):
                    if record.timestamp == header.max_timestamp:
                        return record.offset, record.timestamp
        return segment.next_offset - 1, segment.max_timestamp

    def report(self, fault: Exception) -> None:
        """Take note of damage, and log it the first time."""
        text = str(fault)
        if text not in self.corruptions and len(self.corruptions) < CORRUPTIONS_MAX:
            self.corruptions[text] = None
            log.error("corrupt batch is not delivered", partition=self._name, fault=text)

    def _read_segment(self, wanted: Wanted, at_least_one: bool) -> tuple[Segment, Piece]:
        """Read from one segment; if its index leads astray, make it anew and try once more."""
        segment, place = self._resume.get(wanted.offset) or (self._segment_of(wanted.offset), None)
        wanted = wanted._replace(offset=max(wanted.offset, segment.base_offset))
        try:
            place = place or segment.place(wanted.offset)
            return segment, segment.read(place, wanted, self._epochs, at_least_one=at_least_one)
        except (BrokenIndex, CorruptBatch) as fault:
            self._repair_index(segment, fault)
        try:
            place = segment.place(wanted.offset)
            return segment, segment.read(place, wanted, self._epochs, at_least_one=at_least_one)
        except CorruptBatch as fault:
            self.report(fault)
            raise

    def _repair_index(self, segment: Segment, fault: Exception) -> None:
        """Make a sealed segment's index anew; if the log itself is damaged, report and raise."""
        self._resume.clear()
        damage = fault
        if segment.index is None and not segment.index_rebuilt:
            try:
                segment.rebuild_index()
                return
            except CorruptBatch as found:
                damage = found
        self.report(damage)
        raise CorruptBatch(str(damage)) from fault

    def _segment_of(self, offset: int) -> Segment:
        number = self.number_of(offset)
        segment = self._segments[number]
        # Offsets may be missing between two segments, if a file was lost.
        return segment if offset < segment.next_offset else self._segments[number + 1]

    def _remember(self, segment: Segment, piece: Piece) -> None:
        """Keep where a reader stopped, so that its next read needs no look-up."""
        place = Place(piece.next_offset - segment.base_offset, piece.position)
        self._resume[piece.next_offset] = (segment, place)
        if len(self._resume) > _READERS_REMEMBERED:
            del self._resume[next(iter(self._resume))]

    def _place(self, segment: Segment, offset: int) -> Place:
        try:
            return segment.place(offset) if offset > segment.base_offset else START
        except BrokenIndex:
            return START

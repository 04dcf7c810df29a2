"""Random lives of a log, with crashes and torn tails, against a plain list."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chordmq.errors import OffsetOutOfRange
from chordmq.storage.flush import Flush, Share
from chordmq.storage.journal import Round
from chordmq.storage.log import LogSettings
from tests.storage.logs import (
    MEMORY,
    Disk,
    append,
    batch,
    crash,
    everything,
    headers_of,
    records_of,
)

SETTINGS = LogSettings(segment_bytes=1500, index_interval_bytes=200)
HALF_BYTES = 4_000
"""Of the journal: a few rounds fill it."""


class LogModel(RuleBasedStateMachine):
    """Does to a log and to a list the same things, and compares them."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="chordmq-model-", dir=MEMORY))
        self.disk = Disk(self.root, tail_bytes=1000)
        self.journal = self.disk.open_journal(HALF_BYTES)
        self.log = self.disk.log(SETTINGS)
        self.values: list[bytes] = []  # one per offset, from 0 on
        self.starts: list[int] = []  # base offsets of the batches
        self.written = 0
        self.flush: Flush | None = None
        self.epoch = 0
        self.durable = 0  # the offset up to which the disk has it all
        self.durable_then = 0  # and what it becomes when the round under way is written
        self.in_files_then = 0  # and what the next one becomes when the flush is synced
        self.in_files = 0  # the offset up to which the log's own files have it all
        self.share: Share | None = None
        self.round: Round | None = None

    def open(self) -> None:
        self.flush = self.share = self.round = None
        self.journal = self.disk.open_journal(HALF_BYTES)
        self.log = self.disk.log(SETTINGS)
        self.durable = self.in_files = self.log.end_offset

    def teardown(self) -> None:
        self.log.close()
        self.journal.close()
        self.disk.database.close()
        shutil.rmtree(self.root)

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=3), size=st.integers(8, 500))
    def append(self, counts: list[int], size: int) -> None:
        batches = []
        for count in counts:
            self.starts.append(len(self.values))
            new = [b"%08d" % (self.written + i) + b"." * (size - 8) for i in range(count)]
            self.written += count
            self.values += new
            batches.append(batch(*new))
        append(self.log, *batches, epoch=self.epoch)

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 3000))
    def read(self, share: float, max_bytes: int) -> None:
        offset = self.log.start_offset + int(
            share * (self.log.end_offset - self.log.start_offset + 0.5)
        )
        views = self.log.read(offset, max_bytes)
        if offset == self.log.end_offset:
            assert views == []
            return
        found = headers_of(views)
        assert found[0].base_offset <= offset < found[0].next_offset
        assert len(found) == 1 or sum(len(view) for view in views) <= max_bytes
        for record in records_of(views):
            assert record.value == self.values[record.offset]

    @rule(share=st.floats(0, 1))
    def read_below_a_limit(self, share: float) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        limit = start + int(share * (end - start))
        found = headers_of(self.log.read(start, 10_000, limit=limit))
        assert all(header.base_offset < limit for header in found)
        assert bool(found) == (start < limit)

    @precondition(lambda self: self.share is None and self.log.flush_size() is not None)
    @rule()
    def begin_share(self) -> None:
        """Begin a round of the journal; when it is full, its other half is next."""
        self.share = self.log.begin_share()
        if self.share is None:
            return
        self.round = self.journal.begin([self.share])
        if self.round is None:
            self.log.finish_share(self.share, 0)
            self.share = None
            if self.flush is not None:
                self.finish_flush()
            self.log.flush()
            self.journal.turn()
            self.durable = self.in_files = len(self.values)
        self.durable_then = len(self.values)

    @precondition(lambda self: self.share is not None)
    @rule()
    def finish_share(self) -> None:
        assert self.share is not None
        assert self.round is not None
        self.round.write()
        self.durable = max(self.durable, self.durable_then)
        self.log.finish_share(self.share, self.round.number)
        self.share = self.round = None

    @precondition(lambda self: self.flush is None and self.share is None)
    @rule(size=st.integers(8, 60), is_finished=st.booleans())
    def append_to_the_journal(self, size: int, is_finished: bool) -> None:
        """Have the last records in the journal alone, which random steps seldom bring about."""
        self.log.flush()
        self.wait_for_the_catalogue()
        self.durable = self.in_files = len(self.values)
        self.append([1], size)
        if self.log.flush_size() is not None:  # else it has begun a new segment
            self.begin_share()
            if self.share is not None and is_finished:
                self.finish_share()

    @precondition(lambda self: self.flush is None)
    @rule(is_whole=st.booleans())
    def begin_flush(self, is_whole: bool) -> None:
        """Begin to bring to the log's own files what may be in a round under way, too."""
        self.flush = self.log.begin_flush(is_whole=is_whole)
        self.in_files_then = len(self.values)

    @precondition(lambda self: self.flush is not None)
    @rule()
    def finish_flush(self) -> None:
        assert self.flush is not None
        self.flush.sync()
        self.in_files = self.in_files_then
        self.durable = max(self.durable, self.in_files)
        self.log.finish_flush(self.flush)
        self.flush = None

    @rule()
    def forget_memory(self) -> None:
        self.log._tail.clear()

    @rule(share=st.floats(0, 1))
    def delete_before(self, share: float) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        offset = start + int(share * (end - start + 0.5))
        self.log.delete_before(offset).result()
        assert self.log.start_offset == offset

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        offset = start + int(share * (end - start + 0.5))
        settles = offset < end and self.log.owes(self.journal.next_round)
        self.log.truncate(offset)
        if settles:  # for the sake of what only the journal had, all is flushed before the cut
            self.durable = self.in_files = len(self.values)
        self.flush = None if self.flush is None or self.flush.cancelled else self.flush
        if self.share is not None and self.share.cancelled:
            assert self.round is not None
            self.round.write()  # a thread has it, and does not know
            self.share = self.round = None
        while self.starts and len(self.values) > offset:
            del self.values[self.starts.pop() :]
        self.durable = min(self.durable, len(self.values))
        self.in_files = min(self.in_files, len(self.values))

    @rule()
    def another_of_this_name(self) -> None:
        """Delete the log; another gets its name, and nothing of what the journal has."""
        self.log.abandon().result()
        if self.round is not None:
            self.round.write()
        shutil.rmtree(self.log.directory)
        self.flush = self.share = self.round = None
        self.log = self.disk.log(SETTINGS)
        self.values, self.starts = [], []
        self.durable = self.in_files = 0

    @rule()
    def maintain(self) -> None:
        self.log.maintain()

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.open()
        assert self.log.recovered.bytes_scanned == 0

    @rule()
    def kill(self) -> None:
        crash(self.log)
        self.open()
        assert self.log.end_offset == len(self.values)

    @rule()
    def lose_the_database(self) -> None:
        crash(self.log)
        start = self.log.start_offset
        self.disk.database.close()
        for path in self.root.glob("meta.db*"):
            path.unlink()
        self.disk.open_database()
        self.open()
        assert self.log.start_offset <= start
        # Records below the old start may be back, as far as their segment was still there.
        self.log.delete_before(start).result()

    @rule(share=st.floats(0, 1), garbage=st.binary(max_size=80))
    def power_cut(self, share: float, garbage: bytes) -> None:
        """Of what was not flushed only a part is on disk, and perhaps bytes of something else.

        What was flushed to the journal is in the files of the log after the next start.
        """
        flushed = max(self.durable, self.log.start_offset)
        in_files = max(self.in_files, self.log.start_offset)
        crash(self.log)
        for segment in self.log.segments:
            kept = segment.size
            if segment.next_offset > in_files:
                floor = position_of(segment.path, segment.base_offset, in_files)
                kept = floor + int(share * (segment.size - floor))
            with segment.path.open("r+b") as file:
                file.truncate(kept)
                if kept < segment.size:
                    file.seek(kept)
                    file.write(garbage)
        self.open()
        assert self.log.end_offset >= flushed
        while len(self.values) > self.log.end_offset:
            del self.values[self.starts.pop() :]

    @invariant()
    def wait_for_the_catalogue(self) -> None:
        """Have what a log may do next not depend on how fast the catalogue is."""
        self.disk.catalogue.journal_rounds()

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.end_offset == len(self.values)
        assert self.log.flushed_offset <= self.durable
        assert self.log.size == sum(segment.size for segment in self.log.segments)
        with pytest.raises(OffsetOutOfRange):
            self.log.read(self.log.end_offset + 1, 1)

    @invariant()
    def records_agree(self) -> None:
        assert [(record.offset, record.value) for record in everything(self.log)] == list(
            enumerate(self.values)
        )[self.log.start_offset :]


def position_of(path: Path, base_offset: int, offset: int) -> int:
    """Return where the batch with this base offset begins in a segment file."""
    position, data = 0, path.read_bytes()
    for header in headers_of([memoryview(data)]):
        if header.base_offset >= offset:
            break
        position += header.size
    return position


TestLogModel = LogModel.TestCase
TestLogModel.__doc__ = "D2: D3: D5: a log is a list that survives crashes up to its last flush."
TestLogModel.settings = settings(
    max_examples=250,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

"""What is read of a log before it is asked for is what a reader would have read itself."""

from pathlib import Path

import pytest

from chordmq.clock import ManualClock
from chordmq.storage.ahead import AGE_S, SHARED_S
from chordmq.storage.log import Log
from chordmq.storage.segment import Segment
from tests.storage.logs import Disk, append, batch, disk, headers_of

ROOM = 600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def filled(opened: Disk, count: int = 60) -> Log:
    """Return a log with several segments that nobody has in memory."""
    log = opened.log()
    for number in range(count):
        append(log, batch(b"%03d" % number * 20))
    log._tail.clear()
    return log


def offsets(views: list[memoryview]) -> list[int]:
    return [header.base_offset for header in headers_of(views)]


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the positions that files are read from, from now on."""
    pread, positions = Segment._pread, list[int]()

    def counted(self: Segment, size: int, position: int) -> bytes:
        positions.append(position)
        return pread(self, size, position)

    monkeypatch.setattr(Segment, "_pread", counted)
    return positions


def test_a_reader_that_goes_on_reads_the_same_with_and_without(tmp_path: Path) -> None:
    """D3: over the borders of segments, up to the end."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        for is_prepared in (False, True):
            at, seen = 0, list[int]()
            while at < log.end_offset:
                if is_prepared:
                    log.reader.prepare(at, ROOM, log.end_offset)
                views = log.read(at, ROOM)
                seen += offsets(views)
                at = headers_of(views)[-1].next_offset
            assert seen == list(range(60))
        log.close()


def test_what_is_prepared_is_not_read_again_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: memory is for those who come next, not for those who have been there."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        log.reader.prepare(0, ROOM, log.end_offset)
        assert opened.tail.spare.bytes_used > 0
        reads = count_reads(monkeypatch)
        assert offsets(log.read(0, ROOM))[0] == 0
        assert reads == []
        assert opened.tail.spare.bytes_used == 0
        log.close()


def test_where_several_read_the_same_the_first_reads_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    """A2: eight consumers of one topic cost one reading of its files; a while later, none is."""
    with disk(tmp_path, clock=clock) as opened:
        log = filled(opened)
        first = log.read(0, ROOM)
        assert log.read(0, ROOM) == first  # from now on it is known that there are several
        at = headers_of(first)[-1].next_offset
        reads = count_reads(monkeypatch)
        found = [log.read(at, ROOM) for _ in range(8)]
        assert len(reads) == 1
        assert all(views == found[0] for views in found)
        clock.advance(int(1000 * SHARED_S) + 1)
        after = headers_of(found[0])[-1].next_offset
        log.read(after, ROOM)
        assert (after, ROOM) not in log.reader.ahead
        log.close()


def test_another_room_gets_its_own_answer(tmp_path: Path) -> None:
    """C6: who asks for more is not put off with what another asked for."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        log.reader.prepare(0, ROOM, log.end_offset)
        assert len(log.read(0, 4 * ROOM)[0]) > ROOM
        assert len(log.read(0, 1)[0]) < ROOM // 2
        log.close()


def test_nobody_gets_what_lies_beyond_its_limit(tmp_path: Path) -> None:
    """C3: whoever reads what is decided may be behind others."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        log.reader.prepare(0, ROOM, log.end_offset)
        assert offsets(log.read(0, ROOM, limit=2)) == [0, 1]
        log.close()


def test_a_piece_that_could_have_been_longer_is_not_kept(tmp_path: Path) -> None:
    """C6: what ends with its segment or with what is committed goes on by the time of the read."""
    with disk(tmp_path) as opened:
        log = filled(opened, count=3)
        log.reader.prepare(0, ROOM * 10, log.end_offset)
        log.reader.prepare(0, ROOM, 1)
        assert opened.tail.spare.bytes_used == 0
        log.close()


def test_what_was_cut_off_is_not_read_from_memory(tmp_path: Path) -> None:
    """A9: a follower that gives up records must not deliver them."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        log.reader.prepare(40, ROOM, log.end_offset)
        log.truncate(40)
        for _ in range(20):
            append(log, batch(b"another"))
        log._tail.clear()
        assert bytes(log.read(40, ROOM)[0]).count(b"another") > 0
        log.close()


def test_a_closed_log_gives_its_memory_back(tmp_path: Path) -> None:
    with disk(tmp_path) as opened:
        log = filled(opened)
        log.reader.prepare(0, ROOM, log.end_offset)
        log.close()
        assert opened.tail.spare.bytes_used == 0


def test_what_nobody_comes_for_is_dropped(tmp_path: Path, clock: ManualClock) -> None:
    """A6: a consumer that went away leaves nothing behind."""
    with disk(tmp_path, clock=clock) as opened:
        log = filled(opened)
        log.reader.prepare(0, ROOM, log.end_offset)
        log.maintain()
        assert opened.tail.spare.bytes_used > 0
        clock.advance(int(1000 * AGE_S) + 1)
        log.maintain()
        assert opened.tail.spare.bytes_used == 0
        log.close()


def test_memory_for_all_logs_is_bounded(tmp_path: Path) -> None:
    """A6: pieces and tails share one limit, and the oldest goes first."""
    with disk(tmp_path, tail_bytes=3000) as opened:
        log = filled(opened)
        for at in (0, 10, 20, 40):
            log.reader.prepare(at, ROOM, log.end_offset)
        assert 0 < opened.tail.spare.bytes_used <= 3000
        assert (0, ROOM) not in log.reader.ahead
        assert (40, ROOM) in log.reader.ahead
        append(log, batch(b"x" * 1500))
        assert opened.tail.spare.bytes_used <= 3000
        log.close()


def test_damage_is_found_before_it_is_kept(tmp_path: Path) -> None:
    """D4: and whoever asks is told."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        path = log.segments[0].path
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        log.reader.prepare(0, ROOM, log.end_offset)
        assert (0, ROOM) not in log.reader.ahead
        assert log.corruptions
        log.close()


def test_what_is_read_of_two_segments_is_not_kept_as_a_piece_of_the_first(tmp_path: Path) -> None:
    """D3: nobody gets a later segment's records for an earlier offset."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        at = log.segments[1].base_offset - 2
        for _ in range(3):  # the second time there are several who read
            assert offsets(log.read(at, ROOM))[:4] == [at, at + 1, at + 2, at + 3]
        log.close()


def test_what_ends_with_a_limit_is_not_kept_for_those_without(tmp_path: Path) -> None:
    """C3: whoever may read on does."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        for _ in range(2):
            assert offsets(log.read(0, ROOM, limit=2)) == [0, 1]
        assert len(offsets(log.read(0, ROOM))) > 2
        log.close()


def test_tails_come_before_what_is_read_ahead(tmp_path: Path) -> None:
    """A6: readers of old records do not push out what followers find in memory."""
    with disk(tmp_path, tail_bytes=4000) as opened:
        old = filled(opened)
        hot = opened.log(name="hot-0")
        append(hot, batch(b"hot"))
        at = 0
        while at < old.end_offset:
            old.reader.prepare(at, ROOM, old.end_offset)
            old.read(at, ROOM)
            views = old.read(at, ROOM)
            at = headers_of(views)[-1].next_offset
        assert hot.memory_start == 0
        for number in range(30):
            append(hot, batch(b"%d" % number * 50))
        assert opened.tail.spare.bytes_used <= 1000
        old.close()
        hot.close()


def test_a_piece_larger_than_all_memory_is_not_read_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: nor anything where there is no memory at all."""
    with disk(tmp_path, tail_bytes=ROOM) as opened:
        log = filled(opened)
        reads = count_reads(monkeypatch)
        log.reader.prepare(0, ROOM, log.end_offset)
        assert reads == []
        log.close()


def test_the_budget_counts_what_a_piece_really_holds(tmp_path: Path) -> None:
    """C11: a reader with little room reads more than it is given, which must not be kept."""
    with disk(tmp_path) as opened:
        log = filled(opened)
        for at in range(20):
            log.reader.prepare(at, 1, log.end_offset)
        chunks = log.reader.ahead._chunks.values()
        assert len(chunks) > 10
        held = sum(memoryview(one.data.obj).nbytes for one in chunks if one.data is not None)
        assert held <= 2 * opened.tail.spare.bytes_used
        log.close()


def test_who_asks_for_the_same_much_later_is_no_second_reader(
    tmp_path: Path, clock: ManualClock
) -> None:
    with disk(tmp_path, clock=clock) as opened:
        log = filled(opened)
        log.read(0, ROOM)
        clock.advance(int(1000 * SHARED_S) + 1)
        log.read(0, ROOM)
        assert opened.tail.spare.bytes_used == 0
        log.close()

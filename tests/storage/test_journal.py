"""The journal: whole rounds come back and nothing else, and logs have after a start what it had."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import DiskFull
from chordmq.storage import journal
from chordmq.storage.journal import Journal, Part, encoded, rounds
from chordmq.storage.log import Log
from tests.storage.journals import (
    HALF_BYTES,
    append_to_journal,
    journal_of,
    known_log,
    lose_tail,
    values,
    write_round,
)
from tests.storage.logs import Disk, append, batch, crash, disk

KEY = b"no other"
NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}-[0-9]{1,3}", fullmatch=True)
POSITIONS = st.integers(0, 2**63 - 1)
PARTS = st.lists(st.builds(Part, NAMES, POSITIONS, POSITIONS, st.binary(max_size=60)), max_size=4)
CONTENT = st.tuples(st.integers(1, 2**40), st.lists(PARTS, max_size=5))

Rounds = list[tuple[int, list[Part]]]


@pytest.fixture
def d(tmp_path: Path) -> Iterator[Disk]:
    """Give a data directory whose journal is open."""
    with disk(tmp_path) as opened:
        opened.open_journal(HALF_BYTES)
        yield opened


def numbered(content: tuple[int, list[list[Part]]]) -> tuple[Rounds, list[bytes]]:
    """Return rounds that follow each other, and how each is written."""
    first, parts = content
    written = list(enumerate(parts, first))
    return written, [encoded(KEY, *one) for one in written]


def test_a_round_has_the_bytes_that_the_documents_say() -> None:
    """D5: docs/data_dir.md, section journal.0 and journal.1."""
    made = encoded(KEY, 7, [Part("t-0", 0, 61, b"abc"), Part("u-12", 256, 0, b"de")])
    assert made == (
        b"CMQJ"
        + bytes.fromhex("05105923")
        + b"no other"
        + bytes.fromhex("00000038" + "0000000000000007" + "00000002")
        + bytes.fromhex("0003" + "0000000000000000" + "000000000000003d" + "00000003")
        + b"t-0"
        + bytes.fromhex("0004" + "0000000000000100" + "0000000000000000" + "00000002")
        + b"u-12"
        + b"abcde"
    )


@given(content=CONTENT, zeros=st.integers(0, 100))
def test_rounds_come_back_as_they_were_written(
    content: tuple[int, list[list[Part]]], zeros: int
) -> None:
    """D5: any rounds, with the zeros behind them of a file that is not full."""
    written, data = numbered(content)
    assert list(rounds(b"".join(data) + bytes(zeros))) == written


@given(content=CONTENT, share=st.floats(0, 1))
def test_a_cut_leaves_the_whole_rounds_before_it(
    content: tuple[int, list[list[Part]]], share: float
) -> None:
    """D5: a write that a power cut has torn is no round."""
    written, data = numbered(content)
    size = int(share * sum(map(len, data)))
    whole = sum(end <= size for end in accumulate(map(len, data)))
    assert list(rounds(b"".join(data)[:size])) == written[:whole]


@given(content=CONTENT, share=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_flipped_byte_leaves_the_rounds_before_it(
    content: tuple[int, list[list[Part]]], share: float, flip: int
) -> None:
    """D5: nothing of a damaged round is believed, nor what comes behind it."""
    written, data = numbered(content)
    damaged = bytearray(b"".join(data))
    if damaged:
        damaged[position := int(share * len(damaged))] ^= flip
        whole = sum(end <= position for end in accumulate(map(len, data)))
        assert list(rounds(bytes(damaged))) == written[:whole]


@given(
    content=CONTENT,
    garbage=st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"CMQJ" + rest),
)
def test_garbage_is_no_round_and_raises_nothing(
    content: tuple[int, list[list[Part]]], garbage: bytes
) -> None:
    """D5: alone, and behind rounds."""
    written, data = numbered(content)
    assert list(rounds(garbage)) == []
    assert list(rounds(b"".join(data) + garbage)) == written


def test_old_rounds_behind_newer_ones_do_not_come_back(d: Disk) -> None:
    """D5: a file that is written again has its old rounds, where no new one lies yet."""
    log, opened = known_log(d), journal_of(d)
    for _ in range(3):
        append_to_journal(d, log, b"old")
    log.flush()
    opened.turn()
    append_to_journal(d, log, b"mid")
    log.flush()
    opened.turn()
    append_to_journal(d, log, b"new")
    found = list(rounds((d.root / "journal.0").read_bytes()))
    assert [number for number, _ in found] == [5]
    assert b"new" in found[0][1][0].data


def test_what_a_client_has_written_is_never_taken_for_a_round(d: Disk) -> None:
    """D5: a record holds what would be the next round, in a place where that would begin."""
    victim, log, opened = known_log(d, "v-0"), known_log(d), journal_of(d)
    forged = encoded(KEY, 4, [Part("v-0", 0, 0, b"of another client")])
    append_to_journal(d, log, b"." * 200 + forged)
    place = (d.root / "journal.0").read_bytes().index(forged)
    log.flush()
    opened.turn()
    append_to_journal(d, log, b"two")
    log.flush()
    opened.turn()
    around = len(encoded(KEY, 3, [Part("t-0", 0, 0, bytes(batch(b"." * 100)))])) - 100
    append_to_journal(d, log, b"." * (place - around))
    third = next(rounds((d.root / "journal.0").read_bytes()))
    assert (third[0], len(encoded(KEY, *third))) == (3, place)
    crash(victim)
    crash(log)
    d.open_journal(HALF_BYTES)
    assert values(d.log(name="v-0")) == [b"in the files"]


def test_what_only_the_journal_has_is_in_the_log_after_a_power_cut(d: Disk) -> None:
    """D5: a flush is a flush, in whichever file it went."""
    logs = [known_log(d, f"t-{index}") for index in range(3)]
    for number in range(4):
        for log in logs:
            append(log, batch(b"%d" % number))
        write_round(d, *logs)
    for log in logs:
        lose_tail(log)
    d.open_journal(HALF_BYTES)
    for log in logs:
        assert values(d.log(name=log.name)) == [b"in the files", b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("garbage", [b"\0" * 500, b"something else", b"CMQJ" * 200])
def test_other_bytes_in_the_place_of_flushed_ones_are_mended(d: Disk, garbage: bytes) -> None:
    """D5: a file system may give a file its size before its bytes."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    append_to_journal(d, log, b"two")
    lose_tail(log, garbage)
    d.open_journal(HALF_BYTES)
    assert values(d.log()) == [b"in the files", b"one", b"two"]


def test_rounds_of_both_files_are_redone(d: Disk) -> None:
    """D5: whichever of the two was written first."""
    log, opened = known_log(d), journal_of(d)
    opened.turn()
    append_to_journal(d, log, b"first")
    opened.turn()
    append_to_journal(d, log, b"second")
    lose_tail(log)
    d.open_journal(HALF_BYTES)
    assert values(d.log()) == [b"in the files", b"first", b"second"]


def test_a_start_that_is_cut_off_is_made_good_by_the_next(d: Disk, tmp_path: Path) -> None:
    """D5: redone twice is the same as once."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    lose_tail(log)
    path = log.segments[-1].path
    kept = {name: (tmp_path / name).read_bytes() for name in journal.NAMES}
    journal.opened(tmp_path, tmp_path, d.catalogue)
    once = path.read_bytes()
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    journal.opened(tmp_path, tmp_path, d.catalogue)
    assert path.read_bytes() == once
    assert values(d.log()) == [b"in the files", b"one"]


def test_what_a_disk_refused_is_written_again_although_it_can_be_read(
    d: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: the kernel keeps a page that it could not write as if it had, until it needs room."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    path = log.segments[-1].path
    crash(log)
    on_disk = bytearray(path.read_bytes()[: len(batch(b"in the files"))])
    original = os.pwrite

    def pwrite(fd: int, data: memoryview, position: int) -> int:
        on_disk[position : position + len(data)] = data
        return original(fd, data, position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        journal.opened(d.root, d.root, d.catalogue)
    path.write_bytes(on_disk)  # the machine has forgotten what was in memory only
    assert values(d.log()) == [b"in the files", b"one"]


def test_rounds_of_a_log_that_nobody_knows_are_not_redone(d: Disk) -> None:
    """D5: its files may be those of another log by now."""
    log = known_log(d)
    append_to_journal(d, log, b"of a deleted topic")
    path = log.segments[-1].path
    log.abandon().result()
    path.write_bytes(b"")
    d.open_journal(HALF_BYTES)
    assert path.read_bytes() == b""


def test_a_namesake_gets_nothing_of_the_log_before_it(d: Disk) -> None:
    """D5: a topic is deleted and made again, all within one life of the journal."""
    log = known_log(d)
    append_to_journal(d, log, b"of the first")
    log.abandon().result()
    shutil.rmtree(log.directory)
    log = known_log(d)
    append_to_journal(d, log, b"of the second")
    lose_tail(log)
    d.open_journal(HALF_BYTES)
    assert values(d.log()) == [b"in the files", b"of the second"]


def _checkpoint(log: Log) -> None:
    log.save()


def _cut(log: Log) -> None:
    log.truncate(1)


def _restart(log: Log) -> None:
    log.restart(0)


@pytest.mark.parametrize("change", [_checkpoint, _cut, _restart])
def test_rounds_before_those_that_count_are_not_redone(
    d: Disk, change: Callable[[Log], None]
) -> None:
    """D5: a checkpoint, a cut and a new beginning all void what the journal has."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    path = log.segments[-1].path
    change(log)
    d.catalogue.journal_rounds()
    crash(log)
    path.write_bytes(b"")
    d.open_journal(HALF_BYTES)
    assert path.read_bytes() == b""


def test_a_cut_keeps_what_only_the_journal_had_before_it(
    d: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: the records before the cut were flushed, and a power cut does not take them."""
    log = known_log(d)
    append_to_journal(d, log, b"kept")
    append_to_journal(d, log, b"cut off")
    synced: list[int] = []
    original = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        original(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fdatasync)
        log.truncate(2)
    assert log.segments[-1].path.stat().st_ino in synced
    append(log, batch(b"anew"))
    crash(log)
    d.open_journal(HALF_BYTES)
    assert values(d.log()) == [b"in the files", b"kept", b"anew"]


def test_a_segment_that_retention_took_is_passed_over(d: Disk) -> None:
    """D5: the journal brings nothing back that was deleted."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    path = log.segments[0].path
    log.delete_before(2).result()
    crash(log)
    d.open_journal(HALF_BYTES)
    assert not path.exists()
    log = d.log()
    assert (log.start_offset, log.end_offset) == (2, 2)


def test_the_files_are_removed_when_they_are_redone_and_when_they_are_closed(d: Disk) -> None:
    """D5: what lies there is always of the last life of the node."""
    log, paths = known_log(d), [d.root / name for name in journal.NAMES]
    append_to_journal(d, log, b"one")
    crash(log)
    again = journal.opened(d.root, d.root, d.catalogue, HALF_BYTES)
    assert not any(path.exists() for path in paths)
    again.open()
    assert [path.read_bytes() for path in paths] == [bytes(HALF_BYTES)] * 2
    again.close()
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_journal_that_finds_no_room_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """D5: logs are flushed one by one then."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    made = Journal(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(DiskFull, match=r"no room to write .*journal\.0"):
            made.open()
    assert (made.is_open, list(tmp_path.iterdir())) == (False, [])
    made.open()
    assert made.begin([]) is not None
    made.close()


def test_a_round_that_does_not_fit_waits_for_the_other_file(d: Disk) -> None:
    """D5: files never grow, and no number is left out."""
    log, opened = known_log(d), journal_of(d)
    numbers = []
    for _ in range(100):
        append(log, batch(b"x" * 300))
        share = log.begin_share()
        assert share is not None
        begun = opened.begin([share])
        if begun is None:
            log.finish_share(share, 0)
            break
        begun.write()
        numbers.append(begun.number)
        log.finish_share(share, begun.number)
    log.flush()
    opened.turn()
    append(log, batch(b"y"))
    numbers.append(write_round(d, log))
    assert numbers == list(range(1, len(numbers) + 1))
    assert [(d.root / name).stat().st_size for name in journal.NAMES] == [HALF_BYTES] * 2


def test_numbers_never_go_back_over_a_restart(d: Disk) -> None:
    """D5: a round that counted as void must not count again, nor a new one as void."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    append_to_journal(d, log, b"two")
    crash(log)
    after_crash = d.open_journal(HALF_BYTES).next_round
    log = d.log()
    append_to_journal(d, log, b"three")
    log.truncate(3)
    next_round = journal_of(d).next_round
    log.close()
    journal_of(d).close()
    after_stop = d.open_journal(HALF_BYTES).next_round
    assert after_crash == 3
    assert after_stop > next_round > after_crash

"""When a log may go to the journal: nothing there may be without a place to be brought to."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from chordmq.errors import StorageFailed
from chordmq.storage import files
from chordmq.storage.journal import rounds
from chordmq.storage.log import Log
from chordmq.storage.metadata import segments
from tests.storage.journals import HALF_BYTES, append_to_journal, known_log, values, write_round
from tests.storage.logs import Disk, append, batch, crash, disk


@pytest.fixture
def d(tmp_path: Path) -> Iterator[Disk]:
    """Give a data directory whose journal is open."""
    with disk(tmp_path) as opened:
        opened.open_journal(HALF_BYTES)
        yield opened


def test_a_log_goes_to_the_journal_only_when_the_catalogue_knows_it(
    d: Disk, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """D5: rounds of a log that nobody knows are void, so none may hold what is acknowledged."""
    (d.root / "t-0").mkdir()  # a crash came before the catalogue was told
    log, release = d.log(), Event()
    d.database.submit(lambda _: release.wait(60))
    flush_as_the_flusher(d, log, b"one")
    flush_as_the_flusher(d, log, b"two")
    flushed = log.flushed_offset
    copy = tmp_path_factory.mktemp("after-a-power-cut")
    for path in d.root.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, copy / path.name)
    release.set()
    crash(log)
    first = copy / "t-0" / log.segments[0].path.name
    if list(rounds((copy / "journal.0").read_bytes())):
        first.write_bytes(first.read_bytes()[: len(batch(b"one"))])
    with disk(copy) as other:
        other.open_journal(HALF_BYTES)
        assert len(values(other.log())) >= flushed == 2


def test_nothing_goes_to_the_journal_while_the_name_of_its_file_is_on_its_way_to_the_disk(
    d: Disk,
) -> None:
    """D5: after a power cut that takes the file, its rounds have no place to be brought to."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    log.restart(10)
    append(log, batch(b"anew"))
    flush = log.begin_flush(is_whole=True)
    assert flush is not None
    append(log, batch(b"more"))
    assert log.flush_size() is None
    flush.sync()
    log.finish_flush(flush)
    d.catalogue.journal_rounds()  # waits until it knows
    assert log.flush_size() == len(batch(b"more"))
    crash(log)


def test_names_that_a_crash_left_are_on_the_disk_before_a_record_counts_as_flushed(
    d: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: the journal redoes nothing into a file whose name a power cut took."""
    log = d.log()
    d.catalogue.journal_rounds()
    crash(log)
    log = d.log()
    synced: list[Path] = []
    original = files.sync

    def sync(path: Path) -> None:
        synced.append(path)
        original(path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync", sync)
        flush_as_the_flusher(d, log, b"one")
    assert log.flushed_offset == 1
    assert {log.directory, d.root} <= set(synced)


def flush_as_the_flusher(d: Disk, log: Log, value: bytes) -> None:
    """Append a record, and flush it to the journal if it may go there."""
    append(log, batch(value))
    if log.flush_size() is None:
        log.flush()
    else:
        write_round(d, log)


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_what_a_round_has_that_came_behind_a_flush_is_owed_and_counts(
    d: Disk, is_checkpointed: bool
) -> None:
    """D5: a flush brings to the files what was there when it began, and vouches for no more."""
    log = known_log(d)
    append_to_journal(d, log, b"one")
    if is_checkpointed:
        log.maintain()
    flush = log.begin_flush(is_whole=True)
    assert flush is not None
    assert (flush.checkpoint is not None) == is_checkpointed
    kept = log.segments[-1].size
    append(log, batch(b"two"))
    number = write_round(d, log)
    flush.sync()
    log.finish_flush(flush)
    assert log.owes(number)
    assert not log.owes(number - 1)
    path = log.segments[-1].path
    d.catalogue.journal_rounds()  # waits until it knows
    crash(log)
    path.write_bytes(path.read_bytes()[:kept])
    d.open_journal(HALF_BYTES)
    assert values(d.log()) == [b"in the files", b"one", b"two"]


def test_a_checkpoint_that_was_not_stored_bars_a_log_from_the_journal_until_the_next_one(
    d: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: the later one says all that the first would have said."""
    log = known_log(d)

    def refuse(*_: object) -> None:
        raise StorageFailed("no room for it")

    with monkeypatch.context() as patch:
        patch.setattr(segments, "_save", refuse)
        while len(log.segments) == 1:
            append(log, batch(b"x" * 500))
        log.flush()
        with suppress(StorageFailed):
            d.catalogue.journal_rounds()  # waits until it is refused
    append(log, batch(b"y"))
    assert log.flush_size() is None
    log.maintain()
    log.flush()
    d.catalogue.journal_rounds()
    append(log, batch(b"z"))
    assert log.flush_size() == len(batch(b"z"))
    crash(log)

"""Compaction that a crash, a cut or a deletion comes between."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chordmq.storage import files
from chordmq.storage.compaction import Compaction
from chordmq.storage.log import Log
from tests.storage.compacting import SETTINGS, compact, fill, put, state
from tests.storage.logs import Disk, crash, disk, everything


class PowerCut(BaseException):
    """Ends the program, as far as the test is concerned."""


def test_a_crash_at_any_step_leaves_the_old_or_the_new_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: D5: compaction is interrupted before each of its calls to the file system in turn."""
    with disk(tmp_path) as d:
        log = d.log(SETTINGS)
        fill(log, 8)
        expected, old = state(log), everything(log)
        log.close()
        steps = 0
        while True:
            steps += 1
            name = f"t-{steps}"
            shutil.copytree(log.directory, d.root / name)
            victim = d.log(SETTINGS, name)
            finished = interrupted(monkeypatch, steps, partial(compact, victim))
            crash(victim)
            victim = d.log(SETTINGS, name)
            assert state(victim) == expected
            assert set(everything(victim)) <= set(old)
            assert victim.end_offset == 24
            assert not [p for p in victim.directory.iterdir() if p.suffix in (".swap", ".cleaned")]
            compact(victim)
            assert state(victim) == expected
            victim.close()
            if finished:
                break
        assert steps > 20


def interrupted(monkeypatch: pytest.MonkeyPatch, step: int, work: Callable[[], object]) -> bool:
    """Do the work until its n-th change of a file, and return whether it came to its end."""
    calls = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **fields: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls >= step:
                raise PowerCut
            return call(*args, **fields)

        return run

    with monkeypatch.context() as patch:
        for name in ("write", "fdatasync", "fsync", "rename", "unlink", "ftruncate", "pwrite"):
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            work()
        except PowerCut:
            return False
    return True


def begun(d: Disk) -> tuple[Log, Compaction]:
    """Return a log that the catalogue knows, and a compaction of it that has done nothing yet."""
    log = d.log(SETTINGS)
    fill(log)
    log.flush()
    d.catalogue.journal_rounds()  # waits until it knows all
    work = log.begin_compaction()
    assert work is not None
    return log, work


def test_a_cut_behind_what_is_compacted_takes_nothing_of_it(tmp_path: Path) -> None:
    """C7: a cut throws away what a thread has ready; the old segments then stay what they are."""
    with disk(tmp_path) as d:
        log, work = begun(d)
        swap = work.next()
        assert swap is not None
        log.truncate(log.end_offset - 1)  # before the loop hears of it
        before = everything(log)
        log.swap(swap)
        log.flush()
        crash(log)
        log = d.log(SETTINGS)
        assert everything(log) == before
        crash(log)


def _delete(log: Log) -> None:
    log.delete_before(log.end_offset).result()


def _restart(log: Log) -> None:
    log.restart(log.end_offset + 5)


@pytest.mark.parametrize("change", [_delete, _restart])
def test_what_was_made_of_segments_that_have_gone_takes_nothing_of_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Log], None]
) -> None:
    """C7: kill -9 before the loop has heard that a thread has something ready."""
    with disk(tmp_path) as d:
        log, work = begun(d)
        sync = files.sync

        def meanwhile(path: Path) -> None:
            monkeypatch.undo()
            ready = next(path.glob("*.swap"))
            unnamed = ready.rename(path / "unnamed")  # it gets its name just behind the change
            change(log)
            unnamed.rename(ready)
            put(log, b"a", b"acknowledged")
            log.flush()
            sync(path)

        monkeypatch.setattr(files, "sync", meanwhile)
        assert work.next() is not None
        assert log.flushed_offset == log.end_offset
        end = log.end_offset
        crash(log)
        log = d.log(SETTINGS)
        assert (log.end_offset, everything(log)[-1].value) == (end, b"acknowledged")
        crash(log)


def test_a_cut_goes_on_while_a_thread_takes_its_own_file_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: the thread gives it another name just as the cut throws it away."""
    with disk(tmp_path) as d:
        log = d.log(SETTINGS)
        fill(log)
        log.flush()
        (log.directory / "00000000000000000000.cleaned").write_bytes(b"")
        unlink = Path.unlink

        def late(path: Path, missing_ok: bool = False) -> None:
            if path.suffix == ".cleaned":
                path.rename(path.with_suffix(".renamed"))
            unlink(path, missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", late)
            log.truncate(log.end_offset - 1)
        crash(log)


def test_a_segment_that_went_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log(SETTINGS)
        fill(log)
        log.flush()
        work = log.begin_compaction()
        assert work is not None
        swap = work.next()
        assert swap is not None
        log.delete_before(20)
        log.swap(swap)
        assert not swap.path.exists()
        log.close()
        log = d.log(SETTINGS)
        assert [record.offset for record in everything(log)] == list(range(20, 30))
        log.close()


def test_a_cut_log_does_not_get_its_old_end_back_from_a_swap_file(tmp_path: Path) -> None:
    with disk(tmp_path) as d:
        log = d.log(SETTINGS)
        fill(log)
        log.flush()
        work = log.begin_compaction()
        assert work is not None
        assert work.next() is not None
        log.truncate(4)
        crash(log)
        log = d.log(SETTINGS)
        assert log.end_offset == 4
        log.close()

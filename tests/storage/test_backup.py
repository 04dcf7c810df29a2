"""Backups: what is not a backup is refused, and a damaged one never becomes a data directory."""

import json
import shutil
from pathlib import Path

import pytest

from chordmq.storage import backup, journal
from tests.running_node import RunningNode
from tests.storage.logs import append, batch, crash, disk, everything


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    node = RunningNode(tmp_path / "node")
    node.start()
    assert node.stop() == 0
    return tmp_path / "node" / "data"


def test_a_directory_that_holds_no_data_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(backup.CannotBackUp, match=r"no meta\.db"):
        backup.create(tmp_path, tmp_path / "b", None)


def test_a_node_of_a_cluster_is_not_backed_up_by_itself(stopped: Path, tmp_path: Path) -> None:
    (stopped / backup.WATERMARKS).touch()
    with pytest.raises(backup.CannotBackUp, match="chordmq mirror"):
        backup.create(stopped, tmp_path / "b", None)


def test_a_backup_does_not_overwrite_anything(stopped: Path, tmp_path: Path) -> None:
    backup.create(stopped, tmp_path / "b", None)
    with pytest.raises(backup.CannotBackUp, match="not empty"):
        backup.create(stopped, tmp_path / "b", None)
    with pytest.raises(backup.CannotBackUp, match="new directory"):
        backup.restore(tmp_path / "b", stopped)
    assert not (stopped / "backup.links").exists()


def test_every_damage_is_found_and_nothing_is_restored(stopped: Path, tmp_path: Path) -> None:
    made = backup.create(stopped, tmp_path / "b", None)
    assert backup.verify(tmp_path / "b") == made
    for one in made.files:
        if not one.size:
            continue
        copy = tmp_path / "damaged"
        shutil.copytree(tmp_path / "b", copy)
        path = copy / "data" / one.path
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(backup.NotABackup, match="damaged"):
            backup.restore(copy, tmp_path / "data")
        assert not (tmp_path / "data").exists()
        shutil.rmtree(copy)


def test_a_backup_that_was_interrupted_or_tampered_with_is_none(
    stopped: Path, tmp_path: Path
) -> None:
    made = tmp_path / "b"
    backup.create(stopped, made, None)
    manifest = made / backup.MANIFEST
    said = json.loads(manifest.read_text())
    said["files"][0]["path"] = "../../outside"
    manifest.write_text(json.dumps(said))
    with pytest.raises(backup.NotABackup, match="outside"):
        backup.verify(made)
    manifest.write_text("{")
    with pytest.raises(backup.NotABackup, match="cannot be read"):
        backup.verify(made)
    manifest.unlink()
    with pytest.raises(backup.NotABackup, match="not a whole one"):
        backup.verify(made)


def test_a_crashed_node_is_backed_up_with_what_only_its_journal_has(tmp_path: Path) -> None:
    """D5: the restored directory has every flushed record; one of a running node has no journal."""
    data = tmp_path / "data"
    data.mkdir()
    with disk(data) as d:
        opened = journal.opened(data, data / "topics", d.catalogue, 4096)
        opened.open()
        d.journal = opened
        log = d.log(name="topics/t-0")
        append(log, batch(b"in the files"))
        log.flush()
        append(log, batch(b"in the journal"))
        share = log.begin_share()
        assert share is not None
        begun = opened.begin([share])
        assert begun is not None
        begun.write()
        crash(log)
        path = log.segments[0].path
    path.write_bytes(path.read_bytes()[: len(batch(b"in the files"))])
    backup.create(data, tmp_path / "b", None)
    running = backup.create(data, tmp_path / "c", {"t-0": backup.Position(0, 0, 0)})
    backup.restore(tmp_path / "b", tmp_path / "restored")
    with disk(tmp_path / "restored") as d:
        d.journal = journal.opened(d.root, d.root / "topics", d.catalogue)
        log = d.log(name="topics/t-0")
        assert [one.value for one in everything(log)] == [b"in the files", b"in the journal"]
        log.close()
    assert not {one.path for one in running.files} & set(journal.NAMES)

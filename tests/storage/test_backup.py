"""Backups: what is not a backup is refused, and a damaged one never becomes a data directory."""

import json
import shutil
from pathlib import Path

import pytest

from chordmq.storage import backup
from tests.running_node import RunningNode


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

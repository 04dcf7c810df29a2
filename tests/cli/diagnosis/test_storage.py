"""The doctor knows a disk that is full, forgets or is far away, and a node that was killed."""

from pathlib import Path

import pytest

from chordmq.cli.diagnosis import storage
from tests.cli.diagnosis.places import kernel, only, place
from tests.running_node import RunningNode


def test_a_disk_that_is_nearly_full_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: doctor, disk nearly full."""
    monkeypatch.setattr(storage, "FREE_BYTES_GOOD", 2**60)
    found = [*storage.data_directory(place(f"data_dir={tmp_path}"))][-1]
    assert found.check == "disk space"
    assert found.status in ("warn", "fail")
    assert found.fix


@pytest.mark.parametrize(("kind", "status"), [("tmpfs", "warn"), ("nfs4", "warn"), ("ext4", "ok")])
def test_a_data_directory_on_the_wrong_kind_of_disk_is_found(
    tmp_path: Path, kind: str, status: str
) -> None:
    """X4: doctor, data directory in memory or on a remote disk."""
    mounts = f"/dev/a / ext4 rw 0 0\nsource {tmp_path} {kind} rw 0 0\n"
    root = kernel(tmp_path / "root", {"proc/mounts": mounts})
    found = only(storage.file_system, place(f"data_dir={tmp_path}/data", root=root))
    assert (found.status, kind in found.detail) == (status, True)


def test_the_kind_of_a_real_mount_is_known() -> None:
    assert only(storage.file_system, place("data_dir=/dev/shm/data")).status == "warn"


def test_data_and_keys_that_others_can_reach_are_found(tmp_path: Path) -> None:
    """X4: doctor, permissions of the data directory and of keys."""
    data, key = tmp_path / "data", tmp_path / "node.key"
    data.mkdir()
    key.touch()
    where = place(
        f"data_dir={data}", f"kafka.tls.certificate={tmp_path}/node.pem", f"kafka.tls.key={key}"
    )
    data.chmod(0o700)
    key.chmod(0o600)
    assert list(storage.permissions(where)) == []
    data.chmod(0o777)
    key.chmod(0o644)
    found = list(storage.permissions(where))
    assert [one.fix for one in found] == [f"chmod o-w {data}", f"chmod 600 {key}"]


def test_a_node_that_was_killed_is_told_from_one_that_was_stopped(own_node: RunningNode) -> None:
    """X4: doctor, unclean shutdown."""
    where = place(f"data_dir={own_node.data}")
    assert list(storage.last_stop(where)) == [], "it runs"
    own_node.kill9()
    assert only(storage.last_stop, where).detail.startswith("the node was killed")
    own_node.start()
    own_node.stop()
    assert list(storage.last_stop(where)) == []
    (own_node.data / "flush.failed").touch()
    assert only(storage.last_stop, where).status == "fail"

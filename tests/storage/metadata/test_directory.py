"""What tells one data directory from another, and one run of the machine from the next."""

from pathlib import Path

from chordmq.storage.metadata.directory import boot_id, uuid_of


def test_a_directory_keeps_its_identity_as_long_as_its_database(tmp_path: Path) -> None:
    first = uuid_of(tmp_path / "a")

    assert uuid_of(tmp_path / "a") == first
    assert uuid_of(tmp_path / "b") != first
    (tmp_path / "a" / "meta.db").unlink()
    assert uuid_of(tmp_path / "a") != first


def test_a_machine_that_goes_on_running_is_recognised() -> None:
    assert boot_id() == boot_id()

"""What tells one data directory from another, and one run of the machine from the next."""

from pathlib import Path

from chordmq.storage.metadata.directory import boot_id, is_suspect, suspect, trust, uuid_of


def test_a_directory_keeps_its_identity_as_long_as_its_database(tmp_path: Path) -> None:
    first = uuid_of(tmp_path / "a")

    assert uuid_of(tmp_path / "a") == first
    assert uuid_of(tmp_path / "b") != first
    (tmp_path / "a" / "meta.db").unlink()
    assert uuid_of(tmp_path / "a") != first


def test_a_machine_that_goes_on_running_is_recognised() -> None:
    assert boot_id() == boot_id()


def test_a_failed_flush_is_remembered_until_it_was_told(tmp_path: Path) -> None:
    assert not is_suspect(tmp_path)

    suspect(tmp_path)
    assert is_suspect(tmp_path)
    trust(tmp_path)

    assert not is_suspect(tmp_path)
    trust(tmp_path)
    suspect(tmp_path / "not there")

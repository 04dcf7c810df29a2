"""Where keys come from: a file that may change, or the environment."""

from pathlib import Path

import pytest

from chordmq.encryption.errors import InvalidKeys
from chordmq.encryption.keyring import new_ring
from chordmq.encryption.providers import FileKeys, key_provider, write_ring


def test_a_file_that_was_rotated_is_read_again_without_a_restart(tmp_path: Path) -> None:
    """E13: readers find a new key when they meet it, writers when they need a data key."""
    file = tmp_path / "keys"
    ring = new_ring(1)
    write_ring(file, ring, is_new=True)
    reader, writer = FileKeys(file), FileKeys(file)
    rotated = ring.rotated(2)
    write_ring(file, rotated, is_new=False)
    secret = bytes(range(32))
    wrapped = writer.wrap(secret)
    assert writer.current == rotated.current
    assert reader.unwrap(rotated.current, wrapped) == secret


def test_only_the_owner_can_read_the_file_and_a_new_one_replaces_none(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    write_ring(file, new_ring(1), is_new=True)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidKeys, match="is there already"):
        write_ring(file, new_ring(1), is_new=True)


def test_keys_are_named_by_a_path_or_a_variable(tmp_path: Path) -> None:
    ring = new_ring(1)
    write_ring(tmp_path / "keys", ring, is_new=True)
    environment = {"KEYS": ring.text().decode()}
    for text in (str(tmp_path / "keys"), f"file:{tmp_path / 'keys'}", "env:KEYS"):
        assert key_provider(text, environment).current == ring.current


@pytest.mark.parametrize("text", ["env:MISSING", "/does/not/exist", "env:BAD"])
def test_keys_that_are_not_there_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidKeys):
        key_provider(text, {"BAD": "x"})

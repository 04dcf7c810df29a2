"""`chordmq keys`, and records that only their owners can read."""

import stat
from pathlib import Path

from tests.cli.command_line import CommandLine


def test_records_are_encrypted_on_the_way_and_in_the_log(
    cli: CommandLine, name: str, tmp_path: Path
) -> None:
    """E13: payload encryption, end to end, with a rotation in between."""
    keys = str(tmp_path / "orders.keys")
    cli.ok("keys", "create", keys)
    assert stat.S_IMODE(Path(keys).stat().st_mode) == 0o600
    cli.ok("topics", "create", name)
    cli.ok("produce", name, "--encrypt-with", keys, stdin="first\n")
    cli.ok("keys", "rotate", keys)
    cli.ok("produce", name, "--encrypt-with", keys, stdin="second\n")
    assert cli.ok("consume", name, "--encrypt-with", keys).lines == ["first", "second"]
    seen = cli.ok("consume", name, "--json").out
    assert "first" not in seen
    assert "enc.kid" in seen


def test_a_wrong_key_and_a_plain_record_are_refused_with_their_place(
    cli: CommandLine, name: str, tmp_path: Path
) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    cli.ok("keys", "create", ours)
    cli.ok("keys", "create", theirs)
    cli.ok("topics", "create", name)
    cli.ok("produce", name, "--encrypt-with", ours, stdin="secret\n")
    outcome = cli("consume", name, "--encrypt-with", theirs)
    assert outcome.status == 1
    assert f"{name} partition 0 offset 0: it was encrypted with the key" in outcome.err
    cli.ok("produce", name, stdin="plain\n")
    outcome = cli("consume", name, "--from", "1", "--encrypt-with", ours)
    assert outcome.status == 1
    assert "offset 1: it is not encrypted" in outcome.err


def test_keys_are_listed_without_the_keys(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "k"
    cli.ok("keys", "create", str(file))
    cli.ok("keys", "rotate", str(file))
    rows = cli.ok("keys", "list", str(file), "--json").data
    assert [row["current"] for row in rows] == [False, True]
    assert cli("keys", "create", str(file)).status == 2
    assert cli("keys", "rotate", str(tmp_path / "missing")).status == 2
    assert cli("consume", "t", "--encrypt-with", str(tmp_path / "missing")).status == 2

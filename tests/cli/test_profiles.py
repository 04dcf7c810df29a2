"""Profiles: several clusters, each under a name."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import ENVIRONMENT, CommandLine
from tests.running_node import RunningNode, free_port


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "chordmq" / "profiles.toml"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = ENVIRONMENT | {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]}
    return subprocess.run(
        [sys.executable, "-m", "chordmq", *arguments],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_profile_says_where_the_broker_is_unless_the_command_does(
    node: RunningNode, cli: CommandLine, home: Path, name: str
) -> None:
    """X4: one name instead of addresses and files."""
    cli.ok("profiles", "save", "here", f"bootstrap={node.bootstrap}", f"url={node.http}")
    cli.ok("profiles", "save", "nowhere", f"bootstrap=127.0.0.1:{free_port()}")
    assert run("--profile", "here", "topics", "create", name).returncode == 0
    assert name in run("--profile", "here", "topics", "list").stdout
    assert run("--profile", "here", "top", "--once", "-i", "0.1").returncode == 0
    assert run("--profile", "nowhere", "topics", "list").returncode == 3
    assert run("--profile", "nowhere", "-b", node.bootstrap, "topics", "list").returncode == 0


def test_secrets_are_for_their_owner_only(cli: CommandLine, home: Path) -> None:
    cli.ok("profiles", "save", "prod", "password=secret\nand [more]", "user=me")
    assert stat.S_IMODE(home.stat().st_mode) == 0o600
    assert cli.ok("profiles", "list", "--json").data == {"prod": {"password": "***", "user": "me"}}
    assert "secret" not in cli.ok("profiles", "list").out
    cli.ok("profiles", "remove", "prod")
    assert cli.ok("profiles", "list", "--json").data == {}


def test_mistakes_are_told(cli: CommandLine, home: Path) -> None:
    assert cli("profiles", "save", "x", "colour=red").status == 2
    assert cli("profiles", "remove", "x").status == 1
    missing = run("--profile", "x", "topics", "list")
    assert missing.returncode == 2
    assert "there is no profile x" in missing.stderr
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_text("[")
    assert cli("profiles", "list").status == 1

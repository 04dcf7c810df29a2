"""The Debian packages that make installs, with an apt that only writes down what it is asked."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "system_packages.py"
TOOLS = (
    "kcat",
    "javac",
    "mvn",
    "ip",
    "mosquitto_rr",
    "chromium",
    "etcd",
    "promtool",
    "redis-server",
)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Give a folder that is the whole PATH: a recording apt that knows every package."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("env", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    program(folder, "apt-get", f'echo "apt-get $*" >> {tmp_path}/calls')
    program(folder, "apt-cache", f'echo "apt-cache $*" >> {tmp_path}/calls')
    program(folder, "sudo", f'echo -n "sudo " >> {tmp_path}/calls; exec "$@"')
    return folder


def program(folder: Path, name: str, body: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def run(programs: Path, group: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), group], env={"PATH": str(programs)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def calls(programs: Path) -> list[str]:
    file = programs.parent / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.removeprefix("sudo ") for line in lines]


def test_only_what_is_missing_is_installed(programs: Path) -> None:
    for name in ("javac", "mvn", "mosquitto_rr", "chromium", "etcd", "promtool", "redis-server"):
        program(programs, name)
    result = run(programs, "test")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "Installing Debian packages: kcat iproute2\n"
    known, installed = calls(programs)
    assert known == "apt-cache show kcat iproute2"
    assert installed.endswith(" install -y --no-install-recommends kcat iproute2")


def test_with_all_there_apt_is_not_called(programs: Path) -> None:
    for name in TOOLS:
        program(programs, name)
    assert run(programs, "test").returncode == 0
    assert run(programs, "setup").returncode == 0
    assert calls(programs) == []


def test_a_compiler_is_installed_only_where_there_is_none(programs: Path) -> None:
    assert run(programs, "compile").stdout == "Installing Debian packages: gcc\n"
    program(programs, "cc")
    assert run(programs, "compile").stdout == ""


def test_the_lists_are_refreshed_when_they_do_not_know_a_package(programs: Path) -> None:
    program(programs, "apt-cache", "exit 100")
    assert run(programs, "test").returncode == 0
    assert [line.split()[3] for line in calls(programs)] == ["-o=Acquire::Retries=3"] * 2
    assert [line.split()[4] for line in calls(programs)] == ["update", "install"]


def test_a_failed_installation_is_reported(programs: Path) -> None:
    program(programs, "apt-get", "exit 100")
    result = run(programs, "test")
    assert result.returncode == 1
    assert "failed with code 100" in result.stderr


def test_without_apt_people_are_told_what_is_missing(programs: Path) -> None:
    (programs / "apt-get").unlink()
    result = run(programs, "test")
    assert result.returncode == 1
    assert "kcat default-jdk-headless maven iproute2" in result.stderr

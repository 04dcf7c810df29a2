"""The doctor knows a machine that is too small, too old or set up for something else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chordmq.cli.diagnosis import machine
from tests.cli.command_line import ENVIRONMENT
from tests.cli.diagnosis.places import kernel, only, place


def test_a_container_with_too_little_memory_is_found(tmp_path: Path) -> None:
    """X4: doctor, memory limit of a cgroup."""
    root = kernel(tmp_path, {"sys/fs/cgroup/memory.max": f"{128 * 1024**2}\n"})
    found = only(machine.memory, place(root=root))
    assert (found.status, "128 MiB" in found.detail) == ("warn", True)
    kernel(tmp_path, {"sys/fs/cgroup/memory.max": "max\n", "proc/meminfo": "MemTotal: 8000000 kB"})
    assert only(machine.memory, place(root=root)).status == "ok"


def test_settings_of_the_kernel_that_hurt_are_named(tmp_path: Path) -> None:
    """X4: doctor, huge pages, swap and the queue of connections."""
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
        "proc/sys/vm/swappiness": "60",
        "proc/swaps": "Filename Type Size\n/swapfile file 1000",
        "proc/sys/net/core/somaxconn": "128",
    }
    found = list(machine.kernel(place(root=kernel(tmp_path, files))))
    assert [one.check for one in found] == ["huge pages", "swap", "connection queue"]
    assert all(one.status == "warn" and one.fix for one in found)
    calm = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "proc/swaps": "Filename Type Size",
        "proc/sys/net/core/somaxconn": "4096",
    }
    assert list(machine.kernel(place(root=kernel(tmp_path, calm)))) == []


def test_java_that_is_missing_or_too_old_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: doctor, Java."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert only(machine.java, place()).detail == "not installed"
    program = tmp_path / "java"
    for version, status in (("1.8.0_402", "warn"), ("11.0.2", "warn"), ("21.0.1", "ok")):
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        program.chmod(0o755)
        found = only(machine.java, place())
        assert (found.status, version in found.detail) == (status, True)


def test_an_extra_that_the_settings_ask_for_and_is_not_there_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X4: doctor, extras missing."""
    monkeypatch.setitem(machine.EXTRAS, "grpc", "no_such_module")
    found = only(machine.extras, place("grpc.enabled=on"))
    assert (found.status, found.fix) == ("fail", "pip install 'chordmq[grpc]'")
    assert only(machine.extras, place()).status == "ok"


def test_few_files_and_a_poor_locale_are_found() -> None:
    """X4: doctor, file limits and locale."""
    ran = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -n 512; exec {sys.executable} -m chordmq doctor --json"],
        capture_output=True, text=True, timeout=60, check=False,
        env=ENVIRONMENT | {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    )  # fmt: skip
    found = {row["check"]: row for row in json.loads(ran.stdout)["checks"]}
    assert found["open files"]["status"] == "fail"
    assert "LimitNOFILE" in found["open files"]["fix"]
    assert found["locale"]["fix"] == "export LC_ALL=C.UTF-8"
    assert ran.returncode == 1


def test_a_module_that_is_not_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """X4: doctor, which decoder is in use."""
    monkeypatch.setattr(machine, "COMPILED", ("crc32c._crc32c",))
    assert only(machine.compiled, place()).status == "ok"
    monkeypatch.setattr(machine, "COMPILED", ("chordmq.records.found",))
    found = only(machine.compiled, place())
    assert (found.status, found.detail) == (
        "warn",
        "plain Python in place of chordmq.records.found",
    )


def test_what_every_machine_here_has_is_well() -> None:
    for check in (machine.python, machine.clock):
        assert only(check, place()).status == "ok"
    assert {one.status for one in machine.acceleration(place())} <= {"ok", "warn"}

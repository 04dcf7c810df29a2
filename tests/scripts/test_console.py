"""The build of the console where something is missing."""

from pathlib import Path

import pytest

from scripts import console
from scripts.test_tools import Step, ToolMissing


@pytest.fixture(autouse=True)
def without_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have the build end as it does on a machine without Node.js."""

    def build() -> None:
        raise ToolMissing("npm is not installed")

    step = Step(name="Console", inputs=[], output=tmp_path / "index.html", build=build)
    monkeypatch.setattr(console, "step", lambda: step)


def test_run_and_test_go_on_without_a_console(capsys: pytest.CaptureFixture[str]) -> None:
    """X3: a machine without Node.js still gets its node, and is told what it lacks."""
    assert console.main(["--optional"]) == 0
    told = capsys.readouterr().err
    assert "npm is not installed" in told
    assert "make console" in told


def test_who_asks_for_the_console_is_told_that_there_is_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """X3: `make console` fails."""
    assert console.main([]) == 1
    assert "npm is not installed" in capsys.readouterr().err


def test_the_lock_file_names_no_registry() -> None:
    """X3: packages come from wherever npm is set to."""
    assert "resolved" not in (console.SOURCES / "package-lock.json").read_text()

"""The report of which tests prove which requirement."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "requirements.py"
TABLE = """
| id | requirement |
|---|---|
| C1 | Speaks. |
| C5 | Compresses. |
| C7 | Keeps settings. |
"""
TESTS = '''
def test_speaks() -> None:
    """C1: it speaks."""

class TestBoth:
    async def test_both(self) -> None:
        """C1, C7: both."""

def test_mentions() -> None:
    """Not C5: named in the middle only."""
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "table.md").write_text(TABLE)
    (tmp_path / "tests" / "inner").mkdir(parents=True)
    (tmp_path / "tests" / "inner" / "test_x.py").write_text(TESTS)
    return tmp_path


def report(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    paths = ["--table", str(project / "table.md"), "--tests", str(project / "tests")]
    command = [sys.executable, str(SCRIPT), *paths, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_requirement_is_listed_with_the_tests_that_name_it(project: Path) -> None:
    result = report(project)
    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        "C1   Speaks.",
        "       inner/test_x.py::test_both",
        "       inner/test_x.py::test_speaks",
        "C5   Compresses.",
        "       (no test)",
        "C7   Keeps settings.",
        "       inner/test_x.py::test_both",
        "",
        "2 of 3 requirements have tests.",
        "Without: C5",
    ]


def test_a_requirement_that_was_asked_for_and_has_no_test_fails(project: Path) -> None:
    assert report(project, "--missing", "C1,C7").returncode == 0
    result = report(project, "--missing", "C1,C5")
    assert result.returncode == 1
    assert result.stderr == "C5: no test proves it\n"


def test_an_id_that_nobody_knows_fails(project: Path) -> None:
    result = report(project, "--missing", "C99")
    assert (result.returncode, result.stderr) == (1, "C99: no requirement has this id\n")
    (project / "tests" / "test_y.py").write_text('def test_z():\n    """Q7: what?"""\n')
    result = report(project)
    assert (result.returncode, result.stderr) == (1, "Q7: no requirement has this id\n")


def test_the_real_table_has_every_requirement() -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert " of 81 requirements have tests." in result.stdout

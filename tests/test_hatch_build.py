"""What the installation compiles: the list, what becomes of it, and what is done without it."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from chordmq.cli.diagnosis.machine import COMPILED

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["hooks"]["custom"]
LISTED = [Path(source) for tool in HOOK.values() for source in tool]


def test_the_doctor_knows_all_that_is_compiled() -> None:
    names = [".".join(path.relative_to("src").with_suffix("").parts) for path in LISTED]
    assert sorted(names) == sorted(COMPILED)


@pytest.mark.parametrize("source", LISTED, ids=str)
def test_what_is_compiled_is_not_older_than_its_source(source: Path) -> None:
    for built in (ROOT / source.parent).glob(f"{source.stem}.*.so"):
        assert built.stat().st_mtime >= (ROOT / source).stat().st_mtime, (
            f"{built.name} is out of date: install the package again (make setup)"
        )


def wheel(tmp_path: Path, **variables: str) -> tuple[zipfile.ZipFile, str]:
    """Build the wheel with the build tools that are installed here."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables,
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    (path,) = tmp_path.glob("*.whl")
    return zipfile.ZipFile(path), path.name + "\n" + done.stdout + done.stderr


def compiled(files: zipfile.ZipFile) -> list[str]:
    return [name for name in files.namelist() if name.endswith(".so")]


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"CHORDMQ_PURE": "1"}, "CHORDMQ_PURE is set"),
        ({"CC": "no-such-compiler"}, "there is no C compiler (no-such-compiler)"),
        ({"CC": "false"}, "Python's or C's header files are missing"),
    ],
)
def test_without_a_compiler_the_wheel_is_pure_and_says_why(
    tmp_path: Path, variables: dict[str, str], reason: str
) -> None:
    files, said = wheel(tmp_path, **variables)
    assert compiled(files) == []
    assert "py3-none-any" in said
    assert said.count(f"chordmq: pure Python, nothing is compiled: {reason}") == 1


@pytest.mark.slow
def test_a_wheel_has_what_was_compiled_for_it(tmp_path: Path) -> None:
    files, said = wheel(tmp_path)
    assert "pure Python" not in said
    assert len(compiled(files)) == len(LISTED)
    assert "py3-none-any" not in said

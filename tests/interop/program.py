"""Runs a foreign program to its end and shows its output when it fails."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 90.0


def run(command: Sequence[str | Path], *, given: bytes = b"") -> bytes:
    """Run the command with `given` on its standard input and return its standard output."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            input=given,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = f"{(late.stdout or b'').decode()}\n{(late.stderr or b'').decode()}"
        raise AssertionError(f"{command[0]} did not end in {TIMEOUT_S} s\n{said}") from None
    assert done.returncode == 0, (
        f"{command[0]} ended with {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    )
    return done.stdout


def installed(name: str) -> str:
    """Return the path of a program; one that is missing fails the test and says what to do."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = shutil.which(name, path=search)
    assert found, f"{name} is missing; run: python scripts/system_packages.py test"
    return found


def built(path: Path) -> Path:
    """Return a path that scripts/test_tools.py makes; fail if it has not."""
    assert path.exists(), f"{path} is missing; run: python scripts/test_tools.py"
    return path

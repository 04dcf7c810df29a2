"""A mirror as its users run it: a process of its own, killed and restarted by tests."""

import subprocess
import sys
from pathlib import Path

from tests.running_node import die_with_parent


class RunningMirror:
    """`chordmq mirror run` as a process, killed and started again by tests."""

    def __init__(self, log: Path, *options: str) -> None:
        self._log = log
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chordmq", "mirror", "run", *self._options],
                stdout=log, stderr=log, preexec_fn=die_with_parent,
            )  # fmt: skip

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

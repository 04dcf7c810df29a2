"""A registry as its users run it: a process of its own, killed and restarted by tests."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.running_node import die_with_parent, free_port

READY_TIMEOUT_S = 60.0


class RunningRegistry:
    """One registry on loopback; its address and its tree stay the same over restarts."""

    def __init__(
        self, directory: Path, *options: str, context: ssl.SSLContext | None = None
    ) -> None:
        self._directory = directory
        self._options = options
        self._context = context
        self._port = free_port()
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "chordmq", "registry", "serve",
                    "--directory", str(self._directory), "--port", str(self._port), *self._options,
                ],
                stdout=log, stderr=log, preexec_fn=die_with_parent,
                env={key: text for key, text in os.environ.items() if key[:8] != "CHORDMQ_"},
            )  # fmt: skip
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.answers():
            assert time.monotonic() < deadline, "the registry did not become ready"
            assert self._process.poll() is None, (self._directory / "registry.log").read_text()
            time.sleep(0.02)

    def answers(self) -> bool:
        """Return whether it is there."""
        try:
            return self.call("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of a request."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )
        try:
            with urllib.request.urlopen(request, timeout=90, context=self._context) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def kill9(self) -> None:
        """End the process as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

"""Runs what a stage of the recipe has made, as a container engine would; needs root."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.chaos.network import IP
from tests.deploy.recipe import Stage
from tests.waiting import wait_until

STOP_TIMEOUT_S = 60
RUN_TIMEOUT_S = 120
HEALTHY_S = 600.0


class Container:
    """The entry point of a stage with files and processes of its own, and a network.

    The network is its own, too, or that of another container `beside` it.
    """

    def __init__(
        self, stage: Stage, log: Path, beside: "Container | None" = None, **variables: str
    ) -> None:
        self.stage = stage
        self._log = log
        self._owner = beside or self
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Container":
        entry = [*self.stage.entry, *self.stage.arguments]
        if self._owner is self:
            alone = ["unshare", "--net", "sh", "-ec", f'{IP} link set lo up; exec "$@"', "sh"]
            command = [*alone, *self.stage.inside(entry, **self._variables)]
        else:
            command = self._entered(entry)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()  # which ends all that is inside
            self.process.wait(STOP_TIMEOUT_S)
        if fault is not None:
            fault.add_note(f"{self._log.name}:\n{self._log.read_text()[-4000:]}")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return what waits outside for the container's end, and ends with its status."""
        assert self._process is not None
        return self._process

    @property
    def first(self) -> int:
        """Return the number that the first process of the container has outside of it."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def run(self, *command: str) -> str:
        """Return what a further command prints in there; fail if it fails."""
        done = self._ran(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def wait_until_healthy(self) -> None:
        """Ask as the recipe says until the answer is good; fail if the program ends."""
        wait_until(self._is_healthy, HEALTHY_S)

    def stop(self) -> int:
        """Tell it to end, and return with which status it has."""
        subprocess.run(["kill", "-TERM", str(self.first)], check=True)
        return self.process.wait(STOP_TIMEOUT_S)

    def _is_healthy(self) -> bool:
        assert self.process.poll() is None, "it has ended"
        return self._ran(self.stage.health).returncode == 0

    def _ran(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._entered(command),
            capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip

    def _entered(self, command: Sequence[str]) -> list[str]:
        """Return how to run a command on the network that is there."""
        network = ["nsenter", "--net", "--target", str(self._owner.process.pid)]
        return [*network, *self.stage.inside(command, **self._variables)]

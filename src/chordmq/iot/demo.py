"""The process that simulates devices, for a node whose web console has a button for it."""

import asyncio
import sys

import msgspec

from chordmq.dataclass import dataclass
from chordmq.errors import InvalidRequest
from chordmq.offspring import follow_parent


class DemoState(msgspec.Struct, frozen=True):
    """Whether simulated devices are there, and how many."""

    running: bool
    devices: int


@dataclass(slots=True)
class Demo:
    """The process that simulates devices: `chordmq demo`, as anybody could start it."""

    devices: int = 0
    _process: asyncio.subprocess.Process | None = None

    @property
    def state(self) -> DemoState:
        """Return whether it runs."""
        is_running = self._process is not None and self._process.returncode is None
        return DemoState(is_running, self.devices if is_running else 0)

    async def start(self, address: str, devices: int) -> None:
        """Start it; it ends with the node."""
        if self.state.running:
            raise InvalidRequest(f"{self.devices} simulated devices are there already")
        self.devices = devices
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "chordmq", "demo", "--address", address),
            *("--devices", str(devices)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            preexec_fn=follow_parent,
        )

    async def stop(self) -> None:
        """End it, if it runs."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.terminate()
            await process.wait()

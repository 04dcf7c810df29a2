"""The programs of a cluster under test: nodes and members of etcd, each in its own namespace."""

import ctypes
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.disks import Disk
from tests.chaos.network import Network

PATIENCE_S = 60.0
STOP_S = 20.0
KAFKA, HTTP = 9092, 8080
FAKETIME = next(map(str, Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), "")
"""Lets a program's clock be set (Debian: faketime)."""


class Host:
    """One program; killed, paused and started again under the same address."""

    def __init__(self, name: str, network: Network, directory: Path) -> None:
        self.name = name
        self.network = network
        self.address = network.addresses[name]
        self.log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._is_paused = False

    def command(self) -> list[str]:
        """Return what runs there."""
        raise NotImplementedError

    def url(self) -> str:
        """Return what answers 200 when the program serves."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        """Return whether the program is there."""
        return self._process is not None and self._process.poll() is None

    def environment(self) -> dict[str, str]:
        """Return the environment in which it runs."""
        return dict(os.environ)

    def start(self) -> None:
        """Start the program, on its old data if it has any."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.network.inside(self.name, self.command()), stdout=log, stderr=log,
                env=self.environment(),
                start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip

    def kill(self) -> None:
        """End the program as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process, self._is_paused = None, False

    def stop(self) -> None:
        """Ask the program to stop, and wait for it."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def pause(self) -> None:
        """Stop the program without closing its connections."""
        if self.is_running and self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            self._is_paused = True

    def resume(self) -> None:
        """Let a paused program go on."""
        if self._is_paused and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
        self._is_paused = False

    def wait(self) -> None:
        """Return when the program serves; start it again if it has ended by itself."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if not self.is_running:
                self.start()
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name} does not serve; see {self.log}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url(), timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


class EtcdHost(Host):
    """A member of etcd."""

    members: Mapping[str, str] = {}
    """The addresses of all members by name."""

    def __init__(self, name: str, network: Network, directory: Path) -> None:
        super().__init__(name, network, directory)
        self._data = directory / name

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}:2379"

    def url(self) -> str:
        return f"{self.endpoint}/health"

    def command(self) -> list[str]:
        peer = f"http://{self.address}:2380"
        everybody = ",".join(
            f"{name}=http://{address}:2380" for name, address in self.members.items()
        )
        return [
            "etcd", "--name", self.name, "--data-dir", str(self._data),
            "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", everybody,
        ]  # fmt: skip


class NodeHost(Host):
    """A node, with a disk of its own if there is one."""

    def __init__(
        self, number: int, network: Network, directory: Path, settings: Mapping[str, str]
    ) -> None:
        super().__init__(f"n{number}", network, directory)
        self.number = number
        self.disk: Disk | None = None
        self._settings = settings
        self.data = directory / f"disk{number}"
        self._clock = directory / f"clock{number}"
        self.can_err = False
        """Whether the clock can be set wrong; the node is slower for it."""

    def set_clock(self, seconds: int) -> None:
        """Have the node's wall clock go wrong by so many seconds from now on."""
        if self.can_err:
            self._clock.write_text(f"{seconds:+d}\n")

    def environment(self) -> dict[str, str]:
        wrong = {
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        return super().environment() | (wrong if self.can_err else {})

    @property
    def kafka(self) -> str:
        return f"{self.address}:{KAFKA}"

    def url(self) -> str:
        return f"http://{self.address}:{HTTP}/ready"

    def command(self) -> list[str]:
        own = {
            "data_dir": str(self.data / "data"),
            "broker.node.id": str(self.number),
            "kafka.host": self.address,
            "kafka.port": str(KAFKA),
            "http.host": self.address,
            "http.port": str(HTTP),
            "peer.host": self.address,
            **self._settings,
        }
        command = [sys.executable, "-m", "chordmq", "serve", "--insecure"]
        for name, value in own.items():
            command += ["--set", f"{name}={value}"]
        return command


def _die_with_parent() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)

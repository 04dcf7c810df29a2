"""A ChordMQ node as its users run it: a process of its own, killed and restarted by tests."""

import ctypes
import itertools
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
# Below the ports that the kernel gives to outgoing connections, so that none of them can take the
# node's port while it is down between a kill and a restart.
PORTS = range(18000, 32000)
SETTINGS = {
    "broker.group.initial.rebalance.delay.ms": "0",
    "http.demo": "false",
    # Records of tests may be years old: retention would take them away at any moment.
    "broker.log.retention.check.interval.ms": "3600000",
}


class RunningNode:
    """One node on loopback; its addresses and its data stay the same over restarts."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "node.log"
        self.address = ("127.0.0.1", free_port())
        self.http_address = ("127.0.0.1", free_port())
        self.framed_address = ("127.0.0.1", free_port())
        self.provider_address = ("127.0.0.1", free_port())
        self.mqtt_address = ("127.0.0.1", free_port())
        self.amqp_address = ("127.0.0.1", free_port())
        self.capnp_address = ("127.0.0.1", free_port())
        self.grpc_address = ("127.0.0.1", free_port())
        self.settings = SETTINGS | dict(settings or {})
        self.file_size_max: int | None = None
        """Bytes beyond which the kernel lets no file of the node grow; None for no limit."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Return the Kafka address as clients want it."""
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def http(self) -> str:
        """Return the HTTP address as a URL."""
        return f"http://{self.http_address[0]}:{self.http_address[1]}"

    @property
    def pid(self) -> int:
        """Return the process id of the running node."""
        assert self._process is not None, "the node is not running"
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start the process and, unless told otherwise, wait until it is ready."""
        assert self._process is None, "the node is running already"
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), cwd=self.directory, stdout=log, stderr=log,
                env=_environment(), start_new_session=True, preexec_fn=self._prepare,
            )  # fmt: skip
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return when the node says that it is ready; fail if it ends or takes too long."""
        assert self._process is not None
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.is_ready():
            if self._process.poll() is not None:
                raise AssertionError(f"the node ended with {self._process.returncode}")
            if time.monotonic() > deadline:
                raise AssertionError("the node did not become ready")
            time.sleep(0.01)

    def is_ready(self) -> bool:
        """Ask the node over HTTP whether it is ready."""
        return self.answers("/ready")

    def answers(self, path: str) -> bool:
        """Return whether the node answers a request over HTTP with 200."""
        try:
            with urllib.request.urlopen(f"{self.http}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def kill9(self) -> None:
        """End the process as a crash would."""
        self._signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> int:
        """Ask the node to stop and return its exit status."""
        self._signal(signal.SIGTERM)
        return self._wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal and do not wait for what comes of it."""
        self._signal(number)

    def wait(self) -> int:
        """Wait until the process ends, and return its exit status."""
        return self._wait()

    def restart(self) -> None:
        """Kill the node, if it runs, and start it again on the same data."""
        if self._process is not None:
            self.kill9()
        self.start()

    def close(self) -> None:
        """End the process if it still runs, whatever its state."""
        if self._process is not None:
            self.kill9()

    def is_running(self) -> bool:
        """Return whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels, as `/metrics` shows it now."""
        with urllib.request.urlopen(f"{self.http}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        values = [line.rpartition(" ")[2] for line in lines if re.match(rf"{name}[ {{]", line)]
        assert values, f"no metric is called {name}"
        return sum(map(float, values))

    def resident_bytes(self) -> int:
        """Return how much memory the process holds now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _command(self) -> list[str]:
        settings = {
            "data_dir": str(self.data),
            "kafka.port": str(self.address[1]),
            "http.port": str(self.http_address[1]),
            "framed.port": str(self.framed_address[1]),
            "provider.port": str(self.provider_address[1]),
            "mqtt.port": str(self.mqtt_address[1]),
            "amqp.port": str(self.amqp_address[1]),
            "mqtt.tls_port": "0",
            "capnp.port": str(self.capnp_address[1]),
            "grpc.port": str(self.grpc_address[1]),
            **self.settings,
        }
        command = [sys.executable, "-m", "chordmq", "serve"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def _prepare(self) -> None:
        """Set what the kernel is to do to the process; runs in it, before the node's program."""
        die_with_parent()
        if self.file_size_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_size_max, self.file_size_max))

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _wait(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None


_LIBC = ctypes.CDLL(None)
"""Loaded here: a process that was just forked from one with threads had better load nothing."""


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends, even by kill -9."""
    pr_set_pdeathsig = 1
    _LIBC.prctl(pr_set_pdeathsig, signal.SIGKILL)


_SLICE_SIZE = 700
# Processes that run tests at the same time look in different places: workers of one run certainly.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
_SLICE_NUMBER = os.getppid() + int(_WORKER) if _WORKER.isdigit() else os.getpid()
_SLICE = PORTS[_SLICE_NUMBER % (len(PORTS) // _SLICE_SIZE) * _SLICE_SIZE :][:_SLICE_SIZE]
# A port that was given and is not in use yet is not given again before all others were.
_ORDER = itertools.cycle(random.SystemRandom().sample(_SLICE, len(_SLICE)))


def free_port() -> int:
    """Return a loopback port that nobody listens on and that the kernel does not hand out."""
    for port in _ORDER:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("a cycle does not end")


def _environment() -> dict[str, str]:
    """Return the environment of a user: neither our settings nor Python's development mode."""
    ours = ("CHORDMQ_", "PYTHONDEVMODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}

"""A real RabbitMQ: the peer of the AMQP front, and the oracle of what its clients may expect."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from benchmarks.peers import free_port

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
CONTROL = SERVER.parent / "rabbitmqctl"
READY_TIMEOUT_S = 60.0
UNTIL_THE_END = 'epmd -port "$ERL_EPMD_PORT" & "$0" < /dev/null & cat; kill -9 0'
"""Ends with whoever has started it, even by kill -9; a daemon of Erlang's would stay behind."""


class RabbitMQ:
    """One broker on free ports with a directory of its own, in a process group of its own."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._ports = {"RABBITMQ_DIST_PORT": free_port(), "ERL_EPMD_PORT": free_port()}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the process id of its virtual machine, which does the work."""
        return int((self._directory / "pid").read_text())

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "plugins").write_text("[].\n")
        with (self._directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", UNTIL_THE_END, str(SERVER)], env=self._environment(),
                stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            assert self._process.poll() is None, (self._directory / "output").read_text()
            assert time.monotonic() < deadline, "RabbitMQ did not become ready"
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in order: kill -9 may cost queues of the last three minutes.

        RabbitMQ 3.10 writes down so seldom which quorum queues there are.
        """
        command = [str(CONTROL), "stop", str(self._directory / "pid")]
        subprocess.run(
            command, env=self._environment(), check=True, timeout=READY_TIMEOUT_S,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.close()

    def close(self) -> None:
        """End it with all that it has started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                probe.settimeout(1)
                return bool(probe.recv(1))
        except OSError:
            return False

    def _environment(self) -> dict[str, str]:
        directory = self._directory
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"oracle{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(directory / "none"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            **{name: str(port) for name, port in self._ports.items()},
        }

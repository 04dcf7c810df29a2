"""Real brokers for the contract of drivers: started, killed and started again on the same data."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Protocol

import pytest

from benchmarks.peers import Peer, start_kafka
from benchmarks.rabbitmq import RabbitMQ
from tests.running_node import RunningNode, die_with_parent, free_port

READY_TIMEOUT_S = 60.0


class Server(Protocol):
    """A broker that keeps its address and its data over restarts."""

    @property
    def address(self) -> str:
        """Return what the driver is told."""
        ...

    def start(self) -> None:
        """Start it, and wait until it answers."""
        ...

    def end(self) -> None:
        """End it as a crash would, if it survives one."""
        ...

    def close(self) -> None:
        """End it at the end of the tests."""
        ...


class ChordMQServer:
    """A node of our own."""

    def __init__(self, directory: Path) -> None:
        self.node = RunningNode(directory, {"broker.num.partitions": "4"})

    @property
    def address(self) -> str:
        """Return what the driver is told."""
        return f"chordmq://{self.node.bootstrap}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.node.start()

    def end(self) -> None:
        """End it as a crash would."""
        self.node.close()

    def close(self) -> None:
        """End it at the end of the tests."""
        self.end()


class RedisServer:
    """A Redis that writes everything down before it answers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return what the driver is told."""
        return f"redis://127.0.0.1:{self._port}/0?redelivery_ms=8000"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        options = {"port": str(self._port), "bind": "127.0.0.1", "dir": str(self._directory)}
        options |= {"appendonly": "yes", "appendfsync": "always", "save": ""}
        command = ["redis-server"]
        for name, value in options.items():
            command += [f"--{name}", value]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            assert self._process.poll() is None, (self._directory / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "Redis did not become ready"
            time.sleep(0.01)

    def end(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End it at the end of the tests."""
        self.end()

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


class RabbitServer:
    """A RabbitMQ as Debian packs it."""

    def __init__(self, directory: Path) -> None:
        self._broker = RabbitMQ(directory)

    @property
    def address(self) -> str:
        """Return what the driver is told."""
        return f"rabbitmq://guest:guest@127.0.0.1:{self._broker.port}/"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._broker.start()

    def end(self) -> None:
        """End it in order: young queues would not survive a crash."""
        self._broker.stop()

    def close(self) -> None:
        """End it at the end of the tests."""
        self._broker.close()


class KafkaServer:
    """An Apache Kafka from Maven."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._peer: Peer | None = None

    @property
    def address(self) -> str:
        """Return what the driver is told."""
        assert self._peer is not None
        return f"kafka://{self._peer.bootstrap}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._peer = start_kafka(self._directory, ["log.flush.interval.messages=1"])

    def end(self) -> None:
        """End it as a crash would."""
        if self._peer is not None:
            self._peer.kill()

    def close(self) -> None:
        """End it at the end of the tests."""
        self.end()


SERVERS: dict[str, type[ChordMQServer | RedisServer | RabbitServer | KafkaServer]] = {
    "chordmq": ChordMQServer,
    "redis": RedisServer,
    "rabbitmq": RabbitServer,
    "kafka": KafkaServer,
}
OTHERS = [
    "redis",
    pytest.param("rabbitmq", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    pytest.param("kafka", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
]
"""Brokers of others, as parameters of a test; those that take long to start are slow."""

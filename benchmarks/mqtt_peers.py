"""Runs the MQTT brokers that this node is compared with."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import free_port

TIMEOUT_S = 60.0

Running = tuple[tuple[str, int], int]
"""The address, and the process id."""


@contextmanager
def mosquitto(directory: Path) -> Iterator[Running]:
    """Run a mosquitto for the length of a block."""
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    port = free_port()
    settings = Path(directory) / "mosquitto.conf"
    settings.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\n"
        "max_queued_messages 0\nset_tcp_nodelay true\n"
    )
    with _running([program, "-c", str(settings)], port) as found:
        yield found


@contextmanager
def amqtt(directory: Path) -> Iterator[Running | None]:
    """Run amqtt, if it is installed (`uv tool install amqtt`: it wants libraries of its own)."""
    program = shutil.which("amqtt") or shutil.which("amqtt", path=Path.home() / ".local/bin")
    if program is None:
        yield None
        return
    port = free_port()
    settings = Path(directory) / "amqtt.yaml"
    settings.write_text(
        f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{port}\n"
        "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: true\n"
    )
    with _running([program, "-c", str(settings)], port) as found:
        yield found


@contextmanager
def _running(command: list[str], port: int) -> Iterator[Running]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = ("127.0.0.1", port)
    try:
        _wait_for(address)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: tuple[str, int]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            socket.create_connection(address, timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)

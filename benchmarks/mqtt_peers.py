"""Runs the MQTT brokers that this node is compared with."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import free_port
from benchmarks.servers import Running, run_server


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
    with run_server([program, "-c", str(settings)], port) as found:
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
    with run_server([program, "-c", str(settings)], port) as found:
        yield found

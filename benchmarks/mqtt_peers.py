"""Runs the MQTT brokers that this node is compared with."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import ROOT, free_port
from benchmarks.servers import Running, run_server

AMQTT_VERSION = "0.12.1"
AMQTT = ROOT / ".cache" / f"amqtt-{AMQTT_VERSION}"


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
def amqtt(directory: Path) -> Iterator[Running]:
    """Run amqtt for the length of a block."""
    program = _installed_amqtt()
    port = free_port()
    settings = Path(directory) / "amqtt.yaml"
    settings.write_text(
        f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{port}\n"
        "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: true\n"
    )
    with run_server([program, "-c", str(settings)], port) as found:
        yield found


def _installed_amqtt() -> str:
    """Return the program, which is installed once beside ours: it wants libraries of its own."""
    program = AMQTT / "bin" / "amqtt"
    if not program.exists():
        uv = [str(Path(sys.executable).parent / "uv"), "--system-certs"]
        subprocess.run([*uv, "venv", "-q", "--clear", "-p", sys.executable, AMQTT], check=True)
        install = ["pip", "install", "-q", "-p", str(AMQTT), f"amqtt=={AMQTT_VERSION}"]
        subprocess.run([*uv, *install], check=True)
    return str(program)

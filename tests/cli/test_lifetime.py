"""What a node loads before anybody asks it for anything."""

import subprocess
import sys
from pathlib import Path

from tests.cli.command_line import ENVIRONMENT

FRONTS = ("kafka", "http", "framed", "provider", "mqtt", "amqp", "capnp", "grpc", "peer")
START = """
import os, signal, sys
from chordmq.cli import lifetime

def tell(node):
    print(*sys.modules)
    os.kill(os.getpid(), signal.SIGTERM)

lifetime.announce = tell
lifetime.serve(None, sys.argv[1:], False)
"""
FOR_OTHERS = {
    # commands, and what they show
    "click", "typer", "rich", "structlog", "yaml",
    # HTTP
    "starlette", "uvicorn", "h11", "http.client", "email", "anyio", "websockets", "chordmq.web",
    # other protocols
    "pamqp", "grpc", "capnp", "chordmq.fronts.admin.app", "chordmq.fronts.mqtt.front",
    "chordmq.fronts.amqp.connection", "chordmq.fronts.amqp1.connection", "chordmq.fronts.rpc.front",
    "chordmq.fronts.framed.connection", "chordmq.fronts.provider.connection",
    "chordmq.fronts.websocket.front", "chordmq.broker.queues.queues", "chordmq.codecs.mqtt",
    "chordmq.codecs.amqp", "chordmq.codecs.amqp1",
    # clusters, trees of nodes and what nodes run for others
    "chordmq.broker.clustering", "chordmq.cluster.links", "chordmq.cluster.ring.member",
    "chordmq.fronts.peer.connection", "chordmq.client.connection", "chordmq.topology.pipes",
    "chordmq.cdc", "chordmq.archive", "chordmq.consumer_app", "chordmq.broker.absent",
    "chordmq.broker.bounds", "chordmq.broker.forwarding", "chordmq.broker.leaders",
    "chordmq.broker.replica", "chordmq.broker.cursors.routing", "chordmq.broker.groups.reach",
    "chordmq.cluster.administration", "chordmq.cluster.link", "chordmq.codecs.peer",
    "chordmq.topology.pipe", "chordmq.topology.registry", "chordmq.client.breaker",
    # devices
    "chordmq.iot.service", "chordmq.iot.devices", "chordmq.iot.envelope",
    # what few requests need
    "chordmq.fronts.kafka.acls", "chordmq.fronts.kafka.transactions", "chordmq.fronts.kafka.groups",
    "chordmq.fronts.kafka.share_fetch", "chordmq.fronts.kafka.topics", "chordmq.fronts.kafka.fetch",
    "cramjam", "re2", "cryptography", "jwt", "scramp", "prometheus_client", "crc32c",
    "importlib.metadata", "typing_extensions", "argparse", "multiprocessing", "ctypes",
    "encodings.idna", "shutil", "chordmq.broker.interceptors",
}  # fmt: skip


def test_a_node_loads_only_what_it_needs_to_be_ready(tmp_path: Path) -> None:
    """X2, X6: what nobody has asked for takes neither time at the start nor memory."""
    settings = [f"data_dir={tmp_path / 'data'}", *(f"{front}.port=0" for front in FRONTS)]
    ended = subprocess.run(
        [sys.executable, "-c", START, *settings],
        capture_output=True, text=True, timeout=60, env=ENVIRONMENT, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert FOR_OTHERS & set(ended.stdout.split()) == set()

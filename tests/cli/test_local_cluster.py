"""`chordmq up --nodes 3`: a cluster on this machine, started and stopped by one command."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordmq.cli.local_cluster import free_port

LISTENERS = ("kafka", "http", "framed", "peer", "mqtt", "amqp", "provider", "capnp", "grpc")
PATIENCE_S = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a cluster of three on free ports; whatever is left of it is killed."""
    command = [sys.executable, "-m", "chordmq", "up", "--nodes", "3"]
    for name in LISTENERS:
        command += ["--set", f"{name}.port=0"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    yield process
    children = children_of(process.pid)
    process.kill()
    process.communicate()
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except FileNotFoundError:
        return []


def addresses(process: subprocess.Popen[str], directory: Path) -> list[str]:
    """Return the HTTP addresses that the welcome names; without one, show what was written."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "stops all nodes" in line:
            return re.findall(r"HTTP (http://\S+)", said)
    logs = "\n".join(f"{log}:\n{log.read_text()}" for log in directory.rglob("*.log"))
    raise AssertionError(f"no welcome:\n{said}\n{logs}")


def test_one_command_starts_a_cluster_and_stops_all_of_it(
    cluster: subprocess.Popen[str], tmp_path: Path
) -> None:
    """X2, A8: nodes that find each other, with their etcd, from one command."""
    urls = addresses(cluster, tmp_path)
    assert len(urls) == 3
    children = children_of(cluster.pid)
    assert len(children) == 4
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with urllib.request.urlopen(f"{urls[2]}/v1/cluster", timeout=60) as answer:
            shown = json.load(answer)
        is_linked = all(node["live"] and node["linked"] for node in shown["nodes"])
        if is_linked and sorted(shown["ring"]["successors"]) == [1, 2]:
            break
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
    assert [node["id"] for node in shown["nodes"]] == [1, 2, 3]
    assert sum(node["controller"] for node in shown["nodes"]) == 1
    with urllib.request.urlopen(f"{urls[0]}/v1/cluster/owners/orders", timeout=60) as answer:
        assert json.load(answer)["node"] in (1, 2, 3)
    cluster.send_signal(signal.SIGINT)
    assert cluster.wait(PATIENCE_S) == 0
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def test_without_etcd_people_are_told_what_to_install(tmp_path: Path) -> None:
    python = Path(sys.executable)
    outcome = subprocess.run(
        [str(python), "-m", "chordmq", "up", "--nodes", "2"], cwd=tmp_path, check=False,
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert shutil.which("etcd") is not None, "it is there on this machine"
    assert outcome.returncode == 1
    assert "etcd-server" in outcome.stderr


def test_no_port_is_given_twice_nor_one_that_is_in_use() -> None:
    """X2: nodes start some seconds after their ports were chosen."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        given: set[int] = set()
        ports = [free_port(taken, given) for _ in range(200)]
    assert len({*ports}) == len(ports)
    assert taken not in ports
    assert given == {*ports}
    first_of_system = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) < first_of_system

"""Nodes as processes: how they start, refuse to start, and end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.running_node import RunningNode, free_port
from tests.wire import CREATE_TOPICS, FETCH, METADATA, PRODUCE, Wire, record_batch

PRODUCE_VERSION = 9
REQUESTS = 200


def create(wire: Wire, topic: str) -> None:
    answer = wire.call(
        CREATE_TOPICS, 5, timeout_ms=10_000,
        topics=[{"name": topic, "num_partitions": 1, "replication_factor": 1}],
    )  # fmt: skip
    assert int(answer.topics[0].error_code) == 0


def send_produce(wire: Wire, topic: str, value: bytes) -> int:
    partition = {"index": 0, "records": record_batch([value])}
    return wire.send(
        PRODUCE, PRODUCE_VERSION, acks=-1, timeout_ms=10_000,
        topic_data=[{"name": topic, "partition_data": [partition]}],
    )  # fmt: skip


def end_offset(wire: Wire, topic: str) -> int:
    answer = wire.call(
        FETCH, 4, max_wait_ms=0, min_bytes=0, max_bytes=1_000,
        topics=[{"topic": topic, "partitions": [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}],
    )  # fmt: skip
    return int(answer.responses[0].partitions[0].high_watermark)


def run(
    *arguments: str, directory: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "chordmq", *arguments],
        cwd=directory, env={**os.environ, **(environment or {})}, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def ready_lines(node: RunningNode) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in node.log.read_text().splitlines()]
    return [line for line in lines if line["event"] == "ready"]


def test_a_node_says_how_fast_it_was_ready(own_node: RunningNode) -> None:
    """X2, C15: ready in about a second, said in a structured log."""
    (line,) = ready_lines(own_node)
    print(f"start to ready: {line['start_ms']} ms")
    assert line["kafka"] == own_node.bootstrap
    assert isinstance(line["start_ms"], int)


def test_what_was_acknowledged_before_a_stop_is_there_after_it(
    own_node: RunningNode, name: str
) -> None:
    """C13: requests under way are finished, then the node ends; nothing is lost or doubled."""
    with Wire(own_node.address) as wire:
        create(wire, name)
        ids = [send_produce(wire, name, b"%d" % number) for number in range(REQUESTS)]
        first = wire.receive(PRODUCE, PRODUCE_VERSION, ids[0])
        os.kill(own_node.pid, signal.SIGTERM)
        acknowledged = [first.responses[0].partition_responses[0].base_offset]
        for number in ids[1:]:
            frame = wire.receive_frame()
            if frame is None:
                break
            assert int.from_bytes(frame[:4], "big") == number
            acknowledged.append(len(acknowledged))
    assert own_node.stop() == 0
    own_node.start()
    with Wire(own_node.address) as wire:
        assert len(acknowledged) <= end_offset(wire, name) <= REQUESTS


def test_clients_that_wait_do_not_hold_up_a_stop(start_node: StartNode, name: str) -> None:
    """C13: an idle connection and a waiting fetch end at once."""
    node = start_node({"shutdown_timeout_s": "30"})
    with Wire(node.address) as idle, Wire(node.address) as waiting:
        create(idle, name)
        waiting.send(
            FETCH, 4, max_wait_ms=60_000, min_bytes=1, max_bytes=1_000,
            topics=[{"topic": name, "partitions": [
                {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]}],
        )  # fmt: skip
        idle.call(METADATA, 4, topics=None)
        began = time.monotonic()
        assert node.stop() == 0
        assert time.monotonic() - began < 15


def stuck_client(node: RunningNode, topic: str) -> Wire:
    """Return a client that has asked for a lot and reads nothing."""
    wire = Wire(node.address)
    create(wire, topic)
    for _ in range(40):
        number = send_produce(wire, topic, b"x" * 900_000)
        wire.receive(PRODUCE, PRODUCE_VERSION, number)
    for _ in range(2):
        wire.send(
            FETCH, 4, max_wait_ms=0, min_bytes=0, max_bytes=36_000_000,
            topics=[{"topic": topic, "partitions": [
                {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 36_000_000}]}],
        )  # fmt: skip
    wire.socket.recv(1)
    return wire


def test_a_client_that_takes_no_answers_delays_a_stop_only_so_long(
    start_node: StartNode, name: str
) -> None:
    """C13: a stop takes bounded time."""
    node = start_node({"shutdown_timeout_s": "0.5"})
    with stuck_client(node, name):
        assert node.stop() == 0


def test_a_second_signal_ends_the_node_at_once(start_node: StartNode, name: str) -> None:
    node = start_node({"shutdown_timeout_s": "300"})
    with stuck_client(node, name):
        os.kill(node.pid, signal.SIGINT)
        while node.is_ready():
            time.sleep(0.01)
        assert node.stop() == 130


def test_a_second_node_on_the_same_data_is_refused(own_node: RunningNode, tmp_path: Path) -> None:
    settings = [
        f"data_dir={own_node.data}",
        f"kafka.port={free_port()}",
        f"http.port={free_port()}",
    ]
    result = run("serve", *(f"--set={setting}" for setting in settings), directory=tmp_path)
    assert result.returncode == 1
    assert f"Another node (process {own_node.pid}) uses the data directory" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_that_is_taken_is_named(own_node: RunningNode, tmp_path: Path) -> None:
    port = own_node.address[1]
    settings = [f"kafka.port={port}", f"http.port={free_port()}"]
    result = run("serve", *(f"--set={setting}" for setting in settings), directory=tmp_path)
    assert result.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use" in result.stderr
    assert "--set kafka.port=" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("kafka.prot=1", "did you mean 'kafka.port'?"),
        ("kafka.host=0.0.0.0", "--insecure"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(
    tmp_path: Path, setting: str, complaint: str
) -> None:
    result = run("serve", "--set", setting, directory=tmp_path)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert not list(tmp_path.iterdir())


def test_up_needs_no_configuration_and_says_what_to_do_next(tmp_path: Path) -> None:
    """X2: one command starts everything, with data in ./data."""
    kafka, http = free_port(), free_port()
    ports = {"CHORDMQ_KAFKA_PORT": str(kafka), "HTTP_PORT": str(http), "COLUMNS": "100"}
    command = [sys.executable, "-m", "chordmq", "up"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, **ports}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        shown = ""
        while "Ctrl-C" not in shown:
            line = process.stdout.readline()
            assert line, f"the node ended: {shown}"
            shown += line
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert f"127.0.0.1:{kafka}" in shown
    assert f"http://127.0.0.1:{http}/metrics" in shown
    assert "chordmq produce hello" in shown
    assert (tmp_path / "data" / "meta.db").exists()

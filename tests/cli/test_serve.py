"""Nodes as processes: how they start, refuse to start, and end."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.conftest import StartNode
from tests.running_node import RunningNode, free_port
from tests.waiting import wait_until
from tests.wire import (
    CREATE_TOPICS,
    METADATA,
    PRODUCE,
    Wire,
    produce_fields,
    record_batch,
    response,
    stored,
)

REQUESTS = 200


def create(wire: Wire, topic: str) -> None:
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    answer = wire.call(CREATE_TOPICS, 5, topics=[wanted], timeout=10_000)
    assert answer.topics[0].error_code is ErrorCode.none


def run(
    *arguments: str, directory: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "chordmq", *arguments],
        cwd=directory, env={**os.environ, **(environment or {})}, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def log_lines(node: RunningNode) -> list[dict[str, object]]:
    """Return what the node has logged; every line must be JSON, so no traceback stands there."""
    lines = node.log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def is_announced(node: RunningNode) -> bool:
    """Return whether the node has said that it is ready: it serves a moment before."""
    return any(line["event"] == "ready" for line in log_lines(node))


def test_a_node_says_how_fast_it_was_ready(own_node: RunningNode) -> None:
    """X2, C15: ready in about a second, said in a structured log."""
    wait_until(lambda: is_announced(own_node))
    (line,) = (line for line in log_lines(own_node) if line["event"] == "ready")
    print(f"start to ready: {line['start_ms']} ms")
    assert line["kafka"] == own_node.bootstrap
    assert isinstance(line["start_ms"], int)


def test_a_module_logs_as_much_as_it_was_told_to(start_node: StartNode) -> None:
    """C15: a level per module, from the start."""
    node = start_node({"logs.level": "error", "logs.levels.chordmq.cli.lifetime": "info"})
    wait_until(lambda: is_announced(node))
    assert [line["event"] for line in log_lines(node)] == ["ready"]


def test_what_was_acknowledged_before_a_stop_is_there_after_it(
    own_node: RunningNode, name: str
) -> None:
    """C13: requests under way are finished, then the node ends; nothing is lost or doubled."""
    with Wire(own_node.address) as wire:
        create(wire, name)
        values = [b"%d" % number for number in range(REQUESTS)]
        ids = [
            wire.send(PRODUCE, 9, **produce_fields(name, record_batch([value]))) for value in values
        ]
        wire.receive(PRODUCE, 9, ids[0])
        own_node.send_signal(signal.SIGTERM)
        acknowledged = 1
        while (frame := wire.receive_frame()) is not None:
            answer = response(PRODUCE, 9, ids[acknowledged], frame).responses[0]
            assert answer.partition_responses[0].error_code is ErrorCode.none
            acknowledged += 1
    assert own_node.wait() == 0
    assert "error" not in {line["level"] for line in log_lines(own_node)}
    own_node.start()
    with Wire(own_node.address) as wire:
        kept = [value for _, value in stored(wire.fetch(name, 0).records)]
    assert kept == values[: len(kept)]
    assert acknowledged <= len(kept)


def test_clients_that_wait_do_not_hold_up_a_stop(start_node: StartNode, name: str) -> None:
    """C13: an idle connection and a waiting fetch end at once."""
    node = start_node({"shutdown_timeout_s": "60"})
    with Wire(node.address) as idle, Wire(node.address) as waiting:
        create(idle, name)
        waiting.send_fetch(name, 0, max_wait=60_000)
        idle.call(METADATA, 4, topics=None)
        assert node.stop() == 0


def test_a_signal_during_recovery_is_heeded_when_it_ends(own_node: RunningNode) -> None:
    """C13: a node that is told to stop while it starts does stop, in order."""
    assert own_node.stop() == 0
    with closing(sqlite3.connect(own_node.data / "meta.db", isolation_level=None)) as blocker:
        blocker.execute("PRAGMA locking_mode=EXCLUSIVE")
        blocker.execute("BEGIN EXCLUSIVE")
        own_node.start(wait=False)
        while not own_node.answers("/healthz"):
            time.sleep(0.01)
        own_node.send_signal(signal.SIGTERM)
    assert own_node.wait() == 0


@contextmanager
def stuck_client(node: RunningNode, topic: str) -> Iterator[None]:
    """Keep a client connected that has asked for a lot and reads nothing of it."""
    with Wire(node.address) as wire:
        create(wire, topic)
        for _ in range(20):
            wire.produce(topic, record_batch([b"x" * 900_000]))
        for _ in range(2):
            wire.send_fetch(topic, 0, max_bytes=30_000_000, partition_max_bytes=30_000_000)
        wire.socket.recv(1)
        yield


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
        node.send_signal(signal.SIGINT)
        while node.is_ready():
            time.sleep(0.01)
        assert node.stop() == 130


def test_a_second_node_on_the_same_data_is_refused(own_node: RunningNode, tmp_path: Path) -> None:
    settings = [
        f"data_dir={own_node.data}",
        f"kafka.port={free_port()}",
        f"http.port={free_port()}",
        "framed.port=0",
        "provider.port=0",
        "mqtt.port=0",
        "amqp.port=0",
        "capnp.port=0",
        "grpc.port=0",
    ]
    result = run("serve", *(f"--set={setting}" for setting in settings), directory=tmp_path)
    assert result.returncode == 1
    assert f"Another node (process {own_node.pid}) uses the data directory" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_that_is_taken_is_named(own_node: RunningNode, tmp_path: Path) -> None:
    port = own_node.address[1]
    settings = [f"kafka.port={port}", f"http.port={free_port()}", "framed.port=0"]
    settings += ["provider.port=0", "mqtt.port=0", "amqp.port=0", "capnp.port=0", "grpc.port=0"]
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


def test_data_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.db").write_bytes(b"this is no database" * 1000)
    settings = [
        f"--set=kafka.port={free_port()}",
        f"--set=http.port={free_port()}",
        "--set=framed.port=0",
        "--set=provider.port=0",
        "--set=mqtt.port=0",
        "--set=amqp.port=0",
        "--set=capnp.port=0",
        "--set=grpc.port=0",
    ]
    result = run("serve", *settings, directory=tmp_path)
    assert result.returncode == 1
    assert "meta.db" in result.stderr
    assert "Traceback" not in result.stderr


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
        assert process.wait(60) == 0
    assert f"127.0.0.1:{kafka}" in shown
    assert f"http://127.0.0.1:{http}/metrics" in shown
    assert f"chordmq -b 127.0.0.1:{kafka} produce hello" in shown
    assert (tmp_path / "data" / "meta.db").exists()

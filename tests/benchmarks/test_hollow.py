"""Real clients take the broker that keeps nothing for one that does."""

import sys
from pathlib import Path

import pytest

from benchmarks import hollow, java_tools, load
from benchmarks.peers import free_port
from benchmarks.servers import run_server


@pytest.mark.parametrize("size", [100, 1024])
def test_librdkafka_sends_and_receives_as_much_as_it_is_asked_to(size: int) -> None:
    """C16: what is measured is the client, at its full rate."""
    port = free_port()
    with run_server([sys.executable, "-m", "benchmarks.hollow", str(port), str(size)], port):
        bootstrap = f"127.0.0.1:{port}"
        sent = load.produce(bootstrap, hollow.TOPIC, size, {"acks": "all"}, (30.0, 20_000))
        got = load.consume(bootstrap, hollow.TOPIC, 1, 20_000)
    assert sent.count == 20_000
    assert got.count >= 20_000
    assert got.size == got.count * size


def test_what_is_acknowledged_by_the_disk_is_in_the_file(tmp_path: Path) -> None:
    """C16: what is measured with a flush has one."""
    port, file = free_port(), tmp_path / "taken"
    command = [sys.executable, "-m", "benchmarks.hollow", str(port), "1024", str(file)]
    with run_server(command, port):
        to = f"127.0.0.1:{port}", hollow.TOPIC
        sent = load.produce(*to, 1024, load.ACKS["acksall"], (30.0, 6_000))
    assert sent.count == 6_000
    assert file.stat().st_size > 6_000 * 1024


def test_the_java_client_sends_as_much_as_it_is_asked_to() -> None:
    """C16: as an idempotent producer, which is its default."""
    port = free_port()
    with run_server([sys.executable, "-m", "benchmarks.hollow", str(port), "100"], port):
        done = java_tools.producer_performance(
            f"127.0.0.1:{port}", hollow.TOPIC, 100, {"acks": "all"}, 10_000
        )
    assert done.rate.count == 10_000

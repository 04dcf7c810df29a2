"""The load generators of the benchmark, each against a running node."""

import gc
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pamqp import commands

from benchmarks import amqp, java_tools, load, report, soak, sockets, versions
from benchmarks.peers import PeerFailed
from benchmarks.usage import usage_of
from tests.running_node import RunningNode

ROOT = Path(__file__).parent.parent.parent
SECONDS = 0.2


def test_sockets_produce_what_a_consumer_then_counts(node: RunningNode, name: str) -> None:
    """C16: batches of the benchmark's own making arrive whole."""
    load.create_topic(node.bootstrap, name, 1, {"flush": "os"})

    batches = sockets.produce_pipelined(node.bootstrap, name, (10, 100), (5.0, 20))
    single = sockets.produce_in_turn(node.bootstrap, name, 3, SECONDS)

    assert batches.count == 200
    assert sockets.count_records(node.bootstrap, name, 1) == 200 + single.count


def test_librdkafka_produces_and_consumes_what_was_asked(node: RunningNode, name: str) -> None:
    """C16: the benchmark's librdkafka load counts what was delivered."""
    load.create_topic(node.bootstrap, name, 4, {"flush": "os"})

    written = load.produce(node.bootstrap, name, 100, {"acks": "all"}, (10.0, 10_000))

    assert written.count == 10_000
    assert sockets.count_records(node.bootstrap, name, 4) == 10_000
    assert load.consume(node.bootstrap, name, 4, 10_000).count == 10_000


def test_latency_is_measured_for_every_message(node: RunningNode, name: str) -> None:
    """C16: the time from produce to arrival, at a fixed rate."""
    load.create_topic(node.bootstrap, name, 1, {"flush": "os"})

    found = load.latencies(node.bootstrap, name, rate=200, seconds=2.0)

    assert 0 < found.p50 <= found.p99 <= found.p999


def test_a_soak_accounts_for_every_message(node: RunningNode, name: str) -> None:
    """X6: what was acknowledged is received once and in order, with the node's memory beside it."""
    rows, faults = soak.soak(node, name, 2_000, 2.0)

    assert faults == []
    assert rows[-1]["received"] > 0
    assert rows[-1]["under_way"] == 0
    assert rows[-1]["rss_mb"] > 0


def test_workers_of_an_amqp_queue_get_all_messages_together(node: RunningNode) -> None:
    """E4: the case ends when the last message is acknowledged, whoever has got it."""
    assert amqp.shared(node.amqp_address, 2_000) > 0


@pytest.mark.parametrize("workers", [1, 3])
def test_a_backlog_of_an_amqp_queue_is_worked_off(node: RunningNode, workers: int) -> None:
    """E4: the case ends when all that waited is acknowledged, and leaves no queue behind."""
    amqp.publisher(node.amqp_address).socket.close()  # a front without a client has no metrics
    before = node.metric("chordmq_amqp_queues")
    assert amqp.backlog(node.amqp_address, workers, 6_000) > 0
    assert node.metric("chordmq_amqp_queues") == before


def test_a_worker_counts_what_came_with_the_answer_to_its_first_call(node: RunningNode) -> None:
    """E4: if that is all there is, nothing more comes that it could count it with."""
    queue, count = "bench-early", 50
    amqp.pile_up(node.amqp_address, queue, count)
    client, size = amqp.Client(node.amqp_address), amqp.delivered_size("", queue)
    amqp.begin(client, queue)
    while len(client.rest) < count * size:
        client.rest += client.receive()
    share = amqp.Share(count)
    worker = threading.Thread(target=amqp.work, args=(client, size, share), daemon=True)
    worker.start()
    is_done = share.is_done.wait(10)
    share.is_done.set()
    worker.join()
    client.socket.close()
    last = amqp.Client(node.amqp_address)
    last.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)
    last.socket.close()
    assert is_done


def test_many_connections_are_all_answered_while_all_are_open(node: RunningNode) -> None:
    socks = sockets.open_connections(node.bootstrap, 300)
    try:
        assert sockets.ask_all(socks).count == 300
    finally:
        sockets.close_connections(socks)


def test_the_cost_of_a_process_is_read_from_the_system(node: RunningNode) -> None:
    used = usage_of(node.pid)

    assert used.cpu_s > 0
    assert 10 < used.rss_mb <= used.peak_mb


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_kafkas_own_tools_measure_a_node(node: RunningNode, name: str) -> None:
    """C16: ProducerPerformance, ConsumerPerformance and EndToEndLatency run against a node."""
    load.create_topic(node.bootstrap, name, 1, {"flush": "os"})

    settings = {"acks": "all"}
    written = java_tools.producer_performance(node.bootstrap, name, 100, settings, 20_000)
    read = java_tools.consumer_performance(node.bootstrap, name, 100, 20_000)
    latency, _ = java_tools.end_to_end_latency(node.bootstrap, name, 200)

    assert written.rate.count == 20_000
    assert read.rate.count >= 20_000
    assert latency.p50 <= latency.p99


def test_the_benchmark_command_writes_its_rows(tmp_path: Path) -> None:
    """C16: one command starts a node, measures it and writes what it found."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--ours-only", "--case", "start"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads((tmp_path / "latest.json").read_text())
    assert row["name"] == "start"
    assert 0 < row["ours"] < 60
    assert row["peer_name"] == report.PEER_NAME
    assert json.loads((tmp_path / "latest.meta.json").read_text())["cores"] >= 1


def test_versions_are_compared_by_their_own_programs(tmp_path: Path) -> None:
    """C16: a version that does not start is noticed, so none is measured in place of another."""
    work = versions.Load(lambda peer: (1000.0, 2.0), "MB/s", "s/GB", 10.0)
    found = versions.compare([ROOT], work, 1)
    [one] = found[ROOT]
    assert one.rate == 50.0
    assert 0 <= one.cost < 1  # processor seconds of a node that had nothing to do
    broken = tmp_path / "src" / "chordmq"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise SystemExit('a version that does not start')")
    with pytest.raises(PeerFailed, match="a version that does not start"):
        versions.measure(tmp_path, work)


def test_no_load_is_interrupted_by_a_look_for_unused_objects() -> None:
    """C16: the program that measures keeps much, and would look through it beside its clients."""
    was_enabled: list[bool] = []

    def give_up() -> None:
        was_enabled.append(gc.isenabled())
        raise load.LoadFailed("the client gave up")

    with pytest.raises(load.LoadFailed), load.uncollected():
        give_up()
    assert was_enabled == [False]
    assert gc.isenabled()


def test_a_producer_is_timed_from_its_first_answer(node: RunningNode, name: str) -> None:
    """C16: an idempotent client may wait half a second for its number, whatever the broker."""
    load.create_topic(node.bootstrap, name, 1, {"flush": "os"})

    written = load.produce(node.bootstrap, name, 100, load.ACKS["acksall"], (10.0, 2_000))

    assert (written.count, written.before) == (2_000, 1)
    assert sockets.count_records(node.bootstrap, name, 1) == 2_000

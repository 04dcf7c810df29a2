"""Proves that Java and kafka-python lose and repeat nothing while all nodes are restarted."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from benchmarks.peers import kafka_libs
from tests.cluster.running_cluster import RunningCluster, until
from tests.cluster.test_fail_over import create, in_sync, leader, read_all
from tests.interop.program import installed
from tests.interop.test_java import OPTIONS

COUNT = 15_000
RATE = 1_000

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path) as running:
        yield running


def restart_all(cluster: RunningCluster, topic: str) -> None:
    """Stop and start one node after the other, the leader with kill -9."""
    first = leader(cluster, topic)
    for number, node in cluster.nodes.items():
        if number == first:
            node.kill9()
        else:
            assert node.stop() == 0
        node.start()
        until(lambda: len(in_sync(cluster, topic)) == 3)


def test_javas_producer_loses_and_repeats_nothing(cluster: RunningCluster, tmp_path: Path) -> None:
    """C13, X5: Kafka's own VerifiableProducer (idempotent, acks=all) over a rolling restart."""
    create(cluster, "java")
    config = tmp_path / "producer.properties"  # by itself it would not try again
    config.write_text("retries=2147483647\nenable.idempotence=true\n")
    command = [installed("java"), *OPTIONS, "-cp", f"{kafka_libs()}/*"]
    command += ["org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server"]
    command += [cluster.bootstrap, "--topic", "java", "--max-messages", str(COUNT)]
    command += ["--throughput", str(RATE), "--acks", "-1", "--producer.config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as producer:
        restart_all(cluster, "java")
        assert producer.stdout is not None
        lines = [json.loads(line) for line in producer.stdout if line.startswith(b"{")]
    acked = [int(line["value"]) for line in lines if line["name"] == "producer_send_success"]
    assert acked == list(range(COUNT))
    assert read_all(cluster, "java") == acked


def test_kafka_pythons_producer_loses_and_repeats_nothing(cluster: RunningCluster) -> None:
    """C13, X5: kafka-python with idempotence over a rolling restart."""
    create(cluster, "python")
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","), enable_idempotence=True, linger_ms=5
    )
    sent = []
    end_s = time.monotonic() + 2
    number = 0
    first = leader(cluster, "python")
    is_killed = False
    while time.monotonic() < end_s + 6:
        sent.append(producer.send("python", str(number).encode(), partition=0))
        number += 1
        time.sleep(0.002)
        if not is_killed and time.monotonic() > end_s:
            is_killed = True
            cluster.nodes[first].kill9()
    producer.flush(60)
    offsets = [future.get(60).offset for future in sent]
    producer.close()
    assert offsets == list(range(len(sent)))
    assert read_all(cluster, "python") == list(range(len(sent)))

"""Proves that Java, librdkafka and kafka-python lose and repeat nothing while nodes are restarted.

Each node is stopped and started in turn, the leader killed, while an idempotent producer works.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from kafka import KafkaProducer
from kafka.producer.future import FutureRecordMetadata

from benchmarks.peers import kafka_libs
from tests.cluster.running_cluster import RunningCluster, until
from tests.cluster.test_fail_over import (
    Stream,
    check,
    create,
    in_sync,
    leader,
    producing,
    read_all,
)
from tests.interop.program import installed
from tests.interop.test_java import OPTIONS

RATE = 1_000
MESSAGES_MAX = 1_000_000
"""More than are sent before the producer is told to stop."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


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


class JavaProducer:
    """Kafka's VerifiableProducer: numbers in their order, and a line for each acknowledgement."""

    def __init__(self, cluster: RunningCluster, topic: str, config: Path) -> None:
        config.write_text("retries=2147483647\nenable.idempotence=true\n")  # not by itself
        command = [installed("java"), *OPTIONS, "-cp", f"{kafka_libs()}/*"]
        command += ["org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server"]
        command += [cluster.bootstrap, "--topic", topic, "--max-messages", str(MESSAGES_MAX)]
        command += ["--throughput", str(RATE), "--acks", "-1", "--producer.config", str(config)]
        self.acked: list[int] = []
        self.failed: list[str] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._reading = Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line) if line.startswith(b"{") else {"name": ""}
            if told["name"] == "producer_send_success":
                self.acked.append(int(told["value"]))
            elif told["name"] == "producer_send_error":
                self.failed.append(told["message"])

    def stop(self) -> None:
        """Have all acknowledged that was sent, and wait for the end."""
        self._process.terminate()  # it closes its producer, which flushes
        self._reading.join(120)
        self._process.wait(60)

    def close(self) -> None:
        """End the process, whatever its state."""
        self._process.kill()
        self._reading.join()
        self._process.communicate()


def test_javas_producer_loses_and_repeats_nothing(cluster: RunningCluster, tmp_path: Path) -> None:
    """C13, X5: Kafka's own producer over a rolling restart and the kill of a leader."""
    create(cluster, "java")
    producer = JavaProducer(cluster, "java", tmp_path / "producer.properties")
    try:
        until(lambda: producer.acked)
        restart_all(cluster, "java")
        seen = len(producer.acked)
        until(lambda: len(producer.acked) > seen)
        producer.stop()
    finally:
        producer.close()
    assert producer.failed == []
    assert producer.acked == list(range(len(producer.acked)))
    assert read_all(cluster, "java") == producer.acked


def test_librdkafkas_producer_loses_and_repeats_nothing(cluster: RunningCluster) -> None:
    """C13, X5: librdkafka over a rolling restart and the kill of a leader."""
    create(cluster, "rdkafka")
    stream = Stream(cluster, "rdkafka")
    with producing(stream):
        until(lambda: stream.acked)
        restart_all(cluster, "rdkafka")
    check(cluster, stream, "rdkafka")


def test_kafka_pythons_producer_loses_and_repeats_nothing(cluster: RunningCluster) -> None:
    """C13, X5: kafka-python over a rolling restart and the kill of a leader."""
    create(cluster, "python")
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","), enable_idempotence=True, linger_ms=5
    )
    sent: list[FutureRecordMetadata] = []
    stopped = Event()

    def produce() -> None:
        while not stopped.wait(1 / RATE):
            sent.append(producer.send("python", str(len(sent)).encode(), partition=0))

    thread = Thread(target=produce)
    thread.start()
    try:
        until(lambda: any(one.is_done for one in sent[:1]))
        restart_all(cluster, "python")
    finally:
        stopped.set()
        thread.join()
    producer.flush(60)
    offsets = [future.get(60).offset for future in sent]
    producer.close()
    assert offsets == list(range(len(sent)))
    assert read_all(cluster, "python") == list(range(len(sent)))

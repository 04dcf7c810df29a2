"""Readers of a popular partition on a real cluster: its copies share them, and none loses."""

import threading
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.cluster.running_cluster import RunningCluster, until
from tests.running_node import RunningNode

READERS = 6
COUNT = 2_000
SETTINGS = {"cluster.popular_readers": "2"}


class Reader(threading.Thread):
    """Reads one partition from the start until it has everything."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.values: list[int] = []
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False,
             "fetch.wait.max.ms": 200}
        )  # fmt: skip

    def run(self) -> None:
        self._consumer.assign([TopicPartition("news", 0, 0)])
        while len(self.values) < COUNT:
            for message in self._consumer.consume(500, 0.5):
                if message.error() is None:
                    self.values.append(int(message.value() or b""))
        self._consumer.close()


def has_copy(node: RunningNode) -> bool:
    [partition] = httpx.get(f"{node.http}/v1/topics/news", timeout=60).json()["partitions"]
    return bool(partition["held"])


def first_value(node: RunningNode) -> str:
    """Return the oldest value as a node hands it out, wherever it has that from."""
    url = f"{node.http}/v1/topics/news/records?partition=0&position=earliest"
    return str(httpx.get(url, timeout=60).json()["records"][0]["value"])


@pytest.mark.slow
@pytest.mark.interop
def test_the_copies_of_a_popular_partition_share_its_readers(tmp_path: Path) -> None:
    """A7, C17: readers are spread over replicas, and none misses or repeats a record on its way."""
    with RunningCluster(tmp_path, count=4, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("news", 1, replication_factor=3)])["news"].result(60)
        readers = [Reader(cluster.bootstrap) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1})
        numbers = iter(range(COUNT))

        def is_shared() -> bool:
            for _ in range(5):
                if (number := next(numbers, None)) is not None:
                    producer.produce("news", b"%d" % number, partition=0)
            producer.flush(60)
            out = [node.metric("chordmq_bytes_out_total") for node in cluster.nodes.values()]
            return sum(size > 0 for size in out) >= 3

        until(is_shared)
        sent = [node.metric("chordmq_readers_sent_total") for node in cluster.nodes.values()]
        assert sum(sent) >= 2
        [away] = [node for node in cluster.nodes.values() if not has_copy(node)]
        assert first_value(away) == "0"
        for number in numbers:
            producer.produce("news", b"%d" % number, partition=0)
        producer.flush(60)
        for reader in readers:
            reader.join(60)
            assert reader.values == list(range(COUNT))

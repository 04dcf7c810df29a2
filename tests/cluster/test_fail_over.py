"""Proves on three processes and a real etcd that clients lose and repeat nothing when nodes go."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.running_cluster import RunningCluster, until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path) as running:
        yield running


def admin(cluster: RunningCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create(cluster: RunningCluster, name: str, partitions: int = 1, copies: int = 3) -> None:
    topic = NewTopic(name, partitions, copies, config={"min.insync.replicas": "2"})
    client = admin(cluster)
    [future] = client.create_topics([topic]).values()
    future.result(60)
    until(lambda: len(in_sync(cluster, name)) == copies)


def leader(cluster: RunningCluster, topic: str) -> int:
    """Return who leads partition 0, once somebody does."""
    return until(lambda: max(_described(cluster, topic)[0], 0))


def in_sync(cluster: RunningCluster, topic: str) -> list[int]:
    return _described(cluster, topic)[1]


def _described(cluster: RunningCluster, topic: str) -> tuple[int, list[int]]:
    client = admin(cluster)
    found = client.list_topics(topic, 60).topics[topic].partitions
    return (found[0].leader, list(found[0].isrs)) if found else (-1, [])


class Stream:
    """Produces numbers, one after the other, and remembers what was acknowledged and when."""

    def __init__(self, cluster: RunningCluster, topic: str) -> None:
        self.acked: list[tuple[int, int]] = []
        """Number and offset, in the order of their acknowledgements."""
        self.gaps_s: list[float] = []
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._last_s = 0.0

    def run_for(self, seconds: float) -> None:
        """Produce for a while, some thousand a second."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.produce(20)
            self._producer.poll(0.01)

    def produce(self, count: int) -> None:
        for _ in range(count):
            number = self._number = getattr(self, "_number", -1) + 1
            self._producer.produce(
                self._topic, str(number), partition=0, on_delivery=self._delivered(number)
            )

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    @property
    def sent(self) -> int:
        return self._number + 1

    def _delivered(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            now_s = time.monotonic()
            if error is not None:
                self.errors.append(error)
                return
            if self._last_s:
                self.gaps_s.append(now_s - self._last_s)
            self._last_s = now_s
            self.acked.append((number, message.offset() or 0))

        return delivered


def read_all(cluster: RunningCluster, topic: str) -> list[int]:
    """Return the numbers in a partition, from its beginning to its end."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "log_level": 0}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    place = TopicPartition(topic, 0, 0)
    consumer.assign([place])
    end = consumer.get_watermark_offsets(place, timeout=60)[1]
    numbers: list[int] = []
    deadline = time.monotonic() + 60
    position = 0
    while position < end:
        assert time.monotonic() < deadline, f"read {position} of {end}"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            numbers.append(int(message.value() or b""))
            position = (message.offset() or 0) + 1
    consumer.close()
    return numbers


@contextmanager
def producing(stream: Stream) -> Iterator[None]:
    """Produce in a thread, and wait for all acknowledgements at the end."""
    stopped = Event()

    def run() -> None:
        while not stopped.is_set():
            stream.run_for(0.1)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    stream.flush()


def check(cluster: RunningCluster, stream: Stream, topic: str) -> None:
    """Require that everything is there once, in its order, where the broker said it is."""
    print(f"{stream.sent} messages, longest wait {max(stream.gaps_s):.2f} s")
    assert stream.errors == []
    assert len(stream.acked) == stream.sent
    assert read_all(cluster, topic) == list(range(stream.sent))
    assert stream.acked == [(number, number) for number in range(stream.sent)]


def kill_leaders(cluster: RunningCluster, times: int) -> None:
    """Produce while leaders are killed and started again, and check what came of it."""
    create(cluster, "orders")
    stream = Stream(cluster, "orders")
    with producing(stream):
        until(lambda: len(stream.acked) > 200)
        for _ in range(times):
            first = leader(cluster, "orders")
            seen = len(stream.acked)
            cluster.nodes[first].kill9()
            until(lambda seen=seen: len(stream.acked) > seen + 200)  # type: ignore[misc]
            cluster.nodes[first].start()
            until(lambda: len(in_sync(cluster, "orders")) == 3)
    check(cluster, stream, "orders")


def test_a_killed_leader_costs_no_message(cluster: RunningCluster) -> None:
    """C2, C13: kill -9 of the leader under an idempotent producer with acks=all.

    How long the producer waits is measured by `benchmarks --case replicated`.
    """
    kill_leaders(cluster, 1)


@pytest.mark.slow
def test_leaders_killed_again_and_again_cost_no_message(cluster: RunningCluster) -> None:
    """C2, C13, X5: each node leads and is killed in turn."""
    kill_leaders(cluster, 6)


def test_a_leader_that_stops_hands_over(cluster: RunningCluster) -> None:
    """C13: a node that is told to stop gives its partitions to others before it goes."""
    create(cluster, "orders")
    stream = Stream(cluster, "orders")
    with producing(stream):
        until(lambda: len(stream.acked) > 200)
        first = leader(cluster, "orders")
        seen = len(stream.acked)
        assert cluster.nodes[first].stop() == 0
        until(lambda: len(stream.acked) > seen + 200)
    check(cluster, stream, "orders")

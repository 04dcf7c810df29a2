"""A node alone on a real file system that loses power: what it acknowledged is there."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.chaos.disks import Disk
from tests.faults.test_crash import create_topic
from tests.running_node import RunningNode

CUTS = 4
PARTITIONS = 40
ACKNOWLEDGED_PER_ROUND = 8_000
OUTSTANDING_MAX = 2_000
DEADLINE_S = 60.0

Place = tuple[int | None, int | None]
"""A partition and an offset."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Make an ext4 of its own. Without root it fails, and says so."""
    disk = Disk(tmp_path / "disk")
    disk.make()
    yield disk
    disk.close()


@pytest.fixture
def node(tmp_path: Path, disk: Disk) -> Iterator[RunningNode]:
    node = RunningNode(tmp_path / "node")
    node.data = disk.directory / "data"
    node.start()
    yield node
    node.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_small_writes_to_many_partitions_survive_power_cuts(node: RunningNode, disk: Disk) -> None:
    """D5, X5: the disk has them in the journal only, which brings them back at the next start."""
    topic = create_topic(node, "many", PARTITIONS, **{"segment.bytes": "1048576"})
    acknowledged: dict[Place, bytes | None] = {}
    for cut in range(1, CUTS + 1):
        _produce(node, topic, acknowledged, cut * ACKNOWLEDGED_PER_ROUND)
        assert node.metric("chordmq_journal_rounds_total") > 0
        disk.cut_power()
        node.kill9()
        disk.restore_power()
        node.start()
        stored = _stored(node, topic)
        assert {place: stored.get(place) for place in acknowledged} == acknowledged
    log = node.log.read_text()
    assert log.count('"journal redone"') == CUTS
    assert '"bytes_mended": 0' not in log, "the journal was not needed, so that nothing is shown"


def _produce(
    node: RunningNode, topic: str, acknowledged: dict[Place, bytes | None], until: int
) -> None:
    """Send small batches to all partitions until so many records are acknowledged."""

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged[message.partition(), message.offset()] = message.value()

    settings = {"acks": "all", "linger.ms": 0, "batch.num.messages": 3, "message.timeout.ms": 5_000}
    producer = Producer({"bootstrap.servers": node.bootstrap, **settings})
    noise, deadline, sent = random.Random(until), time.monotonic() + DEADLINE_S, 0
    while len(acknowledged) < until:
        assert time.monotonic() < deadline, f"only {len(acknowledged)} acknowledged"
        if len(producer) > OUTSTANDING_MAX:
            producer.poll(0.001)
            continue
        value = b"%08d" % sent * noise.choice((1, 5, 40))
        partition = noise.randrange(PARTITIONS)
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
        producer.poll(0)
        sent += 1
    producer.purge()


def _stored(node: RunningNode, topic: str) -> dict[Place, bytes | None]:
    """Return every record there is."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none"})
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(place, timeout=DEADLINE_S)[1] for place in places]
    consumer.assign(places)
    found: dict[Place, bytes | None] = {}
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < sum(ends):
        assert time.monotonic() < deadline, f"{len(found)} of {sum(ends)} records came"
        for message in consumer.consume(5_000, 0.5):
            assert message.error() is None
            found[message.partition(), message.offset()] = message.value()
    consumer.close()
    return found

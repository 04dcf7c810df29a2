"""A node whose machine loses power: what only its journal had is there after the next start."""

import os
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from chordmq.storage import journal
from chordmq.storage.journal import Part
from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.segments import SegmentCatalogue
from chordmq.storage.segment import LOG_SUFFIX, path_of
from tests.faults.test_crash import DEADLINE_S, QUICK, _read, create_topic
from tests.running_node import RunningNode

PARTITIONS = 8
ROUNDS = 20
WAVES_MAX = 2000


def write_until_rounds(node: RunningNode, topic: str) -> dict[int, list[bytes]]:
    """Write to all partitions at once, until the journal has some rounds; return what is stored."""
    acknowledged: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        assert error is None, error
        assert partition is not None
        assert isinstance(value, bytes)
        acknowledged[partition].append(value)

    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "acks": "all", "linger.ms": 1, **QUICK}
    )
    for wave in range(WAVES_MAX):
        for index in range(PARTITIONS):
            value = b"%08d of %d" % (wave, index)
            producer.produce(topic, value, partition=index, on_delivery=on_delivery)
        assert producer.flush(DEADLINE_S) == 0
        if wave % 10 == 0 and node.metric("chordmq_journal_rounds_total") >= ROUNDS:
            return acknowledged
    raise AssertionError("flushes have met, and no journal was made")


def parts_that_count(data: Path) -> dict[Path, list[Part]]:
    """Return for each segment what the rounds have of it that a start will redo."""
    database = Database(data / "meta.db")
    valid_from = SegmentCatalogue(database).journal_rounds()
    database.close()
    found: dict[Path, list[Part]] = {}
    halves = [list(journal.rounds((data / name).read_bytes())) for name in journal.NAMES]
    for number, parts in sorted(one for half in halves for one in half):
        for part in parts:
            if number >= valid_from[part.name]:
                path = path_of(data / "topics" / part.name, part.base_offset, LOG_SUFFIX)
                found.setdefault(path, []).append(part)
    return found


def cut_power(data: Path) -> dict[Path, int]:
    """Cut from the segments what the journal has, which nobody has synced; return how much."""
    cut = {}
    for path, parts in parts_that_count(data).items():
        size = end = path.stat().st_size
        for part in reversed(parts):
            if part.position + len(part.data) != end:
                break  # what lies behind this part was flushed to the segment itself
            end = part.position
        os.truncate(path, end)
        cut[path] = size - end
    return cut


def test_a_power_cut_takes_nothing_that_only_the_journal_had(
    own_node: RunningNode, name: str
) -> None:
    """D5: acks=all means on the disk, whichever file of it."""
    topic = create_topic(own_node, name, partitions=PARTITIONS, flush="disk")
    acknowledged = write_until_rounds(own_node, topic)
    own_node.kill9()
    cut = cut_power(own_node.data)
    assert sum(size > 0 for path, size in cut.items() if topic in path.parent.name) == PARTITIONS
    own_node.start()
    assert "journal redone" in own_node.log.read_text()
    consumer = Consumer({"bootstrap.servers": own_node.bootstrap, "group.id": "none"})
    for index, values in acknowledged.items():
        consumer.assign([TopicPartition(topic, index, 0)])
        assert _read(consumer, len(values)) == values
    consumer.close()

"""A compacted topic, as unmodified clients read it: gaps, emptied batches and tombstones."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from tests.interop.program import installed, run
from tests.running_node import RunningNode

TOPIC = "compacted"
KEYS = 10
ROUNDS = 400
END = KEYS * ROUNDS + 2
DEADLINE_S = 60.0

Latest = dict[bytes, tuple[int, bytes | None]]
"""For each key the offset and value that came last."""


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node whose topic has been compacted, and whose memory has forgotten the rest."""
    node = RunningNode(
        tmp_path_factory.mktemp("compacted"), {"broker.log.cleaner.backoff.ms": "100"}
    )
    try:
        node.start()
        fill(node.bootstrap)
        wait_until(lambda: is_compacted(node))
        node.stop()
        node.start()
        yield node
    finally:
        node.close()


def fill(bootstrap: str) -> None:
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
    }
    topic = NewTopic(TOPIC, 1, 1, config=settings)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[TOPIC].result(60)
    # Small batches, so that whole ones go and gaps are left.
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 3, "acks": "all"})
    producer.produce(TOPIC, b"early", b"only once")
    producer.produce(TOPIC, None, b"deleted")
    for number in range(ROUNDS):
        for key in range(KEYS):
            producer.produce(TOPIC, b"%d" % number + b"." * 1500, b"key-%d" % key)
        producer.flush(60)


def is_compacted(node: RunningNode) -> bool:
    segments = (node.data / "topics" / f"{TOPIC}-0").glob("*.log")
    try:
        return sum(path.stat().st_size for path in segments) < 2_500_000
    except FileNotFoundError:  # the cleaner has just put another in its place
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def expected() -> Latest:
    newest = b"%d" % (ROUNDS - 1) + b"." * 1500
    latest: Latest = {b"only once": (0, b"early"), b"deleted": (1, None)}
    for key in range(KEYS):
        latest[b"key-%d" % key] = (END - KEYS + key, newest)
    return latest


def librdkafka(bootstrap: str, start: int) -> Latest:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    latest: Latest = {}
    with closing(consumer):
        consumer.assign([TopicPartition(TOPIC, 0, start or OFFSET_BEGINNING)])
        while (message := consumer.poll(DEADLINE_S)) is not None and message.error() is None:
            key, offset = message.key(), message.offset()
            assert key is not None
            assert offset is not None
            latest[key] = (offset, message.value())
    return latest


def kafka_python(bootstrap: str, start: int) -> Latest:
    latest: Latest = {}
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=20_000)) as reader:
        partition = PythonPartition(TOPIC, 0)
        reader.assign([partition])
        reader.seek(partition, start)
        while reader.position(partition) < END:
            for record in reader.poll(20_000).get(partition, ()):
                latest[record.key] = (record.offset, record.value)
    return latest


async def aiokafka(bootstrap: str, start: int) -> Latest:
    latest: Latest = {}
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as reader:
        partition = AioPartition(TOPIC, 0)
        reader.assign([partition])
        reader.seek(partition, start)
        while await reader.position(partition) < END:
            records = await reader.getmany(partition, timeout_ms=20_000)
            for record in records.get(partition, ()):
                latest[record.key] = (record.offset, record.value)
    return latest


@pytest.mark.parametrize("start", [0, 3, END // 3, END - KEYS])
@pytest.mark.parametrize("read", [librdkafka, kafka_python])
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_client_finds_the_newest_value_of_every_key(
    compacted: RunningNode, read: Callable[[str, int], Latest], start: int
) -> None:
    """C7: wherever it starts, also at an offset that is gone."""
    found = read(compacted.bootstrap, start)
    gc.collect()
    assert found == {key: row for key, row in expected().items() if row[0] >= start}


@pytest.mark.parametrize("start", [0, 3, END // 3, END - KEYS])
async def test_aiokafka_finds_the_newest_value_of_every_key(
    compacted: RunningNode, start: int
) -> None:
    """C7: wherever it starts, also at an offset that is gone."""
    found = await aiokafka(compacted.bootstrap, start)
    assert found == {key: row for key, row in expected().items() if row[0] >= start}


def test_kcat_reads_to_the_end(compacted: RunningNode) -> None:
    """C7: and its count of records says that most are gone."""
    output = run(
        [installed("kcat"), "-b", compacted.bootstrap, "-C", "-t", TOPIC, "-e", "-q", "-f", "%o\n"]
    )
    offsets = [int(line) for line in output.split()]
    assert offsets[:2] == [0, 1]
    assert offsets[-KEYS:] == list(range(END - KEYS, END))
    assert len(offsets) < END // 2

"""The client for programs without asyncio."""

from itertools import islice
from pathlib import Path

import pytest

from chordmq.client.consumer import ConsumerSettings
from chordmq.client.errors import CannotConnect
from chordmq.client.membership import GroupSettings
from chordmq.client.offline import OfflineSettings
from chordmq.client.sync import Consumer, OfflineProducer, Producer
from tests.running_node import RunningNode, free_port


def test_records_are_sent_and_read_without_asyncio(node: RunningNode, name: str) -> None:
    """E12: one by one, in batches, and as a group that remembers its place."""
    with Producer(node.bootstrap) as producer:
        assert producer.send(name, b"0", key=b"k") == 0
        for number in range(1, 20):
            producer.enqueue(name, b"%d" % number, key=b"k")
        producer.flush()
    with Consumer(node.bootstrap) as consumer:
        consumer.assign_topic(name)
        values = [message.value for message in islice(consumer, 20)]
    assert values == [b"%d" % number for number in range(20)]
    settings = ConsumerSettings(group=GroupSettings(group=name))
    got = []
    for _ in range(2):
        with Consumer(node.bootstrap, settings) as consumer:
            consumer.subscribe(name)
            got += [message.value for message in islice(consumer, 10)]
    assert got == values


def test_what_fails_is_raised_in_the_callers_thread(node: RunningNode, name: str) -> None:
    """E12: nobody to connect to, and an error inside the block."""
    with pytest.raises(CannotConnect), Producer(f"127.0.0.1:{free_port()}"):
        pass
    with Producer(node.bootstrap) as producer:
        producer.send(name, b"x")
    with pytest.raises(ZeroDivisionError), Producer(node.bootstrap):
        raise ZeroDivisionError


def test_messages_are_taken_without_a_broker(tmp_path: Path, node: RunningNode, name: str) -> None:
    """E12: the offline queue has a synchronous face, too."""
    settings = OfflineSettings(path=tmp_path / "queue.db")
    with OfflineProducer(f"127.0.0.1:{free_port()}", settings) as producer:
        producer.send(name, b"kept")
        assert producer.waiting() == 1
    with OfflineProducer(node.bootstrap, settings) as producer:
        producer.flush()
    with Consumer(node.bootstrap) as consumer:
        consumer.assign_topic(name)
        chunk = consumer.poll(60.0)
    assert chunk is not None
    assert [record.value for record in chunk.records] == [b"kept"]

"""Real clients take the broker that keeps nothing for one that does."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks import hollow, java_tools, load, wire
from benchmarks.peers import free_port
from benchmarks.servers import run_server


@contextmanager
def running(size: int, *options: str) -> Iterator[str]:
    """Run a hollow broker and give its address."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.hollow", str(port), str(size), *options]
    with run_server(command, port):
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("size", [100, 1024])
def test_librdkafka_sends_and_receives_as_much_as_it_is_asked_to(size: int) -> None:
    """C16: what is measured is the client, at its full rate."""
    with running(size) as bootstrap:
        sent = load.produce(bootstrap, hollow.TOPIC, size, {"acks": "all"}, (30.0, 20_000))
        got = load.consume(bootstrap, hollow.TOPIC, 1, 20_000)
    assert sent.count == 20_000
    assert got.count >= 20_000
    assert got.size == got.count * size


@pytest.mark.parametrize("options", [[], ["--sync"]], ids=["stored", "synced"])
@pytest.mark.parametrize("acks", load.ACKS)
def test_what_is_acknowledged_is_in_the_file(tmp_path: Path, acks: str, options: list[str]) -> None:
    """C16: the cost of keeping records is measured on records that are kept."""
    file = tmp_path / "taken"
    with running(1024, "--store", str(file), *options) as bootstrap:
        sent = load.produce(bootstrap, hollow.TOPIC, 1024, load.ACKS[acks], (30.0, 6_000))
    value = bytes(index * 31 % 251 for index in range(1024))
    assert sent.count == 6_000
    assert file.read_bytes().count(value) == 6_000


def test_only_sync_has_the_disk_write_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fdatasync", synced.append)

    hollow.store_in(tmp_path / "stored", sync=False)(memoryview(b"one"))
    assert synced == []
    hollow.store_in(tmp_path / "synced", sync=True)(memoryview(b"two"))

    assert len(synced) == 1
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"one", b"two"]


@pytest.mark.parametrize("stored", [False, True], ids=["dropped", "stored"])
def test_requests_that_come_together_or_byte_by_byte_are_all_answered(
    tmp_path: Path, stored: bool
) -> None:
    """C16: a read may end anywhere in a request."""
    batch = wire.record_batch(3, 100)
    request = wire.produce_request(hollow.TOPIC, 0, batch, acks=1)
    several = wire.metadata_request() + request * 5 + wire.metadata_request()
    file = tmp_path / "taken"
    options = ["--store", str(file)] if stored else []
    with running(100, *options) as bootstrap, wire.connect(bootstrap) as client:
        client.sendall(several)
        together = [wire.read_answer(client) for _ in range(7)]
        for byte in several:
            client.sendall(bytes([byte]))
        apart = [wire.read_answer(client) for _ in range(7)]
    assert apart == together
    assert [wire.produce_error(answer, hollow.TOPIC) for answer in together[1:6]] == [0] * 5
    assert not stored or file.read_bytes().count(batch) == 10


def test_the_java_client_sends_as_much_as_it_is_asked_to() -> None:
    """C16: as an idempotent producer, which is its default."""
    with running(100) as bootstrap:
        done = java_tools.producer_performance(
            bootstrap, hollow.TOPIC, 100, {"acks": "all"}, 10_000
        )
    assert done.rate.count == 10_000


def test_the_java_client_receives_as_much_as_it_is_asked_to() -> None:
    """C16: as the only member of a group, which Kafka's own tool always is."""
    with running(100) as bootstrap:
        done = java_tools.consumer_performance(bootstrap, hollow.TOPIC, 100, 10_000)
    assert done.rate.count >= 10_000


def test_the_only_member_of_a_group_gets_the_partition_and_starts_at_the_beginning() -> None:
    """C16: no offset is remembered, whatever was committed."""
    with running(100) as bootstrap:
        consumer = Consumer(load.consumer_settings(bootstrap))
        consumer.subscribe([hollow.TOPIC])
        (message,) = consumer.consume(1, timeout=30)
        assigned = consumer.assignment()
        consumer.commit(message=message, asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(hollow.TOPIC, 0)], timeout=30)
        consumer.close()
    assert [(one.topic, one.partition) for one in assigned] == [(hollow.TOPIC, 0)]
    assert message.offset() == 0
    assert committed.offset < 0


def test_no_more_records_are_handed_out_than_there_are() -> None:
    """C16: a client that reads ahead would make the broker work for records that nobody counts."""
    with running(100, "--records", "5000") as bootstrap, wire.connect(bootstrap) as client:
        asked = [wire.fetch_request(hollow.TOPIC, 0, offset, 1 << 20) for offset in (4999, 5000)]
        got = [wire.fetched_records(memoryview(wire.ask(client, one))) for one in asked]
    last, beyond = (list(wire.walk_batches(records)) for records in got)
    assert last[0][0] == 4999
    assert beyond == []

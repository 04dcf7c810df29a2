"""The client speaks to a real Apache Kafka as it does to ChordMQ."""

from collections.abc import Iterator

import pytest

from benchmarks.peers import start_kafka
from chordmq.client.admin import Admin
from chordmq.client.consumer import Consumer, ConsumerSettings
from chordmq.client.membership import GroupSettings
from chordmq.client.producer import Producer, ProducerSettings
from chordmq.records.compression import Compression
from tests.cli.command_line import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of an Apache Kafka."""
    peer = start_kafka(tmp_path_factory.mktemp("kafka"))
    yield peer.bootstrap
    peer.kill()


@pytest.mark.parametrize("compression", Compression)
async def test_records_come_back_from_kafka(
    kafka: str, name: str, compression: Compression
) -> None:
    """The same client, idempotent and with every compression, on Apache Kafka."""
    async with Producer(kafka, ProducerSettings(compression=compression)) as producer:
        deliveries = [await producer.enqueue(name, b"%d" % n, key=b"k") for n in range(1_000)]
        assert [await delivery for delivery in deliveries] == list(range(1_000))
    async with Consumer(kafka) as consumer:
        await consumer.assign_topic(name)
        values: list[bytes | None] = []
        while len(values) < 1_000:
            chunk = await consumer.poll(60.0)
            assert chunk is not None
            values += [record.value for record in chunk.records]
    assert values == [b"%d" % n for n in range(1_000)]


async def test_a_group_on_kafka_remembers_its_place(kafka: str, name: str) -> None:
    """Join, commit, leave and resume against Kafka's coordinator."""
    settings = ConsumerSettings(
        group=GroupSettings(group=name, session_timeout_ms=6_000, rebalance_timeout_ms=10_000)
    )
    async with Producer(kafka) as producer:
        for number in range(10):
            await producer.enqueue(name, b"%d" % number)
    got = []
    for _ in range(2):
        async with Consumer(kafka, settings) as consumer:
            await consumer.subscribe(name)
            async for message in consumer:
                got.append(message.value)
                if len(got) % 5 == 0:
                    break
    assert got == [b"%d" % number for number in range(10)]
    async with Admin(kafka) as admin:
        assert [row.lag for row in await admin.lag(name)] == [0]


def test_the_command_line_administers_kafka(kafka: str, name: str) -> None:
    """X4: topics, records, groups and benchmarks work on Apache Kafka too."""
    cli = CommandLine(kafka)
    cli.ok("topics", "create", name, "-p", "2", "--set", "retention.ms=60000")
    cli.ok("topics", "alter", name, "--partitions", "3", "--reset", "retention.ms")
    cli.ok("produce", name, "-k", ":", stdin="a:1\nb:2\n")
    assert sorted(cli.ok("consume", name, "--group", name).lines) == ["1", "2"]
    cli.ok("groups", "reset", name, "--to", "earliest", "--execute")
    assert cli.ok("groups", "lag", name, "--json").data["total_lag"] == 2
    cli.ok("groups", "delete", name, "--yes")
    result = cli.ok("bench", "produce", "-t", name, "-n", "1000", "--json").data
    assert result["verified"] == 1_000
    cli.ok("topics", "delete", name, "--yes")

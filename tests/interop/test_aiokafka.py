"""aiokafka, unmodified: ApiVersions 0 and none of the flexible versions."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.interop.conftest import CreateTopic
from tests.wire import FIRST_TIME_MS


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_come_back_unchanged_with_every_compression(
    bootstrap: str, create_topic: CreateTopic, compression: str | None
) -> None:
    """C1, C3, C5: an idempotent producer and an assigned consumer."""
    topic = create_topic()
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, enable_idempotence=True
    ) as producer:
        pending = [
            await producer.send(
                topic,
                b"value-%d" % index,
                key=b"key",
                headers=[("index", b"%d" % index)],
                timestamp_ms=FIRST_TIME_MS + index,
            )
            for index in range(300)
        ]
        answers = await asyncio.gather(*pending)
        assert [answer.offset for answer in answers] == list(range(300))
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        for index in range(300):
            record = await consumer.getone()
            assert (record.offset, record.value) == (index, b"value-%d" % index)
            assert record.headers == (("index", b"%d" % index),)
            assert record.timestamp == FIRST_TIME_MS + index


async def test_a_group_resumes_where_it_committed(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    """A5, C1: join, commit, leave, and join again."""
    topic = create_topic(partitions=2)

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=f"{topic}-group",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for index in range(20):
            await producer.send_and_wait(topic, b"a%d" % index, partition=index % 2)
        async with member() as consumer:
            seen = {(await consumer.getone()).value for _ in range(20)}
            assert seen == {b"a%d" % index for index in range(20)}
            await consumer.commit()
        await producer.send_and_wait(topic, b"later", partition=1)
        async with member() as consumer:
            assert (await consumer.getone()).value == b"later"


async def test_offsets_are_found_by_time(bootstrap: str, create_topic: CreateTopic) -> None:
    """C6: offsets_for_times, beginning and end."""
    topic = create_topic()
    partition = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for index in range(10):
            await producer.send_and_wait(topic, b"v", timestamp_ms=FIRST_TIME_MS + index * 1000)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        found = (await consumer.offsets_for_times({partition: FIRST_TIME_MS + 4001}))[partition]
        assert (found.offset, found.timestamp) == (5, FIRST_TIME_MS + 5000)
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 10}

"""Records delivered once and in order, on a real node and on one that fails on demand."""

import asyncio
from typing import Any

import pytest

from chordmq.client.admin import Admin
from chordmq.client.codes import Code
from chordmq.client.consumer import Consumer
from chordmq.client.errors import BrokerRefused, Closed, DeliveryTimedOut
from chordmq.client.partitioner import partition_for_key
from chordmq.client.producer import Producer, ProducerSettings
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, Record
from tests.client.scripted_broker import HangUp, ScriptedBroker, answer_produce, scripted_broker
from tests.running_node import RunningNode

EAGER = ProducerSettings(linger_s=0.0)


async def read_all(bootstrap: str, topic: str, count: int) -> list[Record]:
    """Read until `count` records have come, and make sure that no more follow."""
    records: list[Record] = []
    async with Consumer(bootstrap) as consumer:
        await consumer.assign_topic(topic)
        while len(records) < count:
            chunk = await consumer.poll(60.0)
            assert chunk is not None, f"{len(records)} of {count} records came"
            records += chunk.records
        for topic_name, index in consumer.assignment:
            assert consumer.position(topic_name, index) >= consumer.high_watermark(topic, index)
    assert len(records) == count
    return records


def scripted_produce(broker: ScriptedBroker, *script: Any) -> None:
    """Answer the first Produce requests by the script (a code or an exception), then well."""
    steps = list(script)

    def answer(broker: ScriptedBroker, request: Any) -> Any:
        step = steps.pop(0) if steps else 0
        if isinstance(step, Exception):
            answer_produce(broker, request)
            raise step
        return answer_produce(broker, request, step, offset=len(broker.batches))

    broker.answers["Produce"] = answer


@pytest.mark.parametrize("compression", Compression)
async def test_a_record_comes_back_as_it_was_sent(
    node: RunningNode, name: str, compression: Compression
) -> None:
    """C5: every compression, from this client and back."""
    headers = (("source", b"test"), ("empty", None))
    async with Producer(node.bootstrap, ProducerSettings(compression=compression)) as producer:
        assert await producer.send(name, b"value" * 100, key=b"key", headers=headers) == 0
        assert await producer.send(name, None, key=b"gone") == 1
    first, second = await read_all(node.bootstrap, name, 2)
    assert (first.key, first.value, first.headers) == (b"key", b"value" * 100, headers)
    assert (second.key, second.value) == (b"gone", None)


async def test_records_of_one_partition_keep_their_order_and_learn_their_offsets(
    node: RunningNode, name: str
) -> None:
    settings = ProducerSettings(batch_bytes=2_000)
    async with Producer(node.bootstrap, settings) as producer:
        deliveries = [await producer.enqueue(name, b"%d" % n, partition=0) for n in range(1_000)]
        assert [await delivery for delivery in deliveries] == list(range(1_000))
    records = await read_all(node.bootstrap, name, 1_000)
    assert [record.value for record in records] == [b"%d" % n for n in range(1_000)]


async def test_keys_go_to_their_partitions_and_the_rest_to_all(
    node: RunningNode, name: str
) -> None:
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 5)
    async with Producer(node.bootstrap, ProducerSettings(batch_bytes=500)) as producer:
        keyed = [await producer.enqueue(name, b"", key=b"%d" % n) for n in range(50)]
        assert [one.partition for one in keyed] == [
            partition_for_key(b"%d" % n, 5) for n in range(50)
        ]
        plain = [await producer.enqueue(name, b"x" * 100) for _ in range(500)]
        assert {one.partition for one in plain} == set(range(5))


async def test_a_slow_producer_spreads_records_without_keys_too(
    node: RunningNode, name: str
) -> None:
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 3)
    async with Producer(node.bootstrap, EAGER) as producer:
        seen: set[int] = set()
        while len(seen) < 3:
            delivery = await producer.enqueue(name, b"x")
            await delivery
            seen.add(delivery.partition)


async def test_a_full_buffer_makes_the_sender_wait(node: RunningNode, name: str) -> None:
    """Memory stays bounded however fast the application is."""
    settings = ProducerSettings(buffer_bytes=10_000, batch_bytes=4_000)
    async with Producer(node.bootstrap, settings) as producer:
        most = 0
        for _ in range(200):
            await producer.enqueue(name, b"x" * 1_000)
            most = max(most, producer._buffered)
    assert 4_000 < most <= 10_000
    assert len(await read_all(node.bootstrap, name, 200)) == 200


async def test_leaving_the_block_delivers_everything(node: RunningNode, name: str) -> None:
    async with Producer(node.bootstrap, ProducerSettings(linger_s=60.0)) as producer:
        delivery = await producer.enqueue(name, b"x")
    assert await delivery == 0
    with pytest.raises(Closed):
        await producer.enqueue(name, b"late")


async def test_an_error_in_the_block_is_not_hidden_and_nothing_hangs(node: RunningNode) -> None:
    deliveries = []

    async def fail_in_the_middle() -> None:
        async with Producer(node.bootstrap, ProducerSettings(linger_s=60.0)) as producer:
            deliveries.append(await producer.enqueue("never-sent", b"x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_in_the_middle()
    with pytest.raises(Closed):
        await deliveries[0]


async def test_batches_too_large_for_their_topic_are_split(node: RunningNode, name: str) -> None:
    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, 1, -1, {"max.message.bytes": "2000"})
    async with Producer(node.bootstrap) as producer:
        deliveries = [await producer.enqueue(name, b"%0100d" % n) for n in range(100)]
        await producer.flush()
        assert [await delivery for delivery in deliveries] == list(range(100))
        with pytest.raises(BrokerRefused) as caught:
            await producer.send(name, b"x" * 5_000)
        assert caught.value.code == Code.MESSAGE_TOO_LARGE
        with pytest.raises(BrokerRefused):
            await producer.flush()
        assert await producer.send(name, b"the next one goes") == 100


async def test_every_record_is_stored_once_and_in_order_though_the_node_is_killed(
    own_node: RunningNode, name: str
) -> None:
    """C3: exactly one copy under retries, across kill -9."""
    count = 6_000
    async with Producer(own_node.bootstrap, ProducerSettings(batch_bytes=5_000)) as producer:

        async def produce() -> None:
            for number in range(count):
                await producer.enqueue(name, b"%06d" % number, partition=0)
                if number % 50 == 0:
                    await asyncio.sleep(0.002)
            await producer.flush()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(produce())
            for _ in range(2):
                await asyncio.sleep(0.1)
                await asyncio.to_thread(own_node.restart)
    records = await read_all(own_node.bootstrap, name, count)
    assert [record.value for record in records] == [b"%06d" % number for number in range(count)]


async def test_a_record_of_a_new_topic_waits_too_until_the_broker_is_back(
    own_node: RunningNode, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: the delivery timeout counts, not how long a young topic may be without a leader."""
    monkeypatch.setattr("chordmq.client.cluster.TOPIC_WAIT_S", 0.0)
    async with Producer(own_node.bootstrap) as producer:
        await asyncio.to_thread(own_node.kill9)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(producer.send(name, b"late"))
            await asyncio.to_thread(own_node.start)
        assert sending.result() == 0


async def test_an_unanswered_batch_is_sent_again_with_the_same_sequence() -> None:
    """C3: the broker can only recognise a repetition by producer id, epoch and sequence."""
    async with scripted_broker() as broker:
        scripted_produce(broker, HangUp(), Code.NOT_LEADER_OR_FOLLOWER)
        async with Producer(broker.bootstrap, EAGER) as producer:
            await producer.send("t", b"a")
            await producer.send("t", b"b")
    sent = [(one.producer_id, one.base_sequence) for one in broker.batches]
    assert sent == [(1, 0), (1, 0), (1, 0), (1, 1)]


async def test_a_duplicate_counts_as_stored() -> None:
    async with scripted_broker() as broker:
        scripted_produce(broker, HangUp(), Code.DUPLICATE_SEQUENCE_NUMBER)
        async with Producer(broker.bootstrap, EAGER) as producer:
            assert await producer.send("t", b"a") == -1
            await producer.send("t", b"b")
    assert [one.base_sequence for one in broker.batches] == [0, 0, 1]


@pytest.mark.parametrize("code", [Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID])
async def test_a_broker_that_forgot_the_producer_gets_a_new_identity(code: Code) -> None:
    async with scripted_broker() as broker:
        scripted_produce(broker, 0, code)
        async with Producer(broker.bootstrap, EAGER) as producer:
            await producer.send("t", b"a")
            await producer.send("t", b"b")
    sent = [(one.producer_id, one.base_sequence) for one in broker.batches]
    assert sent == [(1, 0), (1, 1), (2, 0)]


async def test_a_refused_batch_fails_and_leaves_no_gap_in_the_sequence() -> None:
    async with scripted_broker() as broker:
        scripted_produce(broker, Code.INVALID_RECORD)
        async with Producer(broker.bootstrap, EAGER) as producer:
            with pytest.raises(BrokerRefused, match="INVALID_RECORD"):
                await producer.send("t", b"bad")
            await producer.send("t", b"good")
            with pytest.raises(BrokerRefused, match="INVALID_RECORD"):
                await producer.flush()
            await producer.flush()
    assert [one.base_sequence for one in broker.batches] == [0, 0]


async def test_a_record_that_cannot_be_delivered_in_time_fails_and_the_identity_is_renewed() -> (
    None
):
    """C3: the lost batch may be stored after all, so its numbers must not be used again."""
    async with scripted_broker() as broker:
        settings = ProducerSettings(linger_s=0.0, delivery_timeout_s=2.0)
        async with Producer(broker.bootstrap, settings) as producer:
            scripted_produce(broker, *[HangUp()] * 50)
            with pytest.raises(DeliveryTimedOut, match="not delivered in"):
                await producer.send("t", b"a")
            scripted_produce(broker)
            await producer.send("t", b"b")
            with pytest.raises(DeliveryTimedOut):
                await producer.flush()
    assert broker.batches[0].producer_id == 1
    assert (broker.batches[-1].producer_id, broker.batches[-1].base_sequence) == (2, 0)


@pytest.mark.parametrize(("acks", "offset"), [(1, 0), (0, -1)])
async def test_fewer_acks_mean_no_identity(
    node: RunningNode, name: str, acks: int, offset: int
) -> None:
    async with Producer(node.bootstrap, ProducerSettings(acks=acks)) as producer:
        assert await producer.send(name, b"x") == offset
        assert producer._identity is None
    await read_all(node.bootstrap, name, 1)


async def test_records_keep_the_time_they_bring(node: RunningNode, name: str) -> None:
    async with Producer(node.bootstrap) as producer:
        now_ms = producer.cluster.clock.now_ms()
        await producer.enqueue_all(name, [NewRecord(now_ms - 5_000, None, b"old")])
    (record,) = await read_all(node.bootstrap, name, 1)
    assert record.timestamp == now_ms - 5_000


async def test_a_partition_that_does_not_exist_is_refused(node: RunningNode, name: str) -> None:
    async with Producer(node.bootstrap) as producer:
        with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send(name, b"x", partition=1_000)

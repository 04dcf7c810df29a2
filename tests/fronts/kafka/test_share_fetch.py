"""ShareFetch and ShareAcknowledge through codec and handler, on a real broker."""

import asyncio
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.groups.share_groups import Beat
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.messages import share_acknowledge as acknowledge_messages
from chordmq.codecs.kafka.messages.share_acknowledge import ShareAcknowledgeRequest
from chordmq.codecs.kafka.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from chordmq.fronts.kafka.call import Call, Client, KafkaFront
from chordmq.fronts.kafka.dispatch import APIS
from chordmq.fronts.listener import Listener, ListenerSettings
from chordmq.records.record import NewRecord, read_records

VERSION = 2
INVALID_REQUEST, UNKNOWN_TOPIC_ID, INVALID_RECORD_STATE = 42, 100, 121
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH = 122, 123
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Consumer:
    """One connection of one share consumer."""

    def __init__(self, front: KafkaFront, member: str) -> None:
        self.front = front
        self.member = member
        self.client = Client("10.0.0.1")
        self.topic = front.broker.topics.get("t").id

    async def ask(self, request: Any) -> Any:
        call = Call(self.front, self.client, VERSION, "test")
        sent = schema.decode(type(request), VERSION, bytes(schema.encode(request, VERSION)))
        answer = await APIS[request.api_key].handle(call, sent)
        return schema.decode(type(answer), VERSION, bytes(schema.encode(answer, VERSION)))

    async def fetch(self, epoch: int, *acks: tuple[int, int, int], **changes: Any) -> Any:
        row = FetchPartition(0, 0, [AcknowledgementBatch(a, b, [kind]) for a, b, kind in acks])
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": self.member,
            "share_session_epoch": epoch,
            "max_records": 100,
            "topics": [FetchTopic(self.topic, [row])],
        }
        return await self.ask(ShareFetchRequest(**(fields | changes)))

    async def acknowledge(self, epoch: int, *acks: tuple[int, int, list[int]]) -> Any:
        batches = [acknowledge_messages.AcknowledgementBatch(*ack) for ack in acks]
        row = acknowledge_messages.AcknowledgePartition(0, batches)
        return await self.ask(
            ShareAcknowledgeRequest(
                group_id="g",
                member_id=self.member,
                share_session_epoch=epoch,
                topics=[acknowledge_messages.AcknowledgeTopic(self.topic, [row])],
            )
        )


def row(answer: Any) -> Any:
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (part.first_offset, part.last_offset, part.delivery_count)
        for part in row(answer).acquired_records
    ]


async def produce(broker: Broker, *values: bytes) -> None:
    await broker.append_records("t", 0, [NewRecord(0, None, value) for value in values])


@pytest.fixture
async def front(broker: Broker) -> KafkaFront:
    await broker.cursors.loaded.wait()
    await broker.topics.create("t", 1)
    await broker.group_settings.alter("g", lambda _: {"share.auto.offset.reset": "earliest"})
    await broker.share_groups.beat("g", Beat(member_id="m", epoch=0, topics=frozenset({"t"})))
    listener = Listener(ListenerSettings(), SystemClock(), "kafka")
    return KafkaFront(broker, listener)


@pytest.fixture
def consumer(front: KafkaFront) -> Consumer:
    return Consumer(front, "m")


async def test_records_are_given_once_and_settled(broker: Broker, consumer: Consumer) -> None:
    """C4, A3: share groups are the Kafka face of the shared index."""
    await produce(broker, b"a", b"b")
    answer = await consumer.fetch(0)
    assert acquired(answer) == [(0, 1, 1)]
    assert [record.value for record in read_records(row(answer).records)] == [b"a", b"b"]
    assert answer.acquisition_lock_timeout_ms == 30_000
    settled = await consumer.acknowledge(1, (0, 0, [ACCEPT]))
    assert row(settled).error_code == 0
    answer = await consumer.fetch(2, (1, 1, RELEASE))
    assert row(answer).acknowledge_error_code == 0
    assert acquired(answer) == [(1, 1, 2)]


async def test_all_counts_that_is_said_of_a_partition_named_twice(
    broker: Broker, consumer: Consumer
) -> None:
    """C4, A3: what is confirmed is settled, however the request is built."""
    await produce(broker, b"a", b"b", b"c")
    assert acquired(await consumer.fetch(0)) == [(0, 2, 1)]
    batches = [acknowledge_messages.AcknowledgementBatch(n, n, [ACCEPT]) for n in range(3)]
    rows = [acknowledge_messages.AcknowledgePartition(0, [batch]) for batch in batches]
    topics = [
        acknowledge_messages.AcknowledgeTopic(consumer.topic, rows[:2]),
        acknowledge_messages.AcknowledgeTopic(consumer.topic, rows[2:]),
    ]
    asked = ShareAcknowledgeRequest(
        group_id="g", member_id="m", share_session_epoch=1, topics=topics
    )
    assert row(await consumer.ask(asked)).error_code == 0
    (cursor,) = broker.cursors.of_group("g")
    assert cursor.start == 3


async def test_the_records_field_is_never_null(broker: Broker, consumer: Consumer) -> None:
    await produce(broker, b"a")
    await consumer.fetch(0)
    answer = await consumer.fetch(1, (0, 0, ACCEPT))
    assert bytes(row(answer).records) == b""
    assert row(answer).acquired_records == []


async def test_a_fetch_waits_for_records(broker: Broker, consumer: Consumer) -> None:
    """D8: a new message reaches a waiting consumer at once."""
    waiting = asyncio.ensure_future(consumer.fetch(0, max_wait_ms=60_000, min_bytes=1))
    await asyncio.sleep(0)
    await produce(broker, b"a")
    assert acquired(await waiting) == [(0, 0, 1)]


async def test_a_fetch_waits_for_as_many_bytes_as_it_wants(
    broker: Broker, consumer: Consumer
) -> None:
    waiting = asyncio.ensure_future(consumer.fetch(0, max_wait_ms=60_000, min_bytes=300))
    await produce(broker, b"a" * 100)
    await produce(broker, b"b" * 100)
    assert acquired(await waiting) == [(0, 1, 1)]


async def test_a_waiting_fetch_gets_what_another_consumer_leaves_behind(
    broker: Broker, front: KafkaFront, consumer: Consumer
) -> None:
    await produce(broker, b"a")
    await consumer.fetch(0)
    other = Consumer(front, "n")
    waiting = asyncio.ensure_future(other.fetch(0, max_wait_ms=60_000, min_bytes=1))
    await asyncio.sleep(0)
    front.share_sessions.disconnected(consumer.client, broker.cursors)
    assert acquired(await waiting) == [(0, 0, 2)]


async def test_a_limit_on_records_is_exact_only_if_asked_for(
    broker: Broker, front: KafkaFront
) -> None:
    await produce(broker, b"a", b"b", b"c")
    limited = await Consumer(front, "m").fetch(0, max_records=1, share_acquire_mode=1)
    assert acquired(limited) == [(0, 0, 1)]
    in_batches = await Consumer(front, "n").fetch(0, max_records=1)
    assert acquired(in_batches) == [(1, 2, 1)]


async def test_the_last_fetch_settles_and_ends_the_session(
    broker: Broker, front: KafkaFront, consumer: Consumer
) -> None:
    await produce(broker, b"a", b"b")
    await consumer.fetch(0)
    answer = await consumer.fetch(-1, (0, 0, ACCEPT))
    assert row(answer).acquired_records == []
    assert (await consumer.fetch(1)).error_code == SESSION_NOT_FOUND
    assert acquired(await Consumer(front, "n").fetch(0, max_wait_ms=9999)) == [(1, 1, 2)]


async def test_epochs_out_of_order_are_refused(consumer: Consumer) -> None:
    assert (await consumer.fetch(1)).error_code == SESSION_NOT_FOUND
    assert (await consumer.acknowledge(0)).error_code == INVALID_SESSION_EPOCH
    await consumer.fetch(0)
    assert (await consumer.fetch(2)).error_code == INVALID_SESSION_EPOCH
    assert (await consumer.acknowledge(5)).error_code == INVALID_SESSION_EPOCH


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ([(0, 1, [ACCEPT]), (1, 1, [ACCEPT])], INVALID_REQUEST),
        ([(1, 0, [ACCEPT])], INVALID_REQUEST),
        ([(0, 1, [ACCEPT] * 3)], INVALID_REQUEST),
        ([(0, 1, [])], INVALID_REQUEST),
        ([(0, 1, [9])], INVALID_REQUEST),
        ([(0, 1, [RENEW])], INVALID_REQUEST),
        ([(0, 0, [ACCEPT]), (5, 9, [ACCEPT])], INVALID_RECORD_STATE),
        ([(0, 2**62, [ACCEPT])], INVALID_RECORD_STATE),
    ],
)
async def test_answers_that_make_no_sense_change_nothing(
    broker: Broker, consumer: Consumer, acks: list[tuple[int, int, list[int]]], code: int
) -> None:
    await produce(broker, b"a", b"b")
    await consumer.fetch(0)
    assert row(await consumer.acknowledge(1, *acks)).error_code == code
    (cursor,) = broker.cursors.of_group("g")
    assert (cursor.machine.start, cursor.machine.in_flight) == (0, 2)


async def test_the_first_fetch_has_nothing_to_acknowledge(consumer: Consumer) -> None:
    assert (await consumer.fetch(0, (0, 0, ACCEPT))).error_code == INVALID_REQUEST


async def test_a_renewal_asks_for_no_records(broker: Broker, consumer: Consumer) -> None:
    await produce(broker, b"a")
    await consumer.fetch(0)
    refused = await consumer.fetch(1, (0, 0, RENEW), is_renew_ack=True)
    assert refused.error_code == INVALID_REQUEST
    nothing = {"max_records": 0, "max_bytes": 0}
    renewed = await consumer.fetch(1, (0, 0, RENEW), is_renew_ack=True, **nothing)
    assert row(renewed).acknowledge_error_code == 0
    await broker.group_settings.alter("g", lambda _: {"share.renew.acknowledge.enable": "false"})
    refused = await consumer.fetch(2, (0, 0, RENEW), is_renew_ack=True, **nothing)
    assert row(refused).acknowledge_error_code == INVALID_REQUEST


async def test_partitions_come_and_go_within_a_session(broker: Broker, consumer: Consumer) -> None:
    forgotten = [ForgottenTopic(consumer.topic, [0])]
    await consumer.fetch(0)
    await consumer.fetch(1, topics=[], forgotten_topics_data=forgotten)
    await produce(broker, b"a")
    assert (await consumer.fetch(2, topics=[])).responses == []
    assert acquired(await consumer.fetch(3)) == [(0, 0, 1)]
    await produce(broker, b"b")
    assert acquired(await consumer.fetch(4, topics=[])) == [(1, 1, 1)]


async def test_what_is_not_there_has_an_error_of_its_own(
    broker: Broker, consumer: Consumer
) -> None:
    absent = [FetchTopic(b"x" * 16, [FetchPartition(0)])]
    answer = await consumer.fetch(0, topics=absent, max_wait_ms=60_000)
    assert row(answer).error_code == UNKNOWN_TOPIC_ID


async def test_a_waiting_fetch_hears_that_its_topic_is_gone(
    broker: Broker, consumer: Consumer
) -> None:
    waiting = asyncio.ensure_future(consumer.fetch(0, max_wait_ms=60_000))
    await asyncio.sleep(0)
    await broker.topics.delete("t")
    assert row(await waiting).error_code == UNKNOWN_TOPIC_ID

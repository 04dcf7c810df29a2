"""Fetches like the one before are answered without being read, and no other way."""

import asyncio
import struct
from dataclasses import replace

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.security.acl import Effect, Kind, Operation, Rule
from chordmq.broker.security.quotas import DEFAULT, Entity, Limit
from chordmq.broker.settings import BrokerSettings
from chordmq.codecs.kafka.fetch_form import SESSIONS_SINCE
from chordmq.codecs.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chordmq.fronts.kafka.answer import Answer
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.fetch_repeats import FetchLikeness
from chordmq.fronts.kafka.gathering import Asker
from chordmq.records.record import NewRecord, build_batch
from tests.fronts.kafka.fetching import (
    ROOM,
    Got,
    Sent,
    asked,
    got,
    got_any,
    now,
    plain,
    read_all,
    write,
)
from tests.fronts.kafka.wire import answered, connected, framed, produce, received

CORRUPT, UNKNOWN_TOPIC, DENIED, WRONG_EPOCH, FENCED = 2, 3, 29, 71, 74
LONG_MS = 60_000


@pytest.fixture(params=[0, 1 << 20], ids=["from files", "from memory"])
def settings(request: pytest.FixtureRequest) -> BrokerSettings:
    """Give a node that keeps no records in memory, or some."""
    return BrokerSettings(node_id=7, log_memory_max_bytes=request.param)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """Give the list of answers to requests that were not read."""
    take, answers = FetchLikeness.take, list[Answer]()

    def took(self: FetchLikeness, asker: Asker, frame: memoryview) -> Answer | None:
        answer = take(self, asker, frame)
        if answer is not None:
            answers.append(answer)
        return answer

    monkeypatch.setattr(FetchLikeness, "take", took)
    return answers


@pytest.mark.parametrize("version", FetchRequest.versions)
@pytest.mark.parametrize("begins_session", [False, True])
async def test_a_consumer_gets_every_record_in_order(
    front: KafkaFront,
    partition: Partition,
    taken: list[Answer],
    version: int,
    begins_session: bool,
) -> None:
    """C6: in all versions, with sessions and without."""
    values = write(partition)
    session = (0, 0 if begins_session and version >= SESSIONS_SINCE else -1)
    async with connected(front) as wire:
        sent = replace(plain(front, version), session=session)
        assert await read_all(wire, sent, 40) == values
    assert len(taken) >= 4


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
@pytest.mark.parametrize("isolation", [0, 1])
async def test_answers_are_those_of_requests_that_are_read(
    front: KafkaFront,
    partition: Partition,
    taken: list[Answer],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    isolation: int,
) -> None:
    """C6: byte for byte, whatever is asked."""
    write(partition)
    offsets = [0, 7, 7, 14, 3, 39, 40, 41, -1, 21, 28, 2**62, 35]
    answers: list[list[bytes]] = []
    count = 0
    for _ in range(2):
        async with connected(front) as wire:
            one: list[bytes] = []
            for offset in offsets:
                sent = replace(plain(front, version), offset=offset, isolation=isolation)
                await wire.send(sent.frame())
                one.append(await wire.receive())
            answers.append(one)
        count = len(taken)
        monkeypatch.setattr(FetchLikeness, "take", lambda *_: None)
    assert answers[0] == answers[1]
    assert count == len(taken) > 5


async def test_an_answer_carries_its_own_correlation_id(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    write(partition)
    async with connected(front) as wire:
        for number in range(5):
            frame = bytearray(Sent().frame())
            struct.pack_into(">i", frame, 8, 1000 + number)
            await wire.send(bytes(frame))
            assert struct.unpack_from(">i", await wire.receive()) == (1000 + number,)
    assert len(taken) == 3


async def test_who_has_read_all_waits_for_more(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C6: and is told as soon as there is."""
    write(partition, 3)
    sent = Sent(max_wait_ms=LONG_MS)
    async with connected(front) as wire, connected(front) as producer:
        for number in range(3):
            assert (await asked(wire, replace(sent, offset=number))).next_offset == 3
        for number in range(3, 6):
            before = front.bytes_in
            frame = replace(sent, offset=number).frame()
            await wire.send(frame)
            await received(front, before + len(frame))
            await producer.send(produce("t", b"more"))
            assert (await answered(producer))[0] == 0
            assert (await got(wire))[1] == Got(0, [b"more"], number + 1, number + 1)
    assert len(taken) == 1


async def test_who_wants_more_than_there_is_waits(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C6: the least number of bytes holds for every request."""
    write(partition, 8)
    sent = Sent(min_bytes=2000, max_wait_ms=LONG_MS)
    async with connected(front) as wire, connected(front) as producer:
        for _ in range(3):
            assert (await asked(wire, sent)).next_offset == 6
        assert len(taken) == 1
        frame = replace(sent, offset=6).frame()
        before = front.bytes_in
        await wire.send(frame)
        await received(front, before + len(frame))
        await producer.send(produce("t", b"x" * 1500))
        assert (await answered(producer))[0] == 0
        assert (await got(wire))[1].next_offset == 9
        assert len(taken) == 1
        assert (await asked(wire, replace(sent, offset=6))).next_offset == 9
    assert len(taken) == 2


async def test_a_session_that_got_out_of_step_is_told(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C12: an answer that a client has missed must not count as received."""
    write(partition)
    async with connected(front) as wire:
        await wire.send(Sent(session=(0, 0)).frame())
        session = (await got(wire))[0].session_id
        for epoch in (1, 2, 3):
            assert (await asked(wire, Sent(session=(session, epoch)))).error == 0
        assert (await asked(wire, Sent(session=(session, 3)))).error == WRONG_EPOCH
        assert (await asked(wire, Sent(session=(session, 5)))).error == WRONG_EPOCH
        assert (await asked(wire, Sent(session=(session, 4)))).error == 0
        await wire.send(Sent(session=(0, 0)).frame())
        assert (await got(wire))[0].session_id not in (0, session)
    assert len(taken) == 2


async def test_a_session_with_more_partitions_tells_of_all_of_them(
    broker: Broker, front: KafkaFront, taken: list[Answer]
) -> None:
    """C6: a row that was there before the others is no longer alone."""
    topic = await broker.topics.create("t", 2, 1, {"flush": "os"})
    write(topic.partitions[0])
    async with connected(front) as wire:
        await wire.send(Sent(session=(0, 0)).frame())
        session = (await got(wire))[0].session_id
        for epoch in (1, 2, 3):
            await asked(wire, Sent(session=(session, epoch)))
        assert len(taken) == 1
        row = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=ROOM)
        more = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=session,
            session_epoch=4,
            topics=[FetchTopic(topic="t", partitions=[row])],
        )
        await wire.send(framed(more, 12))
        await wire.receive()
        write(topic.partitions[1], 1)
        await wire.send(Sent(session=(session, 5), offset=3).frame())
        response = (await got_any(wire)).responses
        assert sorted(row.partition_index for row in response[0].partitions) == [0, 1]
    assert len(taken) == 1


async def test_a_topic_that_is_made_anew_is_found(
    broker: Broker, front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C4: what the old one had is gone for those who repeat themselves, too."""
    write(partition)
    async with connected(front) as wire:
        for _ in range(3):
            assert (await asked(wire, Sent())).error == 0
        await broker.topics.delete("t")
        assert (await asked(wire, Sent())).error == UNKNOWN_TOPIC
        again = (await broker.topics.create("t", 1, 1, {"flush": "os"})).partitions[0]
        again.append(memoryview(build_batch([NewRecord(now(again), None, b"new")])))
        for _ in range(3):
            assert (await asked(wire, Sent())).values == [b"new"]
    assert len(taken) == 2


async def test_a_right_that_is_taken_away_ends_with_the_request_before(
    broker: Broker, front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C9: what was allowed once is asked again when rules change."""
    write(partition)
    rules = [
        Rule(kind=Kind.TOPIC, name="t", principal="User:*", operation=Operation.READ, effect=effect)
        for effect in (Effect.ALLOW, Effect.DENY)
    ]
    broker.permissions.is_enforced = True
    broker.permissions.acl.change(add=rules[:1])
    async with connected(front) as wire:
        for _ in range(3):
            assert (await asked(wire, Sent())).error == 0
        broker.permissions.acl.change(add=rules[1:])
        assert (await asked(wire, Sent())).error == DENIED
        broker.permissions.acl.change(remove=rules[1:])
        for _ in range(3):
            assert (await asked(wire, Sent())).error == 0
    assert len(taken) == 3


async def test_a_client_of_an_older_leader_is_fenced(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """A9: it must learn who leads before it reads on."""
    write(partition)
    epoch = partition.leader_epoch
    async with connected(front) as wire:
        for _ in range(3):
            assert (await asked(wire, Sent(leader_epoch=epoch))).error == 0
        partition.leader_epoch += 1
        assert (await asked(wire, Sent(leader_epoch=epoch))).error == FENCED
    assert len(taken) == 1


async def test_a_consumer_sees_what_it_has_produced_in_the_same_turn(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C1: requests of one connection are served in their order."""
    write(partition, 3)
    async with connected(front) as wire:
        for _ in range(3):
            await asked(wire, Sent(offset=2))
        await wire.send(produce("t", b"mine", acks=1) + Sent(offset=3).frame())
        assert (await answered(wire))[0] == 0
        assert (await got(wire))[1].values == [b"mine"]
    assert len(taken) == 2


async def test_many_requests_at_once_are_answered_in_their_order(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C12: a client that does not wait gets each answer once."""
    values = write(partition)
    async with connected(front) as wire:
        await wire.send(b"".join(Sent(offset=number).frame() for number in range(30)))
        for number in range(30):
            assert (await got(wire))[1].values[0] == values[number]
    assert len(taken) == 28


async def test_damage_on_the_disk_is_told_and_not_delivered(
    front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """D4: a corrupt record is never delivered, also not one that is read ahead."""
    write(partition)
    path = partition.log.segments[0].path
    size = partition.log.size // 40
    partition.log._tail.clear()
    data = bytearray(path.read_bytes())
    data[30 * size + 200] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    seen, offset = list[bytes | None](), 0
    async with connected(front) as wire:
        while True:
            answer = await asked(wire, Sent(offset=offset))
            if answer.error:
                break
            seen += answer.values
            offset = answer.next_offset
            await asyncio.sleep(0)
    assert answer.error == CORRUPT
    assert len(seen) == offset == 30
    assert len(taken) >= 3


async def test_what_a_transaction_took_back_is_told(
    front: KafkaFront, partition: Partition, taken: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: where something was aborted, readers of what is committed go the long way."""
    write(partition)
    async with connected(front) as wire:
        for _ in range(4):
            assert (await asked(wire, Sent(isolation=1))).error == 0
        assert len(taken) == 2
        monkeypatch.setattr(partition.producers.transactions, "aborted", [object()])
        monkeypatch.setattr(type(partition), "aborted_in", lambda *_: [(5, 0)])
        await wire.send(Sent(isolation=1).frame())
        response = await got_any(wire)
        [row] = response.responses[0].partitions
        assert row.aborted_transactions is not None
        assert [one.producer_id for one in row.aborted_transactions] == [5]
    assert len(taken) == 2


async def test_a_quota_holds_for_those_who_repeat_themselves(
    broker: Broker, front: KafkaFront, partition: Partition, taken: list[Answer]
) -> None:
    """C11: with a limit on anybody, every request is counted."""
    write(partition)
    async with connected(front) as wire:
        for _ in range(4):
            await asked(wire, Sent())
        assert len(taken) == 2
        everybody = Entity(client=DEFAULT)
        broker.permissions.quotas.put(everybody, {Limit.FETCH: 1000.0})
        answers = [await asked(wire, Sent(max_wait_ms=1)) for _ in range(2)]
        assert [len(answer.values) for answer in answers] == [2, 2]  # a second's worth
        broker.permissions.quotas.put(everybody, {})
        assert len(taken) == 2
        assert len((await asked(wire, Sent())).values) == 6
    assert len(taken) == 3

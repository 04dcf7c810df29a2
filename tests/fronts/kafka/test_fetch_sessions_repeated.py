"""What fetches that were not read leave behind, and what becomes of them when things go wrong."""

from dataclasses import replace

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.partition import Partition
from chordmq.broker.read_ahead import ReadAhead
from chordmq.broker.security.quotas import DEFAULT, Entity, Limit
from chordmq.broker.settings import BrokerSettings
from chordmq.codecs.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.connection import KafkaConnection
from chordmq.fronts.kafka.fetch_repeats import FetchLikeness
from chordmq.fronts.kafka.sasl_session import SaslSession
from chordmq.records.batch import TRANSACTIONAL
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage.log import Log
from tests.fronts.kafka.fetching import Sent, asked, got, got_any, now, read_all, write
from tests.fronts.kafka.wire import Wire, answered, connected, framed, produce

VERSION = 12
MEMORY = 1 << 20


@pytest.fixture
def settings() -> BrokerSettings:
    """Give a node with memory for pieces of files."""
    return BrokerSettings(node_id=7, log_memory_max_bytes=MEMORY)


@pytest.fixture(params=[True, False], ids=["recognised", "read"])
def is_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Say whether requests are recognised; the same holds if each is read."""
    if not request.param:
        monkeypatch.setattr(FetchLikeness, "take", lambda *_: None)
    return bool(request.param)


@pytest.fixture
def old(partition: Partition) -> Partition:
    """Give a partition with records that only its file has."""
    write(partition)
    partition.log._tail.clear()
    return partition


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the list of offsets that are read ahead."""
    prepare, offsets = ReadAhead.prepare, list[int]()

    def noted(self: ReadAhead, log: Log, offset: int, max_bytes: int, limit: int) -> None:
        offsets.append(offset)
        prepare(self, log, offset, max_bytes, limit)

    monkeypatch.setattr(ReadAhead, "prepare", noted)
    return offsets


def without_rows(session: int, epoch: int, isolation: int = 0) -> bytes:
    """Return a request that only says: go on."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=isolation,
        session_id=session,
        session_epoch=epoch,
    )
    return framed(request, VERSION)


async def begun(wire: Wire, isolation: int = 0) -> int:
    """Begin a session in which the next request has epoch 4; return its id."""
    await wire.send(Sent(session=(0, 0), isolation=isolation).frame())
    session = (await got(wire))[0].session_id
    for epoch in (1, 2, 3):
        assert not (await asked(wire, Sent(session=(session, epoch), isolation=isolation))).error
    return session


async def test_a_consumer_in_order_finds_its_next_piece_read(
    front: KafkaFront, old: Partition, prepared: list[int]
) -> None:
    """D2: from the fourth request on, and with nobody else reading."""
    async with connected(front) as wire:
        values = await read_all(wire, Sent(), 40)
    assert len(values) == 40
    assert prepared == [24, 30, 36]


async def test_a_consumer_out_of_order_has_nothing_read_ahead(
    front: KafkaFront, old: Partition, prepared: list[int]
) -> None:
    """D2: it would be in vain."""
    async with connected(front) as wire:
        for offset in (0, 12, 3, 30, 6, 24):
            assert not (await asked(wire, Sent(offset=offset))).error
    assert prepared == []


async def test_beside_another_reader_nothing_is_read_ahead(
    front: KafkaFront, old: Partition, prepared: list[int]
) -> None:
    """D2: the processor's cache would have forgotten it."""
    async with connected(front) as one, connected(front) as other:
        for offset in range(0, 36, 6):
            for wire in (one, other):
                assert not (await asked(wire, Sent(offset=offset))).error
    assert prepared == []


@pytest.mark.usefixtures("is_quick")
async def test_a_session_goes_on_where_a_request_has_left_it(
    front: KafkaFront, old: Partition
) -> None:
    """C6: a request without rows reads what the last one has asked for, which is woken, too."""
    async with connected(front) as wire:
        session = await begun(wire)
        assert (await asked(wire, Sent(session=(session, 4), offset=37))).next_offset == 40
        await wire.send(without_rows(session, 5))
        assert (await got(wire))[1].next_offset == 40
        assert (await asked(wire, Sent(session=(session, 6), offset=40))).values == []
        write(old, 1)
        await wire.send(without_rows(session, 7))
        assert (await got(wire))[1].next_offset == 41
        assert (await asked(wire, Sent(session=(session, 8), offset=38))).next_offset == 41
        old.commit(41)
        assert (await asked(wire, Sent(session=(session, 9), offset=41))).values == []
        await wire.send(without_rows(session, 10))
        assert (await got_any(wire)).responses == []  # nothing is new


@pytest.mark.usefixtures("is_quick")
async def test_a_row_has_the_room_of_the_last_request(front: KafkaFront, old: Partition) -> None:
    """C6: also if one before it had another."""
    async with connected(front) as wire:
        session = await begun(wire)
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        narrow = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=session,
            session_epoch=4,
            topics=[FetchTopic(topic="t", partitions=[row])],
            forgotten_topics_data=[ForgottenTopic(topic="u", partitions=[0])],
        )
        await wire.send(framed(narrow, VERSION))
        assert len((await got(wire))[1].values) == 1
        assert len((await asked(wire, Sent(session=(session, 5)))).values) == 6
        await wire.send(without_rows(session, 6))
        assert len((await got(wire))[1].values) == 6


@pytest.mark.usefixtures("is_quick")
async def test_a_request_is_answered_in_its_own_isolation(
    front: KafkaFront, partition: Partition
) -> None:
    """C3: whatever another request of the session was allowed to see."""
    write(partition, 3)
    open_one = build_batch(
        [NewRecord(now(partition), None, b"undecided")],
        producer_id=5,
        epoch=0,
        sequence=0,
        flags=TRANSACTIONAL,
    )
    partition.append(memoryview(open_one), is_enlisted=True)
    async with connected(front) as wire:
        session = await begun(wire, isolation=1)
        await wire.send(without_rows(session, 4, isolation=0))
        await wire.receive()
        sent = Sent(session=(session, 5), isolation=1)
        assert len((await asked(wire, sent)).values) == 3


@pytest.mark.usefixtures("is_quick")
@pytest.mark.parametrize("count", [1, 2])
async def test_a_file_that_cannot_be_opened_is_told(
    front: KafkaFront, old: Partition, count: int
) -> None:
    """C12: by an error, on a connection that stays."""
    old.log._roll()
    old.log.flush()
    old.log._tail.clear()
    path = old.log.segments[0].path
    sent = Sent(max_wait_ms=100)
    async with connected(front) as wire:
        for _ in range(3):
            assert not (await asked(wire, sent)).error
        path.rename(f"{path}.away")
        await wire.send(replace(sent, offset=12).frame() * count)
        for _ in range(count):
            assert (await got(wire))[1].error


@pytest.mark.usefixtures("is_quick")
async def test_a_quota_that_comes_while_an_answer_waits_is_told_in_it(
    broker: Broker, front: KafkaFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: behind a Produce request that waits for the disk, and both are answered."""
    partition = (await broker.topics.create("t", 1, 1, {"flush": "disk"})).partitions[0]
    write(partition)
    if (flushed := partition.committed(40)) is not None:
        await flushed
    work, waited = KafkaConnection._work, list[bool]()

    def limited(self: KafkaConnection) -> None:
        work(self)
        if not waited and [one.is_ready for one in self._answers] == [False, True]:
            waited.append(True)
            broker.permissions.quotas.put(Entity(client=DEFAULT), {Limit.FETCH: 100.0})

    async with connected(front) as wire:
        for _ in range(3):
            assert not (await asked(wire, Sent())).error
        monkeypatch.setattr(KafkaConnection, "_work", limited)
        await wire.send(produce("t", b"x") + Sent().frame())
        assert (await answered(wire))[0] == 0
        response, answer = await got(wire)
        assert len(answer.values) == 6
        assert response.throttle_time_ms > 1000
    assert waited


@pytest.mark.usefixtures("is_quick")
async def test_who_has_no_room_is_treated_alike_each_time(
    front: KafkaFront, old: Partition
) -> None:
    """C12: whatever number a client sends."""
    counts = []
    async with connected(front) as wire:
        for limit in (0, 0, 0, -(2**31), -(2**31), -(2**31)):
            row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=limit,
                session_epoch=-1,
                topics=[FetchTopic(topic="t", partitions=[row])],
            )
            await wire.send(framed(request, VERSION))
            counts.append(len((await got(wire))[1].values))
    assert len(set(counts)) == 1


async def test_a_request_that_has_to_wait_is_looked_at_once(
    front: KafkaFront, old: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6: then it goes the long way."""
    take, seen = FetchLikeness.take, list[object]()

    def counted(self: FetchLikeness, *arguments: object) -> object:
        seen.append(arguments)
        return take(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FetchLikeness, "take", counted)
    async with connected(front) as wire:
        for _ in range(4):
            await asked(wire, Sent(offset=40))
    assert len(seen) == 2


async def test_who_is_another_one_now_is_asked_again(
    front: KafkaFront, old: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C9: what one principal may read says nothing of another, nor one who must log in again."""
    take, likes = FetchLikeness.take, list[FetchLikeness]()

    def noted(self: FetchLikeness, *arguments: object) -> object:
        likes.append(self)
        return take(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FetchLikeness, "take", noted)
    async with connected(front) as wire:
        for _ in range(3):
            await asked(wire, Sent())
        [like] = likes
        assert like._holds()
        client = like._call.client
        client.principal = replace(client.principal, name="somebody else")
        assert not like._holds()
        client.sasl = SaslSession(is_open=False)
        await wire.send(Sent().frame())
        assert await wire.receive() == b""
    assert len(likes) == 1

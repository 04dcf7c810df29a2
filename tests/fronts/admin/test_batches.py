"""Batches over HTTP as they are stored, on a real broker."""

import asyncio

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.producers import Incarnation
from chordmq.fronts.admin.batches import BATCHES
from chordmq.records.batch import walk
from chordmq.records.marker import Marker
from chordmq.records.record import NewRecord, read_records

PATH = "/v1/topics/orders/partitions/0/batches"
PRODUCER = Incarnation(7, 0)


@pytest.fixture(autouse=True)
async def orders(broker: Broker) -> None:
    await broker.topics.create("orders", 1)


async def append(broker: Broker, *values: bytes, producer: Incarnation | None = None) -> None:
    records = [NewRecord(1, None, value) for value in values]
    await broker.append_records("orders", 0, records, producer=producer)


def values(body: bytes) -> list[bytes | None]:
    view = memoryview(body)
    return [
        record.value
        for at, header in walk(view)
        for record in read_records(view[at : at + header.size])
    ]


async def test_batches_come_as_they_are_stored(http: httpx.AsyncClient, broker: Broker) -> None:
    """D12: whole batches, where to go on, and where the partition ends."""
    await append(broker, b"a", b"b")
    await append(broker, b"c")
    answer = await http.get(PATH)
    assert answer.headers["content-type"] == BATCHES
    assert answer.content == b"".join(broker.partition("orders", 0).read(0, 1 << 20))
    assert values(answer.content) == [b"a", b"b", b"c"]
    assert answer.headers["chordmq-next-offset"] == answer.headers["chordmq-end-offset"] == "3"
    first = await http.get(PATH, params={"max_bytes": 1})
    assert first.headers["chordmq-next-offset"] == "2"


async def test_a_reader_at_the_end_is_answered_when_there_is_more(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """D12: long poll."""
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(http.get(PATH, params={"wait_ms": 20_000}))
        while not broker.partition("orders", 0).readers:  # noqa: ASYNC110 (others have a turn)
            await asyncio.sleep(0)
        await append(broker, b"new")
    assert values(waiting.result().content) == [b"new"]


async def test_aborted_transactions_and_deleted_records_are_skipped(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """D12: a position never stands still before what nobody may see."""
    await append(broker, b"old")
    await append(broker, b"aborted", producer=PRODUCER)
    await broker.append_marker("orders", 0, Marker(*PRODUCER, is_commit=False))
    await broker.partition("orders", 0).delete_records(1)
    answer = await http.get(PATH, params={"offset": 0})
    assert (answer.content, answer.headers["chordmq-next-offset"]) == (b"", "3")
    await append(broker, b"new")
    assert values((await http.get(PATH, params={"offset": 3})).content) == [b"new"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{PATH}?offset=99", 416),
        ("/v1/topics/nobody/partitions/0/batches", 404),
        ("/v1/topics/orders/partitions/9/batches", 404),
        ("/v1/topics/orders/partitions/x/batches", 400),
        (f"{PATH}?what=1", 400),
    ],
)
async def test_what_is_not_there_is_refused(
    http: httpx.AsyncClient, path: str, status: int
) -> None:
    assert (await http.get(path)).status_code == status

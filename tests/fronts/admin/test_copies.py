"""Copies of what other clusters wrote, over HTTP, on a real broker."""

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.records.origin import origin_id
from chordmq.records.record import NewRecord, build_batch

PATH = "/v1/topics/orders/partitions/0"
OCTETS = {"content-type": "application/octet-stream"}
FAR = origin_id("far", "t")


@pytest.fixture(autouse=True)
async def orders(broker: Broker) -> None:
    await broker.topics.create("orders", 1)


def batch(first: int, count: int) -> bytes:
    records = [NewRecord(1, None, b"%d" % number) for number in range(first, first + count)]
    return bytes(build_batch(records, base_offset=first))


async def send(http: httpx.AsyncClient, body: bytes, source: int | str = FAR) -> httpx.Response:
    where = {"source": str(source)}
    return await http.post(f"{PATH}/batches", params=where, content=body, headers=OCTETS)


async def test_batches_of_another_cluster_are_stored_once(http: httpx.AsyncClient) -> None:
    """D12: what was sent is known, and where another finds something new."""
    assert (await send(http, batch(0, 3))).json() == {"copied": 3, "repeated": 0}
    assert (await send(http, batch(0, 3) + batch(3, 2))).json() == {"copied": 2, "repeated": 3}
    origins = (await http.get(f"{PATH}/origins")).json()
    own = origins["own"]
    assert origins == {"own": own, "end": 5, "next": {own: 5, str(FAR): 5}}
    earlier = (await http.get(f"{PATH}/origins", params={"offset": 4})).json()
    assert earlier["next"] == {own: 4, str(FAR): 4}
    for known, offset in ((earlier["next"], 4), (origins["next"], 5), ({}, 0)):
        assert (await http.post(f"{PATH}/place", json=known)).json() == {"offset": offset}


async def test_what_cannot_be_a_copy_is_refused(http: httpx.AsyncClient) -> None:
    for body, source in ((b"no batch", FAR), (batch(0, 1), 7), (batch(0, 1), "x")):
        assert (await send(http, body, source)).status_code == 400
    plain = await http.post(f"{PATH}/batches", params={"source": str(FAR)}, content=batch(0, 1))
    assert plain.status_code == 415
    assert (await http.post(f"{PATH}/place", json={"x": 1})).status_code == 400
    assert (await http.get(f"{PATH}/origins")).json()["end"] == 0

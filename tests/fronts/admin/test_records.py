"""Records over HTTP, on a real broker."""

import asyncio
import base64
import itertools
from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.producers import Incarnation
from chordmq.broker.security.acl import Kind, Operation, Rule
from chordmq.client.partitioner import partition_for_key
from chordmq.fronts.admin.call import OCTETS, Shared
from chordmq.fronts.admin.records import PARTITIONS_FOLLOWED_MAX
from chordmq.records.marker import Marker
from chordmq.records.record import NewRecord, read_records
from tests.fronts.admin.conftest import LIMITS

PATH = "/v1/topics/orders/records"
PRODUCER = Incarnation(7, 0)


@pytest.fixture(autouse=True)
async def orders(broker: Broker) -> None:
    await broker.topics.create("orders", 2, settings={"max.message.bytes": "2000000"})


def stored(broker: Broker, partition: int, topic: str = "orders") -> list[tuple[Any, ...]]:
    """Return key, value and headers of everything in a partition."""
    read = broker.partition(topic, partition).read(0, 1 << 24)
    return [(r.key, r.value, r.headers) for batch in read for r in read_records(batch)]


async def publish(http: httpx.AsyncClient, body: Any, path: str = PATH) -> list[dict[str, Any]]:
    answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()["records"]
    return rows


async def read(http: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await http.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


@pytest.mark.parametrize(
    ("record", "value"),
    [
        ({"value": "grüße"}, "grüße".encode()),
        ({"value": ""}, b""),
        ({"value": "/wD+", "encoding": "base64"}, b"\xff\x00\xfe"),
        ({"value": None}, None),
        ({"value": None, "encoding": "json"}, None),
        ({}, None),
        ({"value": "null"}, b"null"),
        ({"value": {"a": [1, 2.50]}, "encoding": "json"}, b'{"a":[1,2.5]}'),
        ({"value": "text", "encoding": "json"}, b'"text"'),
    ],
)
async def test_a_value_is_stored_as_its_encoding_says(
    http: httpx.AsyncClient, broker: Broker, record: dict[str, Any], value: bytes | None
) -> None:
    """C17, X1: every byte string can be published, and no value at all."""
    assert await publish(http, record | {"partition": 1}) == [{"partition": 1, "offset": 0}]
    assert stored(broker, 1) == [(None, value, ())]


async def test_json_is_stored_byte_for_byte(http: httpx.AsyncClient, broker: Broker) -> None:
    body = (
        b'{"partition": 0, "encoding": "json", "value": {"n" :  1.10, "n": 12345678901234567890}}'
    )
    await http.post(PATH, content=body, headers={"content-type": "application/json"})
    assert stored(broker, 0)[0][1] == b'{"n" :  1.10, "n": 12345678901234567890}'


async def test_key_headers_and_time_are_stored(http: httpx.AsyncClient, broker: Broker) -> None:
    headers = [
        {"name": "a", "value": "1"},
        {"name": "a", "value": "/w==", "encoding": "base64"},
        {"name": "none", "value": None},
    ]
    record = {"key": "k", "value": "v", "headers": headers, "timestamp": 1_700_000_000_123}
    (row,) = await publish(http, record)
    assert row["partition"] == partition_for_key(b"k", 2)
    assert stored(broker, row["partition"]) == [
        (b"k", b"v", (("a", b"1"), ("a", b"\xff"), ("none", None)))
    ]
    found = (await read(http, partition=row["partition"]))["records"][0]
    assert found["timestamp"] == 1_700_000_000_123
    assert found["headers"] == headers


async def test_a_raw_body_is_the_value(http: httpx.AsyncClient, broker: Broker) -> None:
    """C17: with its key and headers in the headers of the request."""
    headers = {
        "content-type": OCTETS,
        "chordmq-key": "device-7",
        "chordmq-partition": "1",
        "chordmq-timestamp": "1700000000000",
        "chordmq-header-trace": "abc",
    }
    answer = await http.post(PATH, content=b"\xff\x00", headers=headers)
    assert answer.json() == {"records": [{"partition": 1, "offset": 0}]}
    assert stored(broker, 1) == [(b"device-7", b"\xff\x00", (("trace", b"abc"),))]
    base64_key = {"content-type": OCTETS, "chordmq-key-base64": "/w==", "chordmq-partition": "0"}
    await http.post(PATH, content=b"", headers=base64_key)
    assert stored(broker, 0) == [(b"\xff", b"", ())]


async def test_the_records_of_a_request_become_one_batch(
    http: httpx.AsyncClient, broker: Broker, shared: Shared
) -> None:
    rows = await publish(http, [{"value": str(n), "partition": n % 2} for n in range(10)])
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (n % 2, n // 2) for n in range(10)
    ]
    assert shared.appends.batches == 2
    assert [value for _, value, _ in stored(broker, 0)] == [b"0", b"2", b"4", b"6", b"8"]


async def test_requests_of_one_turn_share_a_batch(http: httpx.AsyncClient, shared: Shared) -> None:
    """C14: joined work is one write and one flush, and each client learns its own offsets."""
    rows = await asyncio.gather(
        *(publish(http, [{"value": str(n), "partition": 0}] * 3) for n in range(20))
    )
    offsets = [[row["offset"] for row in one] for one in rows]
    assert sorted(itertools.chain(*offsets)) == list(range(60))
    assert all(one == list(range(one[0], one[0] + 3)) for one in offsets)
    assert shared.appends.batches < 10
    found = (await read(http, partition=0, max_records=50))["records"]
    for n, one in enumerate(offsets):
        if one[-1] < len(found):
            assert {found[offset]["value"] for offset in one} == {str(n)}


async def test_a_refused_request_does_not_fail_those_it_was_joined_with(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    await broker.topics.create("facts", 1, settings={"cleanup.policy": "compact"})
    path = "/v1/topics/facts/records"
    good, bad, large = await asyncio.gather(
        http.post(path, json={"key": "k", "value": "v"}),
        http.post(path, json={"value": "no key"}),
        http.post(path, json={"key": "k", "value": "x" * 1_200_000}),
    )
    assert (good.status_code, bad.status_code, large.status_code) == (200, 400, 413)
    assert bad.json()["error"] == "InvalidRecord"
    assert large.json()["error"] == "BatchTooLarge"
    assert stored(broker, 0, "facts") == [(b"k", b"v", ())]


async def test_partitions_that_fare_differently_are_told_apart(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    body = [{"value": "ok", "partition": 0}, {"value": "x" * 2_000, "partition": 1}]
    await broker.topics.alter_settings("orders", lambda _: {"max.message.bytes": "1000"})
    answer = await http.post(PATH, json=body)
    assert answer.status_code == 207
    good, bad = answer.json()["records"]
    assert good == {"partition": 0, "offset": 0}
    assert (bad["partition"], bad["error"]) == (1, "BatchTooLarge")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"value": 7}, 400, "InvalidRecord"),
        ({"value": "x!", "encoding": "base64"}, 400, "InvalidRecord"),
        ({"value": "x", "encoding": "latin-1"}, 400, "InvalidRequest"),
        ({"values": "x"}, 400, "InvalidRequest"),
        ({"value": "x", "partition": 2}, 400, "InvalidRequest"),
        ({"value": "x", "partition": -1}, 400, "InvalidRequest"),
        ({"value": "x", "timestamp": 2**62}, 400, "InvalidTimestamp"),
        ([], 400, "InvalidRequest"),
        ("text", 400, "InvalidRequest"),
        ([{}] * (LIMITS.batch_records_max + 1), 413, "RequestEntityTooLarge"),
        ({"value": "x" * LIMITS.body_size_max}, 413, "RequestEntityTooLarge"),
    ],
)
async def test_what_cannot_be_published_is_refused_whole(
    http: httpx.AsyncClient, broker: Broker, body: Any, status: int, error: str
) -> None:
    answer = await http.post(PATH, json=body)
    assert (answer.status_code, answer.json()["error"].replace("Content", "RequestEntity")) == (
        status,
        error,
    )
    assert stored(broker, 0) == stored(broker, 1) == []


async def test_other_content_types_and_topics_are_refused(http: httpx.AsyncClient) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert (await http.post(PATH, content=b"value=x", headers=form)).status_code == 415
    assert (await http.post(PATH, content=b"x")).status_code == 415
    assert (await http.post("/v1/topics/none/records", json={})).status_code == 404
    answer = await http.put("/v1/groups/g/offsets", json={"offsets": [offset("orders", 0, 0)]})
    assert answer.status_code == 204
    answer = await http.post("/v1/topics/__consumer_offsets/records", json={})
    assert (answer.status_code, answer.json()["error"]) == (403, "PolicyViolation")


def offset(topic: str, partition: int, offset: int) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": offset}


async def test_reading_goes_on_where_the_last_answer_ended(http: httpx.AsyncClient) -> None:
    """C17: from the first record on, page by page, each once."""
    await publish(http, [{"value": str(n), "partition": n % 2} for n in range(20)])
    position, seen = "earliest", []
    while page := (answer := await read(http, position=position, max_records=3))["records"]:
        assert len(page) <= 3
        seen += [record["value"] for record in page]
        position = answer["position"]
    assert sorted(seen, key=int) == [str(n) for n in range(20)]
    assert position == answer["end"] == "0:10,1:10"


async def test_reading_begins_at_an_offset_a_time_or_an_end(http: httpx.AsyncClient) -> None:
    for n in range(5):
        await publish(http, {"value": str(n), "partition": 0, "timestamp": 1_700_000_000_000 + n})

    async def values(**query: Any) -> list[str]:
        return [record["value"] for record in (await read(http, **query))["records"]]

    assert await values() == ["0", "1", "2", "3", "4"]
    assert await values(partition=0, offset=3) == ["3", "4"]
    assert await values(timestamp=1_700_000_000_002) == ["2", "3", "4"]
    assert await values(timestamp=1_800_000_000_000) == []
    assert await values(position="latest") == []
    assert await values(position="0:4,1:0") == ["4"]
    await http.put("/v1/groups/g/offsets", json={"offsets": [offset("orders", 0, 2)]})
    assert await values(group="g") == ["2", "3", "4"]
    assert await values(group="unknown") == ["0", "1", "2", "3", "4"]


async def test_bytes_are_shown_as_asked(http: httpx.AsyncClient) -> None:
    text = base64.b64encode(b"\xff").decode()
    await publish(
        http,
        [
            {"value": "text", "partition": 0},
            {"value": text, "encoding": "base64", "partition": 0},
            {"value": {"a": 1}, "encoding": "json", "partition": 0},
        ],
    )

    async def shown(encoding: str) -> list[tuple[Any, str]]:
        found = (await read(http, partition=0, encoding=encoding))["records"]
        return [(record["value"], record["encoding"]) for record in found]

    assert await shown("auto") == [("text", "utf-8"), (text, "base64"), ('{"a":1}', "utf-8")]
    assert await shown("json") == [("text", "utf-8"), (text, "base64"), ({"a": 1}, "json")]
    assert await shown("base64") == [
        ("dGV4dA==", "base64"),
        (text, "base64"),
        ("eyJhIjoxfQ==", "base64"),
    ]


async def test_a_record_that_was_read_can_be_published_as_it_is(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    record = {"key": "/w==", "key_encoding": "base64", "value": "v", "headers": {"h": "1"}}
    await publish(http, record | {"partition": 0})
    (found,) = (await read(http, partition=0))["records"]
    await publish(http, found)
    first, second = stored(broker, 0)
    assert first == second == (b"\xff", b"v", (("h", b"1"),))


async def test_waiting_ends_the_moment_a_record_is_committed(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """E2: a new message reaches who waits at once; nothing is polled."""
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        waiting = group.create_task(read(http, position="latest", wait_ms=60_000))
        partition = broker.partition("orders", 1)
        while not partition._readers:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await publish(http, {"value": "now", "partition": 1})
    assert [record["value"] for record in waiting.result()["records"]] == ["now"]
    assert not partition._readers
    assert not broker.partition("orders", 0)._readers


async def test_waiting_ends_when_the_time_is_up_or_the_topic_goes(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    assert (await read(http, position="latest", wait_ms=20))["records"] == []
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        waiting = group.create_task(http.get(PATH, params={"wait_ms": 60_000}))
        while not broker.partition("orders", 1)._readers:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await broker.topics.delete("orders")
    assert waiting.result().status_code == 404


async def test_aborted_records_are_never_shown_and_others_when_they_are_committed(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """C7: as a Kafka consumer with read_committed sees it."""
    for value, is_commit in ((b"aborted", False), (b"committed", True)):
        record = NewRecord(1, None, value)
        await broker.append_records("orders", 0, [record], producer=PRODUCER)
        assert (await read(http, partition=0))["records"] == []
        await broker.append_marker("orders", 0, Marker(*PRODUCER, is_commit))
    found = await read(http, partition=0)
    assert [record["value"] for record in found["records"]] == ["committed"]
    assert found["position"] == "0:4"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("offset=1", 400),
        ("partition=0&offset=1&timestamp=1", 400),
        ("partition=0&partition=1", 400),
        ("partition=9", 404),
        ("partition=x", 400),
        ("partition=0&offset=99", 416),
        ("position=0:99", 416),
        ("position=nowhere", 400),
        ("max_records=0", 400),
        ("max_records=null", 400),
        ("wait_ms=999999999", 400),
        ("encoding=ebcdic", 400),
        ("offsets=1", 400),
    ],
)
async def test_a_place_that_makes_no_sense_is_refused(
    http: httpx.AsyncClient, query: str, status: int
) -> None:
    answer = await http.get(f"{PATH}?{query}")
    assert answer.status_code == status
    assert answer.json().keys() == {"error", "message"}


async def test_many_partitions_must_be_named(http: httpx.AsyncClient, broker: Broker) -> None:
    await broker.topics.create("wide", PARTITIONS_FOLLOWED_MAX + 1)
    assert (await http.get("/v1/topics/wide/records")).status_code == 400
    assert (await http.get("/v1/topics/wide/records?partition=0,100")).status_code == 200


async def test_old_records_can_be_dropped(http: httpx.AsyncClient) -> None:
    await publish(http, [{"value": str(n), "partition": 0} for n in range(5)])
    answer = await http.delete(PATH, params={"partition": 0, "before": 3})
    assert answer.json() == {"partition": 0, "start_offset": 3}
    assert [r["value"] for r in (await read(http, partition=0))["records"]] == ["3", "4"]
    assert (await http.delete(PATH, params={"partition": 0, "before": 9})).status_code == 416
    answer = await http.delete(PATH, params={"partition": 0})
    assert answer.json() == {"partition": 0, "start_offset": 5}


async def test_without_a_right_nothing_is_published_or_read(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """C8: the same ACLs as in every other protocol, from the next request on."""
    broker.permissions.is_enforced = True
    for answer in (
        await http.post(PATH, json={"value": "x"}),
        await http.get(PATH),
        await http.delete(PATH, params={"partition": 0}),
        await http.get("/v1/topics/orders/stream"),
    ):
        assert (answer.status_code, answer.json()["error"]) == (403, "TopicAccessDenied")
    rule = Rule(
        kind=Kind.TOPIC, name="orders", principal="User:ANONYMOUS", operation=Operation.WRITE
    )
    await broker.permissions.add_rules([rule])
    assert (await http.post(PATH, json={"value": "x"})).status_code == 200
    assert (await http.get(PATH)).status_code == 403
    assert (await http.get(PATH, params={"group": "g"})).status_code == 403


async def test_bodies_of_all_requests_share_a_bound(
    http: httpx.AsyncClient, shared: Shared
) -> None:
    """C11: what is too much at once is refused, and given back when a request ends."""
    large = b"x" * 1_900_000
    headers = {"content-type": OCTETS}
    answers = await asyncio.gather(
        *(http.post(PATH, content=large, headers=headers) for _ in range(4))
    )
    assert {answer.status_code for answer in answers} <= {200, 503}
    assert shared.held == 0
    shared.held = LIMITS.memory_max
    answer = await http.post(PATH, content=large, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")

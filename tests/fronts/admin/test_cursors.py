"""A shared index over HTTP: each record to one consumer, also over a crash."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.payloads import EncryptionSettings, Payloads
from chordmq.broker.security.acl import Kind, Operation, Rule
from chordmq.clock import SystemClock
from chordmq.encryption.keyring import new_ring
from chordmq.encryption.providers import write_ring
from tests.running_node import RunningNode

CURSOR = "/v1/topics/jobs/cursors/workers"


async def publish(http: httpx.AsyncClient, *values: str) -> None:
    body = [{"value": value, "partition": 0} for value in values]
    assert (await http.post("/v1/topics/jobs/records", json=body)).status_code == 200


async def take(http: httpx.AsyncClient, consumer: str, **more: Any) -> list[tuple[str, int, int]]:
    """Return value, offset and deliveries of the records that a consumer gets."""
    answer = await http.post(f"{CURSOR}/take", json={"consumer": consumer, **more})
    assert answer.status_code == 200, answer.text
    return [
        (row["record"]["value"], row["record"]["offset"], row["deliveries"])
        for row in answer.json()["records"]
    ]


async def settle(
    http: httpx.AsyncClient, consumer: str, first: int, last: int, outcome: str = "accept"
) -> int:
    row = {"partition": 0, "first": first, "last": last, "outcome": outcome}
    body = {"consumer": consumer, "answers": [row]}
    return (await http.post(f"{CURSOR}/settle", json=body)).status_code


@pytest.fixture
async def jobs(broker: Broker) -> None:
    await broker.cursors.loaded.wait()
    await broker.topics.create("jobs", 2)


@pytest.mark.usefixtures("jobs")
async def test_each_record_goes_to_one_consumer(http: httpx.AsyncClient) -> None:
    """A5: and again to another when the first gives it back."""
    await publish(http, "a", "b", "c", "d")
    assert await take(http, "one", max_records=2) == [("a", 0, 1), ("b", 1, 1)]
    assert await take(http, "two") == [("c", 2, 1), ("d", 3, 1)]
    assert await take(http, "three") == []
    assert await settle(http, "one", 0, 0) == 204
    assert await settle(http, "one", 1, 1, "release") == 204
    assert await settle(http, "two", 2, 2, "reject") == 204
    assert await take(http, "three") == [("b", 1, 2)]


@pytest.mark.usefixtures("jobs")
async def test_only_who_holds_a_record_may_settle_it(http: httpx.AsyncClient) -> None:
    assert await settle(http, "one", 0, 0) == 409
    await publish(http, "a")
    await take(http, "one")
    assert await settle(http, "two", 0, 0) == 409
    assert await settle(http, "one", 1, 0) == 400
    assert await settle(http, "one", 0, 0) == 204
    assert await settle(http, "one", 0, 0) == 409


@pytest.mark.usefixtures("jobs")
async def test_who_waits_gets_a_record_at_once(http: httpx.AsyncClient) -> None:
    """E2: woken by the record, not by a clock; one consumer gets it."""
    await take(http, "one")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        waiting = [group.create_task(take(http, name, wait_ms=3000)) for name in ("one", "two")]
        await asyncio.sleep(0.05)
        await publish(http, "now")
    assert sorted(task.result() for task in waiting) == [[], [("now", 0, 1)]]


@pytest.mark.usefixtures("jobs")
async def test_a_cursor_needs_the_right_on_group_and_topic(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """C8: as a Kafka share group does."""
    broker.permissions.is_enforced = True
    body = {"consumer": "one"}
    assert (await http.post(f"{CURSOR}/take", json=body)).json()["error"] == "GroupAccessDenied"
    rule = Rule(
        kind=Kind.GROUP, name="workers", principal="User:ANONYMOUS", operation=Operation.READ
    )
    await broker.permissions.add_rules([rule])
    assert (await http.post(f"{CURSOR}/take", json=body)).json()["error"] == "TopicAccessDenied"


async def test_what_was_settled_is_never_given_again_and_the_rest_is(
    own_node: RunningNode,
) -> None:
    """A5: over kill -9 of the node."""
    async with httpx.AsyncClient(base_url=own_node.http, verify=False, timeout=60) as http:
        await http.post("/v1/topics", json={"name": "jobs", "partitions": 1})
        await publish(http, *map(str, range(10)))
        assert len(await take(http, "one", max_records=6)) == 6
        assert await settle(http, "one", 0, 3) == 204
    own_node.restart()
    async with httpx.AsyncClient(base_url=own_node.http, verify=False, timeout=60) as http:
        rest = [value for value, _, _ in await take(http, "two")]
    assert rest == ["4", "5", "6", "7", "8", "9"]


@pytest.mark.usefixtures("jobs")
async def test_what_the_node_has_encrypted_is_taken_in_the_clear(
    broker: Broker, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """E13: a shared index opens records as every other way of reading over HTTP does."""
    write_ring(tmp_path / "keys", new_ring(0), is_new=True)
    settings = EncryptionSettings(keys=str(tmp_path / "keys"), topics="jobs")
    broker.shared.payloads = Payloads(settings, SystemClock())
    await publish(http, "secret")
    (stored,) = broker.partition("jobs", 0).log.read(0, 1000)
    assert b"secret" not in bytes(stored)
    assert await take(http, "one") == [("secret", 0, 1)]

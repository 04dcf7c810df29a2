"""Publishing messages in envelopes over HTTP: checked, made, refused or put aside."""

import base64
import json
from typing import Any

import httpx

from chordmq.broker.broker import Broker
from chordmq.iot.envelope import Origin, read, wrap

GOOD = wrap(b'{"t": 1}', Origin(message_id="m", now_ms=1, topic="t", source="s")).decode()
BAD = json.dumps(json.loads(GOOD) | {"payload": 1, "metadata": {"messageId": "m"}})
PATH = "/v1/topics/t/records"


def value(text: str) -> dict[str, Any]:
    return {"key": "k", "value": text}


async def values(http: httpx.AsyncClient, topic: str = "t") -> list[dict[str, Any]]:
    answer = await http.get(f"/v1/topics/{topic}/records")
    found: list[dict[str, Any]] = answer.json()["records"]
    return found


async def test_good_envelopes_are_stored_as_they_are(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """E1: checked at the gateway when asked for."""
    await broker.topics.create("t", 1)
    answer = await http.post(PATH, params={"envelope": "check"}, json=value(GOOD))
    assert answer.status_code == 200, answer.text
    assert [record["value"] for record in await values(http)] == [GOOD]


async def test_a_bad_envelope_refuses_the_request_with_the_reason(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """E1: and nothing of the request is stored."""
    await broker.topics.create("t", 1)
    for bad in (BAD, "21.5", ""):
        body = [value(GOOD), value(bad)]
        answer = await http.post(PATH, params={"envelope": "check"}, json=body)
        assert (answer.status_code, answer.json()["error"]) == (400, "InvalidEnvelope")
        assert answer.json()["message"].startswith("record 1: ")
    assert await values(http) == []


async def test_what_has_no_envelope_gets_one(http: httpx.AsyncClient, broker: Broker) -> None:
    """E1: what has one keeps it."""
    await broker.topics.create("t", 1)
    body = [value(GOOD), value("21.5"), {"value": base64.b64encode(b"\xff").decode(),
            "encoding": "base64", "timestamp": 5}]  # fmt: skip
    answer = await http.post(PATH, params={"envelope": "wrap"}, json=body)
    assert answer.status_code == 200, answer.text
    kept, number, binary = (record["value"] for record in await values(http))
    assert kept == GOOD
    made = read(number.encode())
    assert (made.content, made.metadata.topic, made.metadata.source) == (b"21.5", "t", "http")
    assert read(binary.encode()).content == b"\xff"
    raw = {"content-type": "application/octet-stream"}
    answer = await http.post(PATH, params={"envelope": "wrap"}, content=b"raw", headers=raw)
    assert answer.status_code == 200
    assert json.loads((await values(http))[3]["value"])["payload"] == "raw"


async def test_bad_envelopes_are_put_aside_with_the_reason(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    """E1: the others of the request are stored; each row says what became of its record."""
    await broker.topics.create("t", 1)
    params = {"envelope": "wrap", "bad": "dead_letter"}
    body = [value(BAD), value(GOOD), value(BAD), value("plain")]
    answer = await http.post(PATH, params=params, json=body)
    assert answer.status_code == 207, answer.text
    rows = answer.json()["records"]
    assert [row.get("dead_letter") for row in rows] == ["t.dlq", None, "t.dlq", None]
    assert [row["offset"] for row in rows] == [0, 0, 1, 1]
    assert "timestamp" in rows[0]["message"]
    letters = await values(http, "t.dlq")
    assert [letter["value"] for letter in letters] == [BAD, BAD]
    headers = {header["name"]: header["value"] for header in letters[0]["headers"]}
    assert headers["chordmq.origin.topic"] == "t"
    assert "timestamp" in headers["chordmq.dead.reason"]
    assert letters[0]["key"] == "k"
    assert len(await values(http)) == 2


async def test_without_the_option_values_are_nobodys_business(
    http: httpx.AsyncClient, broker: Broker
) -> None:
    await broker.topics.create("t", 1)
    assert (await http.post(PATH, json=value(BAD))).status_code == 200
    answer = await http.post(PATH, params={"envelope": "maybe"}, json=value(GOOD))
    assert answer.status_code == 400

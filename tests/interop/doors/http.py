"""HTTP: JSON records, and event streams."""

import base64
import json
from typing import Any

import httpx

from tests.interop.doors.door import Sample
from tests.running_node import RunningNode

BASE64 = "base64"


class Http:
    """Publishes JSON, reads page by page; carries everything."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        record = {
            "key": _text(sample.key),
            "key_encoding": BASE64,
            "value": _text(sample.value),
            "encoding": BASE64,
            "headers": [
                {"name": name, "value": _text(value), "encoding": BASE64}
                for name, value in sample.headers
            ],
            "timestamp": sample.timestamp,
        }
        answer = httpx.post(f"{node.http}/v1/topics/{topic}/records", json=record, timeout=60)
        assert answer.status_code == 200, answer.text

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        found: list[Sample] = []
        position = "earliest"
        while len(found) < count:
            query = {"position": position, "wait_ms": "20000"}
            url = f"{node.http}/v1/topics/{topic}/records"
            page = httpx.get(url, params=query, timeout=60).json()
            assert page["records"], "no message came"
            found += [_sample(record) for record in page["records"]]
            position = page["position"]
        return found

    def carried(self, sample: Sample) -> Sample:
        return sample


class HttpRaw(Http):
    """Publishes raw bodies, reads events; header names lose their case, nulls become empty."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        headers = [("content-type", "application/octet-stream")]
        headers += [("chordmq-timestamp", str(sample.timestamp))]
        if sample.key is not None:
            headers += [("chordmq-key-base64", _text(sample.key) or "")]
        raw = [(name.encode(), value.encode()) for name, value in headers]
        raw += [(f"chordmq-header-{name}".encode(), value or b"") for name, value in sample.headers]
        url = f"{node.http}/v1/topics/{topic}/records"
        answer = httpx.post(url, content=sample.value or b"", headers=raw, timeout=60)
        assert answer.status_code == 200, answer.text

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        found: list[Sample] = []
        url = f"{node.http}/v1/topics/{topic}/stream"
        with httpx.stream("GET", url, params={"encoding": BASE64}, timeout=60) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    found.append(_sample(json.loads(line.removeprefix("data: "))))
                    if len(found) == count:
                        break
        return found

    def carried(self, sample: Sample) -> Sample:
        headers = tuple((name.lower(), value or b"") for name, value in sample.headers)
        return sample._replace(headers=headers, value=sample.value or b"")


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None, encoding: str) -> bytes | None:
    if text is None:
        return None
    return base64.b64decode(text) if encoding == BASE64 else text.encode()


def _sample(record: dict[str, Any]) -> Sample:
    return Sample(
        _bytes(record["key"], record["key_encoding"]),
        _bytes(record["value"], record["encoding"]),
        tuple(
            (header["name"], _bytes(header["value"], header.get("encoding", "utf-8")))
            for header in record["headers"]
        ),
        record["timestamp"],
    )

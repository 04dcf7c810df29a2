"""Tests of the generated messages against what kafka-clients reads and writes."""

import json
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from chordmq.codecs.kafka.apis import APIS
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.codecs.kafka.wire import Field, fields_at
from tests.codecs.kafka.arbitrary import message_classes

ROOT = Path(__file__).parents[3]
RECORDED = (ROOT / "tests" / "golden" / "kafka_messages.jsonl").read_text().splitlines()
GOLDEN = [json.loads(line) for line in RECORDED]
CLASSES = {cls.__name__: cls for cls in message_classes()}


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row['message']}-v{row['version']}")
def test_recorded_bytes_mean_to_us_what_they_mean_to_kafka(row: dict[str, Any]) -> None:
    """C1: the bytes and the field values recorded from kafka-clients 4.3 agree with ours."""
    cls, version = CLASSES[row["message"]], row["version"]
    message = decode(cls, version, bytes.fromhex(row["hex"]))
    assert _as_java(message, version) == row["fields"]
    assert encode(message, version).hex() == row["hex"]


def _as_java(message: Any, version: int) -> dict[str, Any]:
    """Return a message as Kafka's JSON converters print it."""
    return {
        _camel(item.name): _value_as_java(item, getattr(message, item.name), version)
        for item in fields_at(type(message), version)
        if item.is_present
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _value_as_java(item: Field, value: Any, version: int) -> Any:
    if isinstance(value, list):
        element = item._replace(kind=item.kind.removeprefix("[]"))
        return [_value_as_java(element, part, version) for part in value]
    if item.struct is not None:
        return _as_java(value, version)
    match item.kind:
        case "uuid":
            return urlsafe_b64encode(value).rstrip(b"=").decode()
        case "bytes":
            return b64encode(value).decode()
        case "records":
            return ""  # the converter prints nothing for bytes that are not batches
    return value


def test_every_message_is_recorded() -> None:
    assert {row["message"] for row in GOLDEN} == set(CLASSES)


def test_the_modules_are_what_the_generator_writes() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_messages.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_table_of_apis_agrees_with_the_messages() -> None:
    for key, api in APIS.items():
        for side in ("Request", "Response"):
            cls = CLASSES[api.name + side]
            assert (cls.api_key, cls.versions) == (key, api.versions)
            assert cls.flexible_since == api.flexible_since

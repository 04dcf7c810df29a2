"""AMQP 1.0, through proton."""

from typing import Any

from proton import Message

from tests.fronts.amqp1.client import TIMEOUT_S, opened, starting_at
from tests.interop.doors.door import Sample
from tests.running_node import RunningNode

KEY, TIME, REPEATED = "chordmq.key", "timestamp_in_ms", "x-opt-"


class Amqp1:
    """Carries everything: key and time as application properties, no value as a null."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        properties: dict[str, Any] = {TIME: sample.timestamp}
        for name, value in sample.headers:
            properties.setdefault(name, []).append(_text(value))
        if sample.key is not None:
            properties[KEY] = sample.key
        for name, values in properties.items():
            if isinstance(values, list) and len(values) == 1:
                properties[name] = values[0]
        with opened(node) as connection:
            message = Message(body=sample.value, inferred=True, properties=properties)
            connection.create_sender(topic).send(message)

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        found: list[Sample] = []
        with opened(node) as connection:
            receiver = connection.create_receiver(topic, credit=count, options=starting_at("first"))
            for _ in range(count):
                found.append(_sample(receiver.receive(timeout=TIMEOUT_S)))
                receiver.accept()
        return found

    def carried(self, sample: Sample) -> Sample:
        return sample


def _sample(message: Any) -> Sample:
    properties = dict(message.properties or {})
    timestamp = properties.pop(TIME, None)
    if timestamp is None:
        timestamp = round(message.creation_time * 1000)
    key = properties.pop(KEY, message.subject)
    repeated = {
        name.removeprefix(REPEATED): values
        for name, values in (message.annotations or {}).items()
        if name.startswith(REPEATED)
    }
    headers = tuple(
        (name, _bytes(one))
        for name, value in (repeated | properties).items()
        for one in (value if isinstance(value, list) else [value])
    )
    return Sample(_bytes(key), _bytes(message.body), headers, timestamp)


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)


def _text(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value

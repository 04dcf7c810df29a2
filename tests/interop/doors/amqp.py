"""AMQP 0-9-1, through pika."""

from typing import Any

import pika

from tests.interop.doors.door import Sample
from tests.running_node import RunningNode

TIMEOUT_S = 60
KEY, TIME, NULL = "chordmq.key", "timestamp_in_ms", "chordmq.null"


class Amqp:
    """Carries everything: key, time and the lack of a value as headers of the table."""

    def produce(self, node: RunningNode, topic: str, sample: Sample) -> None:
        headers: dict[str, Any] = {TIME: sample.timestamp}
        for name, value in sample.headers:
            headers.setdefault(name, []).append(value)
        if sample.key is not None:
            headers[KEY] = sample.key
        if sample.value is None:
            headers[NULL] = True
        with _connect(node) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            properties = pika.BasicProperties(headers=headers)
            channel.basic_publish("", topic, sample.value or b"", properties, mandatory=True)

    def consume(self, node: RunningNode, topic: str, count: int) -> list[Sample]:
        found: list[Sample] = []
        with _connect(node) as connection:
            channel = connection.channel()
            channel.queue_declare(topic, durable=True, arguments={"x-stream-offset": "first"})
            for method, properties, body in channel.consume(topic, inactivity_timeout=TIMEOUT_S):
                assert method is not None, "no message came"
                channel.basic_ack(method.delivery_tag)
                found.append(_sample(method, properties, body))
                if len(found) == count:
                    break
            channel.queue_delete(topic)  # or this name would be the queue's, which is empty now
        return found

    def carried(self, sample: Sample) -> Sample:
        return sample


def _connect(node: RunningNode) -> Any:
    host, port = node.amqp_address
    return pika.BlockingConnection(pika.ConnectionParameters(host, port))


def _sample(method: Any, properties: Any, body: bytes) -> Sample:
    table = dict(properties.headers)
    timestamp = table.pop(TIME)
    is_null = table.pop(NULL, False)
    key = table.pop(KEY, method.routing_key or None)
    headers = tuple(
        (name, _bytes(one))
        for name, value in table.items()
        for one in (value if isinstance(value, list) else [value])
    )
    return Sample(_bytes(key), None if is_null else body, headers, timestamp)


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value

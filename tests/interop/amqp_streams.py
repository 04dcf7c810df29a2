"""What one does to a stream over AMQP 0-9-1, on RabbitMQ and on a node."""

from collections.abc import Callable
from typing import Any

from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.amqp_client import Client

STREAM = {"x-queue-type": "stream"}


def streamed(client: Client) -> Any:
    stream, exchange = client.queue("s", arguments=STREAM), client.exchange("e", "topic")
    client.channel.queue_bind(stream, exchange, "a.#")
    client.channel.confirm_delivery()
    client.send("", stream, *"abc", headers={"own": "header"}, content_type="text/x")
    client.send(exchange, "a.b", "routed")
    return [[client.read(stream, start, count) for start, count in (("first", 4), (1, 3))] * 2]


def stream_refused(client: Client) -> Any:
    stream = client.queue("s", arguments=STREAM)
    found = []

    def declare(text: str, arguments: dict[str, Any], **more: Any) -> None:
        how = {"durable": True, "arguments": STREAM | arguments} | more
        name = client.name(text) if text else text
        found.append((text, client.refusal(lambda c: c.queue_declare(name, **how))))

    for text in (
        "x-message-ttl", "x-expires", "x-max-length", "x-overflow", "x-dead-letter-exchange",
        "x-max-priority", "x-single-active-consumer", "x-delivery-limit", "x-max-length-bytes",
    ):  # fmt: skip
        declare(text, {text: 1000})
    declare("s", {})
    declare("x-max-age", {"x-max-age": "1h"})
    declare("transient", {}, durable=False)
    declare("exclusive", {}, exclusive=True)
    declare("auto-delete", {}, auto_delete=True)
    declare("", {})

    def consume(
        channel: BlockingChannel, *, prefetch: int = 1, of_all: int = 0, **more: Any
    ) -> None:
        channel.basic_qos(prefetch_count=prefetch)
        if of_all:
            channel.basic_qos(prefetch_count=of_all, global_qos=True)
        channel.basic_consume(stream, lambda *_: None, **more)

    acts: dict[str, Callable[[BlockingChannel], Any]] = {
        "get": lambda c: c.basic_get(stream),
        "purge": lambda c: c.queue_purge(stream),
        "no prefetch": lambda c: consume(c, prefetch=0),
        "no acknowledgement": lambda c: consume(c, auto_ack=True),
        "exclusive consumer": lambda c: consume(c, exclusive=True),
        "priority": lambda c: consume(c, arguments={"x-priority": 1}),
        "prefetch of all": lambda c: consume(c, of_all=5),
        "time": lambda c: consume(c, arguments={"x-stream-offset": "1h"}),
    }
    return [found, [(text, client.refusal(act)) for text, act in acts.items()]]

"""A real broker behind the Kafka handlers, asked through the codec as a client would."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.codecs.kafka import schema
from chordmq.codecs.kafka.apis import APIS as CODECS
from chordmq.fronts.kafka.call import Call, Client, KafkaFront
from chordmq.fronts.kafka.connection import KafkaConnection
from chordmq.fronts.kafka.dispatch import APIS
from chordmq.fronts.listener import Listener, ListenerSettings

NODE_ID = 7
ADVERTISED = ("broker.test", 19092)

Ask = Callable[..., Coroutine[Any, Any, Any]]


@pytest.fixture
def settings() -> BrokerSettings:
    """Give the node's settings; a test module may override them."""
    return BrokerSettings(node_id=NODE_ID, num_partitions=2)


@pytest.fixture
async def broker(tmp_path: Path, settings: BrokerSettings) -> AsyncIterator[Broker]:
    """Give a broker on an empty directory."""
    broker = Broker(tmp_path, settings, SystemClock(), Flusher())
    background = asyncio.ensure_future(broker.run())
    yield broker
    background.cancel()
    await asyncio.wait([background])
    broker.close()


@pytest.fixture
async def front(broker: Broker) -> AsyncIterator[KafkaFront]:
    """Give the Kafka front of the broker, which listens on a free port."""
    listener = Listener(ListenerSettings(port=0), SystemClock(), "kafka")
    front = KafkaFront(broker, listener)
    await listener.open(lambda: KafkaConnection(front))
    running = asyncio.ensure_future(listener.run())
    yield front
    await listener.close(0)
    await running


@pytest.fixture
async def partition(broker: Broker) -> Partition:
    """Give the only partition of topic `t`, which acknowledges what the page cache has."""
    topic = await broker.topics.create("t", 1, 1, {"flush": "os"})
    return topic.partitions[0]


@pytest.fixture
def ask(broker: Broker) -> Ask:
    """Give a function that sends one request through codec, table and handler, and back."""
    return asking(broker)


def asking(broker: Broker) -> Ask:
    """Return a function that asks this broker, in the newest version unless told otherwise."""
    host, port = ADVERTISED
    listener = Listener(
        ListenerSettings(advertised_host=host, advertised_port=port), SystemClock(), "kafka"
    )
    front = KafkaFront(broker, listener)

    async def ask(request: Any, version: int | None = None) -> Any:
        api = APIS[request.api_key]
        version = CODECS[request.api_key].versions[-1] if version is None else version
        call = Call(front, Client("10.0.0.1"), version, "test")
        sent = schema.decode(type(request), version, bytes(schema.encode(request, version)))
        response = api.handle(call, sent)
        if asyncio.iscoroutine(response):
            response = await response
        return schema.decode(type(response), version, bytes(schema.encode(response, version)))

    return ask

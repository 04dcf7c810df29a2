"""A producer that works without a network, and what it does when there is one."""

import asyncio
from pathlib import Path

from chordmq.client.admin import Admin
from chordmq.client.consumer import Consumer
from chordmq.client.distinct import id_of
from chordmq.client.errors import BrokerRefused
from chordmq.client.offline import OfflineProducer, OfflineSettings, Waiting
from chordmq.client.producer import ProducerSettings
from tests.conftest import StartNode
from tests.running_node import RunningNode, free_port

WAIT_S = 60.0


async def read(bootstrap: str, topic: str, count: int) -> list[tuple[bytes | None, str | None]]:
    """Return so many messages of a topic, with their ids."""
    found: list[tuple[bytes | None, str | None]] = []
    async with asyncio.timeout(WAIT_S), Consumer(bootstrap) as consumer:
        await consumer.assign_topic(topic)
        async for message in consumer:
            found.append((message.value, id_of(message.headers)))
            if len(found) == count:
                break
    return found


async def test_messages_wait_on_disk_and_go_out_in_order(
    node: RunningNode, tmp_path: Path, name: str
) -> None:
    """E12: sent without a broker, kept over a restart, delivered in the order of sending."""
    settings = OfflineSettings(path=tmp_path / "queue.db")
    async with OfflineProducer(f"127.0.0.1:{free_port()}", settings) as producer:
        for number in range(50):
            await producer.send(name, b"%d" % number, message_id=f"{name}-{number}")
        await producer.send(name, b"again", message_id=f"{name}-0")
        assert await producer.waiting() == 50
    async with OfflineProducer(node.bootstrap, settings) as producer:
        await producer.send(name, b"50", message_id=f"{name}-50")
        async with asyncio.timeout(WAIT_S):
            await producer.flush()
        assert await producer.waiting() == 0
    wanted: list[tuple[bytes | None, str | None]] = [
        (b"%d" % number, f"{name}-{number}") for number in range(51)
    ]
    assert await read(node.bootstrap, name, 51) == wanted


async def test_a_broker_that_is_killed_gets_everything_in_the_end(
    start_node: StartNode, tmp_path: Path
) -> None:
    """E12: messages that are sent while it is away, and those that were on their way."""
    own = start_node()
    quick = ProducerSettings(delivery_timeout_s=1.0)
    settings = OfflineSettings(path=tmp_path / "queue.db", producer=quick)
    async with OfflineProducer(own.bootstrap, settings) as producer:
        for number in range(90):
            await producer.send("t", b"%d" % number)
            if number == 30:
                own.kill9()
            if number == 60:
                own.start()
        async with asyncio.timeout(WAIT_S):
            await producer.flush()
    async with Admin(own.bootstrap) as admin:
        ends = await admin.ends([("t", 0)])
    found = await read(own.bootstrap, "t", ends["t", 0][1])
    by_id = list(dict.fromkeys((value, message_id) for value, message_id in found))
    assert [value for value, _ in by_id] == [b"%d" % number for number in range(90)]


async def test_a_refused_message_is_put_before_the_application(
    node: RunningNode, tmp_path: Path, name: str
) -> None:
    """E12: it gives another one in its place, or lets it go; those behind it go on."""
    seen: list[str] = []

    async def decide(message: Waiting, error: BrokerRefused) -> Waiting | None:
        seen.append(error.name)
        if message.id == "mend":
            return Waiting(id="mended", topic=name, value=b"small")
        return None

    async with Admin(node.bootstrap) as admin:
        await admin.create_topic(name, settings={"max.message.bytes": "1000"})
    settings = OfflineSettings(path=tmp_path / "queue.db", on_refused=decide)
    async with OfflineProducer(node.bootstrap, settings) as producer:
        await producer.send(name, b"x" * 5_000, message_id="mend")
        async with asyncio.timeout(WAIT_S):
            await producer.flush()
        await producer.send(name, b"x" * 5_000, message_id="drop")
        await producer.send(name, b"last", message_id="last")
        async with asyncio.timeout(WAIT_S):
            await producer.flush()
        assert producer.refused == 2
    assert await read(node.bootstrap, name, 2) == [(b"small", "mended"), (b"last", "last")]
    assert seen == ["MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE"]

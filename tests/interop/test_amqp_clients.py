"""E4: clients made for RabbitMQ, unmodified: aio-pika, amqplib and RabbitMQ's own Java client."""

import asyncio

import aio_pika

from tests.interop.program import ROOT, built, installed, run
from tests.interop.test_java import CLASSES, LIBRARIES, OPTIONS
from tests.running_node import RunningNode

PROGRAMS = ROOT / "tests" / "interop" / "js"


def test_amqplib_finds_what_it_expects(node: RunningNode, name: str) -> None:
    """E4: confirms, topic exchange, prefetch, nack, dead letters, direct reply-to, errors."""
    built(PROGRAMS / "node_modules" / "amqplib")
    run([installed("node"), PROGRAMS / "amqplib.mjs", str(node.amqp_address[1]), name])


def test_the_java_client_of_rabbitmq_finds_what_it_expects(node: RunningNode, name: str) -> None:
    """E4: confirms, priorities, headers, returns, dead letters, transactions."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    port = str(node.amqp_address[1])
    run([installed("java"), *OPTIONS, "-cp", classpath, "RabbitCheck", port, name])


async def test_aio_pika_publishes_and_consumes(node: RunningNode, name: str) -> None:
    """E4, A3: two consumers share a queue, each message goes to one of them."""
    host, port = node.amqp_address
    async with await aio_pika.connect(host=host, port=port) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=5)
        exchange = await channel.declare_exchange(name, "headers", durable=True)
        queue = await channel.declare_queue(name, durable=True)
        await queue.bind(exchange, arguments={"x-match": "all", "kind": "wanted"})
        found: asyncio.Queue[bytes] = asyncio.Queue()

        async def work(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                found.put_nowait(message.body)

        await queue.consume(work)
        await queue.consume(work)
        for number in range(100):
            headers: aio_pika.abc.HeadersType = {"kind": "wanted" if number % 2 else "other"}
            await exchange.publish(
                aio_pika.Message(str(number).encode(), headers=headers, delivery_mode=2), ""
            )
        async with asyncio.timeout(60):
            numbers = [int(await found.get()) for _ in range(50)]
        assert sorted(numbers) == list(range(1, 100, 2))


async def test_a_robust_connection_recovers_when_the_node_comes_back(
    own_node: RunningNode,
) -> None:
    """A5: aio-pika reconnects, declares again and consumes on."""
    host, port = own_node.amqp_address
    async with await aio_pika.connect_robust(
        host=host, port=port, reconnect_interval=0.1
    ) as robust:
        channel = await robust.channel()
        queue = await channel.declare_queue("robust", durable=True)
        found: asyncio.Queue[bytes] = asyncio.Queue()

        async def work(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                found.put_nowait(message.body)

        await queue.consume(work)
        await channel.default_exchange.publish(aio_pika.Message(b"before"), "robust")
        async with asyncio.timeout(60):
            assert await found.get() == b"before"
        await asyncio.to_thread(own_node.restart)
        async with asyncio.timeout(60), await aio_pika.connect(host=host, port=port) as other:
            sender = await other.channel()
            await sender.default_exchange.publish(aio_pika.Message(b"after"), "robust")
            while await found.get() != b"after":  # what was acknowledged last may come again
                pass

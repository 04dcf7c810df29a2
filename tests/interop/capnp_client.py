"""A client of the Cap'n Proto front as a stranger writes it: pycapnp, the schema file, no more.

    python capnp_client.py SCHEMA HOST PORT TOPIC

Publishes, streams, subscribes with an index of its own, commits, comes back, prints what it saw.
"""

import asyncio
import os
import sys
from typing import Any

import capnp

SCHEMA, HOST, PORT, TOPIC = sys.argv[1:]
chordmq = capnp.load(SCHEMA, imports=[os.path.dirname(os.path.dirname(capnp.__file__))])  # noqa: PTH120


class Printer(chordmq.Sink.Server):  # type: ignore[misc, name-defined]
    """Keeps what comes, and says when it is enough."""

    def __init__(self, count: int) -> None:
        self.values: list[bytes] = []
        self.position = ""
        self.is_full = asyncio.Event()
        self._count = count

    async def deliver(self, batch: Any, **_: Any) -> None:
        """Take a batch."""
        self.values += [bytes(one.message.value) for one in batch.deliveries]
        self.position = batch.position
        if len(self.values) >= self._count:
            self.is_full.set()

    async def end(self, reason: str, **_: Any) -> None:
        """Fail: nothing should end the subscription."""
        sys.exit(reason)


async def connect() -> Any:
    """Log in; return the connection as well, for it must outlive what it brings."""
    stream = await capnp.AsyncIoStream.create_connection(HOST, int(PORT))
    client = capnp.TwoPartyClient(stream)
    door = client.bootstrap().cast_as(chordmq.Door)
    return client, (await door.login({"none": None}, "a stranger")).node


async def received(node: Any, count: int) -> list[bytes]:
    """Subscribe, take messages, commit, and leave."""
    sink = Printer(count)
    wanted = {"topic": TOPIC, "index": {"own": f"{TOPIC}-index"}}
    subscription = (await node.subscribe(wanted, sink)).subscription
    await sink.is_full.wait()
    await subscription.commit(TOPIC, sink.position)
    await subscription.close()
    return sink.values


async def main() -> None:
    """Do everything once."""
    async with capnp.kj_loop():
        first, node = await connect()
        await node.createTopic(TOPIC, 1, [{"name": "retention.ms", "value": "3600000"}])
        places = (await node.publish(TOPIC, [{"value": b"one"}, {"value": b"two"}])).places
        print(list(places.offsets), (await received(node, 2)))
        producer = (await node.produce(TOPIC)).producer
        for number in range(10):
            await producer.push([{"value": b"%d" % number}] * 10)
        print((await producer.flush()).stored)
        del first
        second, again = await connect()
        values = await received(again, 100)
        print(len(values), values[0], values[-1])
        try:
            await again.deleteTopic("nowhere")
        except capnp.KjException as error:
            print(error.description.strip())
        del second


asyncio.run(main())

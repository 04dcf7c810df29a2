"""A client of the Cap'n Proto front, made from its schema file alone."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import capnp

from tests.fronts.rpc.contract import SCHEMAS, Address, Login, Received, Refused, Row

CAPNP = capnp.load(
    str(SCHEMAS / "chordmq.capnp"), imports=[str(Path(capnp.__file__).parent.parent)]
)


async def open_capnp(address: Address, login: Login | None = None) -> "Capnp":
    """Return a node over Cap'n Proto; there must be a `capnp.kj_loop`."""
    login = login or Login()
    context = ssl.create_default_context(cafile=login.authority) if login.authority else None
    host = "localhost" if login.authority else address[0]
    stream = await capnp.AsyncIoStream.create_connection(host, address[1], ssl=context)
    try:
        client = capnp.TwoPartyClient(stream)
        door = client.bootstrap().cast_as(CAPNP.Door)
        node = (await told(door.login(_credentials(login), login.client))).node
    except BaseException:
        await hang_up(stream)
        raise
    return Capnp(node, stream, client)


async def hang_up(stream: Any) -> None:
    """Close a connection, and its socket before the event loop ends."""
    stream.close()
    for _ in range(3):  # turns of the event loop, in which that is done
        await asyncio.sleep(0)


def _credentials(login: Login) -> dict[str, Any]:
    if login.token:
        return {"token": login.token}
    if login.user:
        return {"password": {"user": login.user, "secret": login.password}}
    return {"none": None}


async def told(call: Any) -> Any:
    """Return what a call answers, or raise what the node says is wrong."""
    try:
        return await call
    except capnp.KjException as error:
        text = error.description.removeprefix("remote exception: message = ").strip()
        name, _, reason = text.partition(": ")
        raise Refused(name, reason) from None


class Sink(CAPNP.Sink.Server):  # type: ignore[misc, name-defined]
    """Takes what is pushed."""

    def __init__(self, received: Received) -> None:
        self.received = received

    async def deliver(self, batch: Any, **_: Any) -> None:
        rows = [_from_capnp(one) for one in batch.deliveries]
        self.received.gaps += [(gap.partition, gap.wanted, gap.next) for gap in batch.gaps]
        self.received.came(batch.topic, rows, batch.position)

    async def end(self, reason: str, **_: Any) -> None:
        name, text = reason.split(": ", 1)
        self.received.has_ended(Refused(name, text))


def _from_capnp(delivery: Any) -> Row:
    message = delivery.message
    return Row(
        message.value if message._has("value") else None,
        message.key if message._has("key") else None,
        tuple((one.name, one.value if one._has("value") else None) for one in message.headers),
        message.timestampMs,
        message.partition,
        delivery.offset,
        delivery.name,
        delivery.deliveries,
    )


def _to_capnp(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"timestampMs": row.timestamp, "partition": row.partition}
    if row.key is not None:
        found["key"] = row.key
    if row.value is not None:
        found["value"] = row.value
    found["headers"] = [
        {"name": name} if value is None else {"name": name, "value": value}
        for name, value in row.headers
    ]
    return found


class CapnpSubscription(Received):
    """A subscription over Cap'n Proto."""

    handle: Any

    async def credit(self, count: int) -> None:
        await told(self.handle.credit(count))

    async def acknowledge(self, topic: str, row: Row, outcome: str = "accept") -> None:
        place = (row.partition, row.offset, row.offset)
        await told(self.handle.acknowledge(topic, *place, outcome))

    async def commit(self, topic: str, position: str) -> None:
        await told(self.handle.commit(topic, position))

    async def close(self) -> None:
        await told(self.handle.close())


class Capnp:
    """A node over Cap'n Proto."""

    def __init__(self, node: Any, stream: Any, client: Any) -> None:
        self.node = node
        self._stream = stream
        self.connection = client

    async def close(self) -> None:
        await hang_up(self._stream)

    async def publish(self, topic: str, rows: Sequence[Row]) -> list[tuple[int, int]]:
        answer = await told(self.node.publish(topic, [_to_capnp(row) for row in rows]))
        return list(zip(answer.places.partitions, answer.places.offsets, strict=True))

    async def stream(self, topic: str, batches: Sequence[Sequence[Row]]) -> int:
        producer = (await told(self.node.produce(topic))).producer
        for batch in batches:
            await told(producer.push([_to_capnp(row) for row in batch]))
        return int((await told(producer.flush())).stored)

    async def subscribe(self, topic: str, **wanted: Any) -> CapnpSubscription:
        start = wanted.get("start", "earliest")
        begin: dict[str, Any] = {"timestampMs": start} if isinstance(start, int) else {start: None}
        if "positions" in wanted:
            places = wanted["positions"].items()
            begin = {"positions": [{"topic": one, "position": text} for one, text in places]}
        index = {"shared": wanted["shared"]} if "shared" in wanted else {"own": ""}
        if "own" in wanted:
            index = {"own": wanted["own"]}
        received = CapnpSubscription({})
        asked = {
            "topic": topic, "index": index, "start": begin, "credit": wanted.get("credit", 0),
        }  # fmt: skip
        answer = await told(self.node.subscribe(asked, Sink(received)))
        for one in answer.positions:
            received.positions.setdefault(one.topic, one.position)
        received.handle = answer.subscription
        return received

    async def commit(self, index: str, topic: str, position: str) -> None:
        await told(self.node.commit(index, topic, position))

    async def committed(self, index: str, topic: str) -> str:
        return str((await told(self.node.committed(index, topic))).position)

    async def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        texts = [{"name": key, "value": value} for key, value in settings.items()]
        answer = await told(self.node.createTopic(name, partitions, texts))
        return len(answer.topic.partitions)

    async def topics(self) -> list[str]:
        return list((await told(self.node.listTopics())).names)

    async def end_offsets(self, name: str) -> list[int]:
        answer = await told(self.node.describeTopic(name))
        return [one.endOffset for one in answer.topic.partitions]

    async def delete_topic(self, name: str) -> None:
        await told(self.node.deleteTopic(name))

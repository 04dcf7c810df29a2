"""What clients publish in one turn of the event loop: joined, and each client's own answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.flusher import Flusher
from chordmq.broker.settings import BrokerSettings
from chordmq.clock import SystemClock
from chordmq.codecs.mqtt.packets import Run
from chordmq.errors import BatchTooLarge, ChordMQError
from chordmq.fronts.mqtt.appends import MessageAppends, Share, Told, Unit
from chordmq.fronts.mqtt.front import Route
from chordmq.fronts.mqtt.letters import Bundle
from chordmq.fronts.mqtt.mapping import Parcel
from chordmq.fronts.mqtt.tails import Tail
from chordmq.records.batch import walk
from chordmq.records.record import AlikeRecords, read_records

OVERHEAD = 100


class Published:
    """Messages that clients send to one name, and what they are told."""

    def __init__(self, broker: Broker) -> None:
        self.appends = MessageAppends(broker, {})
        self.route = Route("orders", broker.partition("orders", 0), None)
        self.told: dict[int, asyncio.Future[ChordMQError | None]] = {}

    def send(self, client: int, *payloads: bytes) -> None:
        """Have a client send messages of QoS 1."""
        told = self.told[client] = asyncio.get_running_loop().create_future()
        size = sum(map(len, payloads)) + OVERHEAD * len(payloads)
        run = Run(b"orders", "orders", list(payloads), [b"\0\1"] * len(payloads), b"", size)
        share = Told(str(client), len(payloads), size, told.set_result)
        unit = self.appends.alike(self.route, 1, 0)
        if unit is not None:
            unit.join(run, share)
            return
        headers, prepared = self.route.headers(1)
        now_ms = self.appends.now_ms()
        shares: list[Share] = [share]
        parcel = Parcel("orders", self.route.topic, run.payloads, 1, timestamp_ms=now_ms)
        parcel.sender, parcel.shares = share.sender, shares
        records = AlikeRecords(self.route.prepared_key, prepared, run.payloads)
        unit = Unit(parcel, records, headers, size=size, shares=shares, route=self.route)
        self.appends.add(self.route.partition, unit)

    def stored(self) -> list[list[bytes | None]]:
        """Return the values in each batch of the log."""
        found = []
        for buffer in self.route.partition.read(0, 1 << 20):
            for position, header in walk(buffer):
                batch = buffer[position : position + header.size]
                found.append([record.value for record in read_records(batch)])
        return found


@pytest.fixture
async def published(tmp_path: Path) -> AsyncIterator[Published]:
    broker = Broker(tmp_path, BrokerSettings(), SystemClock(), Flusher())
    await broker.topics.create("orders", 1, settings={"max.message.bytes": "1000"})
    yield Published(broker)
    broker.close()


async def test_messages_of_many_clients_to_one_name_are_one_unit(published: Published) -> None:
    """E14: what devices send in one turn costs one batch, and one message to match."""
    for client in range(3):
        published.send(client, b"%da" % client, b"%db" % client)
    assert await asyncio.gather(*published.told.values()) == [None] * 3
    assert published.stored() == [[b"0a", b"0b", b"1a", b"1b", b"2a", b"2b"]]


async def test_joined_messages_stay_within_the_topics_limit(published: Published) -> None:
    for client in range(5):
        published.send(client, b"x" * 300)
    assert await asyncio.gather(*published.told.values()) == [None] * 5
    assert [len(batch) for batch in published.stored()] == [2, 2, 1]


async def test_who_sends_too_much_fails_alone(published: Published) -> None:
    """E3: a message that is refused does not fail those of others that came with it."""
    published.send(0, b"before")
    published.send(1, b"x" * 2_000)
    published.send(2, b"after")
    errors = await asyncio.gather(*published.told.values())
    assert [type(error) for error in errors] == [type(None), BatchTooLarge, type(None)]
    assert [value for batch in published.stored() for value in batch] == [b"before", b"after"]


async def test_the_next_turn_has_a_time_of_its_own(published: Published) -> None:
    published.send(0, b"one")
    assert published.appends.now_ms() == published.appends.now_ms()
    await published.told[0]
    published.send(1, b"two")
    await published.told[1]
    assert published.stored() == [[b"one"], [b"two"]]


async def test_who_begins_to_follow_learns_who_sent_what_is_not_committed_yet(
    published: Published,
) -> None:
    """E3: MQTT-3.8.3-3: a client without its own messages may have sent some just before."""
    heard: asyncio.Future[list[Parcel | Bundle]] = asyncio.get_running_loop().create_future()
    partition = published.route.partition
    published.send(1, b"own")
    published.send(2, b"another's")
    published.appends.write_all()
    tail = Tail(partition, partition.high_watermark, heard.set_result)
    published.appends.follow(tail)
    (parcel,) = await asyncio.wait_for(heard, 60)
    assert isinstance(parcel, Parcel)
    assert [(one.sender, one.payloads) for one in parcel.by_sender()] == [
        ("1", [b"own"]),
        ("2", [b"another's"]),
    ]
    tail.close()

"""Messages that devices send one at a time: joined over a turn, and each answered by itself."""

import asyncio
import re
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path

import pytest

from chordmq.broker.security.principal import ANONYMOUS
from chordmq.clock import SystemClock
from chordmq.codecs.mqtt.properties import Properties, write_properties
from chordmq.fronts.listener import Listener
from chordmq.fronts.mqtt.appends import JOINED_BYTES_MAX
from chordmq.fronts.mqtt.connection import MqttConnection
from chordmq.fronts.mqtt.front import MqttFront
from chordmq.fronts.mqtt.rules import Rules, read_rules
from chordmq.node import running
from chordmq.records.batch import walk
from chordmq.records.record import read_records
from tests.fronts.mqtt.client import packet, text
from tests.fronts.mqtt.conftest import Connect
from tests.test_node import config

DEVICES = 20
QUOTA_EXCEEDED, NOT_AUTHORIZED, IMPLEMENTATION_SPECIFIC = 0x97, 0x87, 0x83


class Device:
    """A client without a socket: what it sends in one turn of the event loop is a test's choice."""

    def __init__(self, front: MqttFront, listener: Listener, name: str, version: int) -> None:
        self.version = version
        self.sent = bytearray()
        self.is_closed = False
        self._has_news = asyncio.Event()
        self.connection = MqttConnection(front, listener)
        self.connection.begin(self, "127.0.0.1", ANONYMOUS)
        body = text("MQTT") + bytes((version, 2, 0, 0))
        self.receive(packet(0x10, body + self._properties() + text(name)))

    def _properties(self, properties: Properties | None = None) -> bytes:
        return b"" if self.version == 4 else write_properties(properties or Properties())

    def receive(self, data: bytes) -> None:
        """Let the node read what the device has sent."""
        self.connection.data_received(data)

    def publish(self, topic: str, payload: bytes, number: int = 1, *, kind: int = 0x32) -> bytes:
        """Return a message of QoS 1."""
        head = text(topic) + (number.to_bytes(2, "big") if kind & 2 else b"")
        return packet(kind, head + self._properties() + payload)

    def subscribe(self, wanted: str, options: int, properties: Properties | None = None) -> None:
        """Ask for messages."""
        body = b"\0\1" + self._properties(properties) + text(wanted) + bytes((options,))
        self.receive(packet(0x82, body))

    async def answer(self, size: int) -> bytes:
        """Return the next bytes that the node has sent, at least so many, and forget them."""
        async with asyncio.timeout(60):
            while len(self.sent) < size and not self.is_closed:
                self._has_news.clear()
                await self._has_news.wait()
        found = bytes(self.sent)
        self.sent.clear()
        return found

    # What a transport can do.

    def write(self, data: bytes) -> None:
        self.sent += data
        self._has_news.set()

    def close(self) -> None:
        self.is_closed = True
        self._has_news.set()

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0


class Fleet:
    """A front, and devices that have each published once: the next one is like the last."""

    def __init__(self, front: MqttFront, listener: Listener) -> None:
        self.front = front
        self.listener = listener
        self.devices: list[Device] = []

    async def join(self, name: str, version: int = 4) -> Device:
        device = Device(self.front, self.listener, name, version)
        await device.answer(4)
        return device

    async def grow(self, topic: str, version: int = 4, count: int = DEVICES) -> list[Device]:
        """Have devices come and publish to a topic, or each to its own."""
        for number in range(count):
            device = await self.join(f"d{version}{number}", version)
            device.receive(device.publish(topic.format(number), b"first"))
            assert await device.answer(4) == b"\x40\2\0\1"
            self.devices.append(device)
        return self.devices

    def stored(self, topic: str) -> list[list[bytes | None]]:
        """Return the values in each batch of a log topic."""
        found = []
        for buffer in self.front.broker.partition(topic, 0).read(0, 1 << 24):
            for position, header in walk(buffer):
                batch = buffer[position : position + header.size]
                found.append([record.value for record in read_records(batch)])
        return found


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with running(config(tmp_path), SystemClock()) as node:
        assert node.mqtt is not None
        yield Fleet(await node.mqtt.opened(), node.fronts["mqtt"])


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("topic", ["a/d/x", "a/d/{}"])
async def test_what_devices_send_in_one_turn_is_one_batch(
    fleet: Fleet, topic: str, version: int
) -> None:
    """E14: one write for all of them, and an answer to each."""
    devices = await fleet.grow(topic, version)
    for number, device in enumerate(devices):
        device.receive(device.publish(topic.format(number), b"%d" % number, number + 2))
    answers = [await device.answer(4) for device in devices]
    assert answers == [b"\x40\2\0" + bytes((number + 2,)) for number in range(DEVICES)]
    assert fleet.stored("a.d")[-1] == [b"%d" % number for number in range(DEVICES)]


async def test_other_messages_of_a_turn_keep_their_place_between(fleet: Fleet) -> None:
    """E3: runs, retained messages and those of QoS 0 share a batch with what came alone."""
    devices = await fleet.grow("a/d/{}")
    sent = []
    for number, device in enumerate(devices):
        topic, values = f"a/d/{number}", [b"%d.%d" % (number, part) for part in range(3)]
        kinds = [(0x32,), (0x32, 0x32, 0x32), (0x30, 0x32), (0x33,)][number % 4]
        for at, kind in enumerate(kinds):
            device.receive(device.publish(topic, values[at], at + 2, kind=kind))
            sent.append(values[at])
    for number, device in enumerate(devices):
        count = (1, 3, 1, 1)[number % 4]
        assert len(await device.answer(4 * count)) == 4 * count
    assert [value for batch in fleet.stored("a.d") for value in batch][DEVICES:] == sent


PAYLOAD = re.compile(rb"<(\d\d)\.(\d)>")
SUBSCRIBERS = {
    "QoS 1": (4, 1, None),
    "QoS 1 of MQTT 5": (5, 1, None),
    "QoS 0": (4, 0, None),
    "QoS 2": (4, 2, None),
    "with an identifier": (5, 1, Properties(subscription_ids=(7,))),
    "without its own": (5, 1 | 4, None),
}


@pytest.mark.parametrize("topic", ["a/d/x", "a/d/{}"])
async def test_every_subscriber_gets_what_devices_send_in_their_order(
    fleet: Fleet, topic: str
) -> None:
    """E3: whatever it asks for, each message comes once, with its name."""
    readers = []
    for kind, (version, options, properties) in SUBSCRIBERS.items():
        reader = await fleet.join(kind, version)
        reader.subscribe("a/#", options, properties)
        await reader.answer(5)
        readers.append(reader)
    devices = await fleet.grow(topic)
    for turn in range(3):
        for number, device in enumerate(devices):
            payload = b"<%02d.%d>" % (number, turn)
            device.receive(device.publish(topic.format(number), payload, turn + 2))
        for device in devices:
            await device.answer(4)
    for reader in readers:
        data = await reader.answer(4 * DEVICES * len(topic))
        found = [(int(turn), int(number)) for number, turn in PAYLOAD.findall(data)]
        assert found == [(turn, number) for turn in range(3) for number in range(DEVICES)]
        for number in range(DEVICES):
            name = topic.format(number).encode()
            assert data.count(bytes((0, len(name))) + name) >= 4


@pytest.mark.parametrize("version", [4, 5])
async def test_a_full_disk_is_told_to_every_device(fleet: Fleet, version: int) -> None:
    """E3: what is not stored is not acknowledged; MQTT 3.1.1 has no word for it but the end."""
    devices = await fleet.grow("a/d/{}", version)
    fleet.front.broker.shared.full = "no room"
    for number, device in enumerate(devices):
        device.receive(device.publish(f"a/d/{number}", b"lost", 2))
    for device in devices:
        answer = await device.answer(4)
        assert device.is_closed if version == 4 else answer[2:5] == bytes((0, 2, QUOTA_EXCEEDED))
        assert b"\x40\2" not in answer
    fleet.front.broker.shared.full = ""
    assert fleet.stored("a.d")[-1] == [b"first"]


async def test_who_may_publish_no_more_is_refused_among_others(fleet: Fleet) -> None:
    """E9: a decision is remembered until it changes, and not longer."""
    devices = await fleet.grow("a/d/{}", 5)
    fleet.front.rules = Rules(read_rules("deny * publish a/d/3"))
    fleet.front.look_again()
    for number, device in enumerate(devices):
        device.receive(device.publish(f"a/d/{number}", b"%d" % number, 2))
    for number, device in enumerate(devices):
        answer = await device.answer(4)
        wanted = bytes((0, 2, NOT_AUTHORIZED)) if number == 3 else b"\0\2"
        assert answer[2 : 2 + len(wanted)] == wanted
    left = [b"%d" % number for number in range(DEVICES) if number != 3]
    assert [value for batch in fleet.stored("a.d") for value in batch][DEVICES:] == left


async def test_one_message_too_large_fails_alone(fleet: Fleet) -> None:
    await fleet.front.broker.topics.create("a.d", 1, settings={"max.message.bytes": "1000"})
    devices = await fleet.grow("a/d/{}", 5)
    for number, device in enumerate(devices):
        payload = b"x" * (2_000 if number == 5 else 300)
        device.receive(device.publish(f"a/d/{number}", payload, 2))
    for number, device in enumerate(devices):
        reason = (await device.answer(4))[4:5]
        assert reason == (bytes((IMPLEMENTATION_SPECIFIC,)) if number == 5 else b""), number
    sizes = [len(value or b"") for batch in fleet.stored("a.d") for value in batch]
    assert sizes[DEVICES:] == [300] * (DEVICES - 1)


async def test_a_bundle_has_a_limit(fleet: Fleet) -> None:
    """E14: a subscriber who answers for one of its messages late holds no more than that."""
    devices = await fleet.grow("a/d/{}")
    payload = b"x" * (JOINED_BYTES_MAX // 4)
    partition = fleet.front.broker.partition("a.d", 0)
    for number, device in enumerate(devices):
        device.receive(device.publish(f"a/d/{number}", payload, 2))
    sizes = [len(one.shares) for one in fleet.front.appends._waiting[partition]]
    assert 1 < max(sizes) <= 5
    assert sum(sizes) == DEVICES
    for device in devices:
        await device.answer(4)


async def test_garbage_behind_a_message_ends_its_sender_alone(fleet: Fleet) -> None:
    """E13: also where the read before was recognised by its first bytes."""
    devices = await fleet.grow("a/d/{}")
    good = [device.publish(f"a/d/{number}", b"good", 2) for number, device in enumerate(devices)]
    devices[3].receive(good[3][:-6] + b"\0\0good")  # the number 0 is none
    for number, device in enumerate(devices):
        if number != 3:
            device.receive(good[number])
    for number, device in enumerate(devices):
        assert await device.answer(4) == (b"" if number == 3 else b"\x40\2\0\2")
        assert device.is_closed == (number == 3)


def test_what_a_subscriber_has_not_answered_comes_again(connect: Connect, name: str) -> None:
    """E3: MQTT-4.4.0-1, for messages of several devices that came to it in one piece."""
    stays = Properties(session_expiry_s=600)
    reader = connect(f"{name}-reader", properties=stays)
    reader.subscribe(f"{name}/#", qos=1)
    devices = [connect(f"{name}-{number}", version=4) for number in range(DEVICES)]
    for turn in range(2):
        for number, device in enumerate(devices):
            device.post(f"{name}/d/{number}", b"%d" % turn, 1)
        for device in devices:
            device.expect(4)
    before = [reader.message(answers=False) for _ in range(2 * DEVICES)]
    reader.socket.close()
    reader = connect(f"{name}-reader", clean=False, properties=stays)
    again = [reader.message() for _ in before]
    assert [(one.topic, one.payload, one.id) for one in again] == [
        (one.topic, one.payload, one.id) for one in before
    ]
    assert all(one.duplicate for one in again)
    by_name = groupby(sorted(again, key=lambda one: one.topic), key=lambda one: one.topic)
    assert all([one.payload for one in found] == [b"0", b"1"] for _, found in by_name)


async def test_numbers_go_round_and_leave_out_those_in_use(fleet: Fleet) -> None:
    """E3: MQTT-2.2.1-4: each message on its way has a number of its own, and keeps its place."""
    reader = await fleet.join("reader")
    reader.subscribe("a/#", 1)
    await reader.answer(5)
    devices = await fleet.grow("a/d/{}")
    assert reader.connection.session is not None
    outbox = reader.connection.session.outbox
    outbox._last_id = 65_530
    for number, device in enumerate(devices):
        device.receive(device.publish(f"a/d/{number}", b"x", 2))
    for device in devices:
        await device.answer(4)
    await reader.answer(2 * DEVICES * len("a/d/1"))
    numbers = [*range(1, DEVICES + 1), *range(65_531, 65_536), *range(DEVICES + 1, 2 * DEVICES - 4)]
    offsets = {number: flight.offset(number) for number, flight in outbox.flights.items()}
    assert offsets == {number: offset for offset, number in enumerate(numbers)}
    acks = b"".join(b"\x40\2" + number.to_bytes(2, "big") for number in numbers[::2])
    reader.receive(acks)
    assert list(outbox.flights) == numbers[1::2]
    assert {n: one.message(n)[0].base_offset for n, one in outbox.flights.items()} == {
        number: offset for offset, number in enumerate(numbers) if offset % 2
    }

"""What is remembered of a connection's requests is bounded, and does not outlive its use."""

import struct

import pytest

from chordmq.broker.broker import Broker
from chordmq.fronts.kafka import repeats
from chordmq.fronts.kafka.call import KafkaFront
from chordmq.fronts.kafka.repeats import PLACES_MAX, Likeness, Place
from chordmq.records.varint import uvarint
from tests.fronts.kafka.test_repeats_in_turn import asked, made, taken
from tests.fronts.kafka.wire import connected, produce

__all__ = ["taken"]


def tagged(request: bytes, value: bytes) -> bytes:
    """Return a request with a tagged field in its header, of which nobody knows anything."""
    at = 4 + 10 + len("test")
    tags = b"\1" + uvarint(9) + uvarint(len(value)) + value
    frame = request[4:at] + tags + request[at + 1 :]
    return struct.pack(">i", len(frame)) + frame


async def test_what_is_known_of_a_connection_is_bounded(
    broker: Broker, front: KafkaFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: each request has another tag of 100 kB, of which the node has no use."""
    await made(broker)
    known: dict[bytes, None] = {}
    add = Likeness.add

    def noted(self: Likeness, place: Place) -> None:
        add(self, place)
        known[place.form.before] = None

    monkeypatch.setattr(Likeness, "add", noted)
    async with connected(front) as wire:
        for number in range(20):
            request = tagged(produce("spread"), b"%05d" % number * 20_000)
            assert await asked(wire, request) == (0, number)
    assert sum(map(len, known)) < PLACES_MAX * 1024


async def test_partitions_that_are_gone_make_room_for_others(
    broker: Broker, front: KafkaFront, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: a producer of one topic a day is no slower after some months, nor keeps them all."""
    monkeypatch.setattr(repeats, "PLACES_MAX", 2)
    async with connected(front) as wire:
        for name in ("day-1", "day-2", "day-3"):
            await broker.topics.create(name, 1, 1, {"flush": "os"})
            for number in range(4):
                assert await asked(wire, produce(name)) == (0, number)
            await broker.topics.delete(name)
    assert taken.count(True) == 3 * 2

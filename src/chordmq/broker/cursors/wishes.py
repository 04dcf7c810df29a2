"""What nodes ask of the node that keeps a shared cursor, and what it answers."""

import struct
from collections.abc import Sequence

import msgspec

from chordmq.broker.cursors.cursor import Delivery
from chordmq.broker.cursors.shared_cursor import Outcome, Taken
from chordmq.broker.partition import Partition
from chordmq.codecs.peer.frames import Body
from chordmq.errors import DecodeError

_SIZE = struct.Struct(">I")


class Rules(msgspec.Struct, frozen=True, array_like=True):
    """A cursor's policy on its way between nodes."""

    lock_ms: int
    deliveries_max: int
    in_flight_max: int
    only_stable: bool
    dead_letter: str


class Opening(msgspec.Struct, frozen=True, tag=True):
    """A cursor that is to be there; with the rules by which it gives records, if they are set."""

    group: str
    topic: str
    partition: int
    start_ms: int
    rules: Rules | None = None


class Reading(msgspec.Struct, frozen=True, tag=True):
    """The cursors in one partition of the log, which the node leads."""

    log_partition: int


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Which cursor."""

    group: str
    topic_id: bytes
    partition: int


class Taking(msgspec.Struct, frozen=True, tag=True):
    """Records for a consumer; if there are none, word when there may be some."""

    place: Place
    holder: str
    count_max: int
    max_bytes: int
    is_bound: bool
    """Whether the consumer leaves when its node does."""


class Settled(msgspec.Struct, frozen=True, array_like=True):
    """What a consumer says of some of its records."""

    first: int
    last: int
    outcomes: tuple[Outcome, ...]


class Settling(msgspec.Struct, frozen=True, tag=True):
    """A consumer's answers, all or none."""

    place: Place
    holder: str
    answers: tuple[Settled, ...]


class Leaving(msgspec.Struct, frozen=True, tag=True):
    """A consumer has gone."""

    place: Place
    holder: str


Wish = Opening | Reading | Taking | Settling | Leaving


class Given(msgspec.Struct, frozen=True, array_like=True):
    """What a consumer has got, before the batches themselves, and how far the group is."""

    taken: tuple[tuple[int, int, int], ...]
    sizes: tuple[int, ...]
    start: int
    lag: int


def read_wish(body: memoryview) -> Wish:
    """Return what a node asks for."""
    try:
        return _wishes.decode(body)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"no wish about a cursor: {error}") from None


def read_place(body: memoryview) -> Place:
    """Return which cursor may have something again."""
    try:
        return _places.decode(body)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"no cursor: {error}") from None


def write_given(delivery: Delivery, start: int, lag: int) -> Body:
    """Write what a consumer gets, in pieces."""
    taken = tuple((one.first, one.last, one.deliveries) for one in delivery.taken)
    sizes = tuple(map(len, delivery.batches))
    head = msgspec.msgpack.encode(Given(taken, sizes, start, lag))
    return [_SIZE.pack(len(head)), head, *delivery.batches]


def read_given(body: memoryview, partition: Partition) -> tuple[Given, Delivery]:
    """Return what a consumer has got; its batches are slices of the answer."""
    try:
        at = _SIZE.size + _SIZE.unpack_from(body)[0]
        given = _given.decode(body[_SIZE.size : at])
    except (msgspec.MsgspecError, struct.error) as error:
        raise DecodeError(f"no records of a cursor: {error}") from None
    batches = _cut(body[at:], given.sizes)
    return given, Delivery(batches, [Taken(*one) for one in given.taken], partition)


def _cut(data: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    if sum(sizes) != len(data):
        raise DecodeError(f"{sum(sizes)} bytes of batches announced, {len(data)} are there")
    batches, at = [], 0
    for size in sizes:
        batches.append(data[at : at + size])
        at += size
    return batches


_wishes: msgspec.msgpack.Decoder[Wish] = msgspec.msgpack.Decoder(Wish)
_places = msgspec.msgpack.Decoder(Place)
_given = msgspec.msgpack.Decoder(Given)

"""Frames of AMQP 0-9-1 against pamqp, in any pieces, and whatever is done to their bytes."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header

from chordmq.codecs.amqp.frames import (
    FRAME_MIN,
    Beat,
    Event,
    FrameFault,
    FrameReader,
    Method,
    Publish,
    Settle,
    ack_frame,
    all_delivery_frames,
    delivery_frames,
    method_frame,
    nack_frame,
    short,
)

PROPERTIES = commands.Basic.Properties(delivery_mode=2, headers={"a": 1}, message_id="m")


def publication(channel: int = 1, payload: bytes = b"hello", size_max: int = 4000) -> bytes:
    """Return a message as pamqp sends it."""
    publish = commands.Basic.Publish(exchange="logs", routing_key="k.ey", mandatory=True)
    out = frame.marshal(publish, channel)
    out += frame.marshal(header.ContentHeader(0, len(payload), PROPERTIES), channel)
    for start in range(0, len(payload), size_max):
        part = body.ContentBody(payload[start : start + size_max])
        out += frame.marshal(part, channel)
    return out


STREAM = b"".join(
    (
        frame.marshal(commands.Channel.Open(), 1),
        publication(),
        frame.marshal(commands.Basic.Ack(delivery_tag=7, multiple=True), 1),
        frame.marshal(commands.Basic.Nack(delivery_tag=8, requeue=False), 1),
        frame.marshal(commands.Basic.Reject(delivery_tag=9, requeue=True), 2),
        publication(3, b""),
        b"\x08\x00\x00\x00\x00\x00\x00\xce",
        publication(3, b"x" * 9000),
    )
)


def read(*pieces: bytes) -> list[Event]:
    """Return the events of bytes that come in pieces."""
    reader = FrameReader(100_000)
    return [event for piece in pieces for event in reader.receive(piece)]


def apart(events: list[Event]) -> list[Event]:
    """Return the events with each message by itself."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, Publish):
            found += (event._replace(bodies=[body]) for body in event.bodies)
        else:
            found.append(event)
    return found


def test_messages_that_differ_in_their_bodies_only_are_one_event() -> None:
    bodies = [b"a" * 10, b"b" * 10, b"c" * 30, b"d" * 10]
    events = read(b"".join(publication(1, body) for body in bodies))
    assert [one.bodies for one in events if isinstance(one, Publish)] == [bodies]


def test_publications_and_settlements_are_read_as_pamqp_writes_them() -> None:
    opened, first, ack, nack, reject, empty, beat, large = read(STREAM)
    assert isinstance(opened, Method)
    assert isinstance(opened.method, commands.Channel.Open)
    raw = PROPERTIES.marshal()
    assert first == Publish(1, "logs", "k.ey", True, False, raw, [b"hello"])
    assert ack == Settle(1, 7, True, True, False)
    assert nack == Settle(1, 8, False, False, False)
    assert reject == Settle(2, 9, False, False, True)
    assert isinstance(empty, Publish)
    assert empty.bodies == [b""]
    assert beat == Beat(0)
    assert isinstance(large, Publish)
    assert large.bodies == [b"x" * 9000]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_pieces_give_the_same_events(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:stop] for start, stop in itertools.pairwise(at)]
    assert [str(one)[:60] for one in read(*pieces)] != []
    assert [one for one in apart(read(*pieces)) if not isinstance(one, Method)] == [
        one for one in apart(read(STREAM)) if not isinstance(one, Method)
    ]


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.sampled_from([0, 1, 5, 300, 5000]))),
    st.lists(st.integers(0, 3000), max_size=10),
)
def test_messages_published_alike_are_read_alike(
    sent: list[tuple[int, int]], cuts: list[int]
) -> None:
    data = b"".join(publication(channel, b"x" * size) for channel, size in sent)
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    found = read(*(data[start:stop] for start, stop in itertools.pairwise(at)))
    raw = PROPERTIES.marshal()
    assert apart(found) == [
        Publish(channel, "logs", "k.ey", True, False, raw, [b"x" * size]) for channel, size in sent
    ]


def _outcome(reader: FrameReader, data: bytes) -> object:
    """Return the events of bytes, or what is wrong with them."""
    try:
        return [event for event in reader.receive(data) if not isinstance(event, Method)]
    except FrameFault as fault:
        return str(fault)


@pytest.mark.parametrize("position", range(len(publication())))
def test_a_message_like_the_last_is_looked_at_all_the_same(position: int) -> None:
    """C12: whatever is done to a byte is found, whether or not a message came before it."""
    message = publication()
    for value in (0, 1, 0x7F, 0xFF, message[position] ^ 0x55):
        mutated = message[:position] + bytes((value,)) + message[position + 1 :]
        after = FrameReader(100_000)
        after.receive(message)
        assert _outcome(after, mutated) == _outcome(FrameReader(100_000), mutated)


def test_messages_of_several_channels_may_mingle() -> None:
    first, second = publication(1, b"a" * 5000), publication(2, b"b" * 5000)
    frames = [[], []]  # type: list[list[bytes]]
    for number, data in enumerate((first, second)):
        while data:
            size = int.from_bytes(data[3:7], "big") + 8
            frames[number].append(data[:size])
            data = data[size:]
    mingled = b"".join(one for pair in zip(*frames, strict=True) for one in pair)
    found = read(mingled)
    assert [(one.channel, one.bodies[0][:1]) for one in found if isinstance(one, Publish)] == [
        (1, b"a"),
        (2, b"b"),
    ]


@pytest.mark.parametrize("position", range(len(STREAM) - 9000))
def test_whatever_is_done_to_a_byte_faults_or_means_something(position: int) -> None:
    """C12: no mutation raises anything but FrameFault, which ends only this connection."""
    for value in (0, 1, 0x7F, 0xFF, STREAM[position] ^ 0x55):
        mutated = STREAM[:position] + bytes((value,)) + STREAM[position + 1 :]
        with suppress(FrameFault):
            read(mutated)


@given(st.binary(max_size=300))
def test_garbage_faults_or_waits_for_more(data: bytes) -> None:
    with suppress(FrameFault):
        read(data)


def test_a_frame_over_the_limit_is_refused_before_its_body_arrives() -> None:
    with pytest.raises(FrameFault, match="were agreed on"):
        read(b"\x03\x00\x01" + (FRAME_MIN + 1).to_bytes(4, "big") + b"x")


def test_a_message_over_the_limit_is_refused_before_its_body_arrives() -> None:
    publish = frame.marshal(commands.Basic.Publish(), 1)
    large = frame.marshal(header.ContentHeader(0, 100_001, PROPERTIES), 1)
    with pytest.raises(FrameFault, match="are taken"):
        read(publish + large)


def test_content_where_none_is_due_is_a_fault() -> None:
    for data in (
        frame.marshal(header.ContentHeader(0, 1, PROPERTIES), 1),
        frame.marshal(body.ContentBody(b"x"), 1),
        frame.marshal(commands.Basic.Publish(), 1) * 2,
    ):
        with pytest.raises(FrameFault) as caught:
            read(data)
        assert caught.value.code == 505


def test_a_channel_that_closes_forgets_what_it_has_begun() -> None:
    reader = FrameReader(1000)
    reader.receive(frame.marshal(commands.Basic.Publish(), 1))
    reader.forget(1)
    assert reader.receive(method_frame(1, commands.Channel.Close(200, "", 0, 0)))


@given(st.binary(max_size=20_000), st.integers(1, 2**63 - 1), st.booleans())
def test_deliveries_read_back_by_pamqp(payload: bytes, tag: int, redelivered: bool) -> None:
    route = short("exchange") + short("key")
    message = (route, PROPERTIES.marshal(), payload)
    data = delivery_frames(5, short("consumer"), tag, redelivered, message, FRAME_MIN)
    size, channel, deliver = frame.unmarshal(data)
    assert isinstance(deliver, commands.Basic.Deliver)
    assert channel == 5
    found = (deliver.consumer_tag, deliver.delivery_tag, deliver.redelivered)
    assert found == ("consumer", tag, redelivered)
    assert (deliver.exchange, deliver.routing_key) == ("exchange", "key")
    data = data[size:]
    size, _, head = frame.unmarshal(data)
    assert isinstance(head, header.ContentHeader)
    assert head.body_size == len(payload)
    assert head.properties == PROPERTIES
    data = data[size:]
    found_body = b""
    while data:
        assert int.from_bytes(data[3:7], "big") + 8 <= FRAME_MIN
        size, _, part = frame.unmarshal(data)
        assert isinstance(part, body.ContentBody)
        found_body += part.value
        data = data[size:]
    assert found_body == payload


@given(st.lists(st.binary(max_size=20) | st.just(b"x" * 5_000), min_size=1))
def test_many_deliveries_are_the_bytes_of_each(bodies: list[bytes]) -> None:
    consumer, message = short("consumer"), (short("exchange") + short("key"), PROPERTIES.marshal())
    each = [
        delivery_frames(5, consumer, tag, False, (*message, payload), FRAME_MIN)
        for tag, payload in enumerate(bodies, 7)
    ]
    assert all_delivery_frames(5, consumer, 7, message, bodies, FRAME_MIN) == b"".join(each)


def test_confirmations_read_back_by_pamqp() -> None:
    _, _, ack = frame.unmarshal(ack_frame(2, 2**40, True))
    assert isinstance(ack, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (2**40, True)
    _, _, nack = frame.unmarshal(nack_frame(2, 3))
    assert isinstance(nack, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple) == (3, False)

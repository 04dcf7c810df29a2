"""Frames of AMQP 1.0 in any pieces, against proton's transport, and whatever is no frame."""

import itertools
from contextlib import suppress
from typing import Any

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.amqp1.composites import (
    Attach,
    Begin,
    Close,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    Transfer,
)
from chordmq.codecs.amqp1.frames import (
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_HEADER,
    Event,
    Frame,
    FrameFault,
    FrameReader,
    Header,
    frame,
    message_frames,
    transfer_frame,
)
from chordmq.codecs.amqp1.values import Symbol, uint

STREAM = (
    SASL_HEADER
    + frame(0, SaslInit(mechanism=Symbol("ANONYMOUS"), initial_response=b"x"))
    + AMQP_HEADER
    + frame(0, Open(container_id="c", properties={Symbol("a"): [1, "b"]}))
    + EMPTY_FRAME
    + frame(1, Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10))
    + frame(1, Attach(link_name="l", handle=0, role=False, initial_delivery_count=0))
    + frame(1, Transfer(handle=0, delivery_id=0, delivery_tag=b"t"), b"payload")
    + frame(0, Close())
)


def read_all(data: bytes) -> list[Event]:
    """Return the events of a whole stream."""
    return FrameReader(4096).receive(data)


def test_a_stream_is_read_with_headers_between_frames() -> None:
    events = read_all(STREAM)
    kinds = [type(event.performative) if isinstance(event, Frame) else Header for event in events]
    assert kinds == [Header, SaslInit, Header, Open, Begin, Attach, Transfer, Close]
    transfer = events[6]
    assert isinstance(transfer, Frame)
    assert (transfer.channel, transfer.payload) == (1, b"payload")


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_a_stream_may_come_in_any_pieces(cuts: list[int]) -> None:
    reader = FrameReader(4096)
    found: list[Event] = []
    places = [0, *sorted(cuts), len(STREAM)]
    for start, stop in itertools.pairwise(places):
        found += reader.receive(STREAM[start:stop])
    assert found == read_all(STREAM)
    assert not reader.is_partial
    assert reader.held == 0


@given(st.integers(0, len(STREAM) - 1), st.integers(0, 255))
def test_whatever_is_done_to_a_byte_is_read_or_refused(position: int, value: int) -> None:
    changed = STREAM[:position] + bytes((value,)) + STREAM[position + 1 :]
    with suppress(FrameFault):
        read_all(changed)


@given(st.binary(max_size=100))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    with suppress(FrameFault):
        read_all(data)


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x10\x00\x00\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x0a\x01\x00\x00\x00\x00\x53", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x0a\x09\x00\x00\x00\x00\x53", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x0a\x02\x00\x00\x00\x53\x10", "amqp:decode-error"),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x99\x45", "amqp:decode-error"),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x10\x45", "amqp:decode-error"),
        (b"\x00\x00\x00\x0c\x02\x07\x00\x00\x00\x53\x18\x45", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x18\x45", "amqp:connection:framing-error"),
    ],
)
def test_what_is_no_frame_is_refused_with_its_condition(data: bytes, condition: str) -> None:
    with pytest.raises(FrameFault) as refused:
        read_all(data)
    assert refused.value.condition == condition


def test_the_performative_may_be_named_in_full() -> None:
    body = b"\x00\xa3\x0famqp:close:list\x45"
    data = (8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body
    assert read_all(data) == [Frame(0, Close(), b"")]


def test_a_delivery_written_fast_is_the_same_as_one_written_slowly() -> None:
    transfer = Transfer(
        handle=300, delivery_id=7, delivery_tag=b"tag", message_format=0, settled=True
    )
    fast = transfer_frame(5, uint(300), (7, b"tag"), True, b"message")
    assert read_all(fast) == read_all(frame(5, transfer, b"message"))


@pytest.mark.parametrize("size", [1000, 5000])
def test_a_large_message_goes_in_frames_that_the_other_side_takes(size: int) -> None:
    message = bytes(range(250)) * (size // 250)
    frames = message_frames(1, 2, (3, b"t"), False, message, 512)
    assert all(len(one) <= 512 for one in frames)
    events: list[Any] = [FrameReader(512).receive(one)[0] for one in frames]
    assert b"".join(event.payload for event in events) == message
    assert [event.performative.more for event in events] == [True] * (len(events) - 1) + [False]
    assert [event.performative.delivery_id for event in events][:2] == [3, None]


def test_proton_takes_and_sends_the_same_frames() -> None:
    """AMQP 1.0's own engine talks to this codec, both ways."""
    transport, connection = proton.Transport(), proton.Connection()
    connection.container = "proton"
    transport.bind(connection)
    connection.open()
    session = connection.session()
    session.open()
    link = session.sender("link")
    link.target.address = "t"
    link.open()
    events = read_all(bytes(transport.peek(transport.pending()) or b""))
    kinds = [type(one.performative) for one in events if isinstance(one, Frame)]
    assert kinds == [Open, Begin, Attach]
    answer = AMQP_HEADER + b"".join(
        (
            frame(0, Open(container_id="chordmq", idle_time_out=5000)),
            frame(
                0,
                Begin(remote_channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9),
            ),
            frame(0, Attach(link_name="link", handle=0, role=True)),
            frame(
                0,
                Flow(
                    next_incoming_id=0,
                    incoming_window=9,
                    next_outgoing_id=0,
                    outgoing_window=9,
                    handle=0,
                    delivery_count=0,
                    link_credit=5,
                ),
            ),
        )
    )
    transport.push(answer)
    assert connection.remote_container == "chordmq"
    assert link.credit == 5


def test_sasl_frames_have_a_type_of_their_own() -> None:
    data = frame(0, SaslMechanisms(mechanisms=(Symbol("PLAIN"),)))
    assert data[5] == 1
    with pytest.raises(FrameFault):
        read_all(data[:5] + b"\x00" + data[6:])

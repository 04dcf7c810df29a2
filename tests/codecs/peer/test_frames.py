"""Frames between nodes, as bytes."""

import pytest

from chordmq.codecs.frames import FrameReader
from chordmq.codecs.peer.frames import (
    VERSION,
    Form,
    Head,
    Hello,
    Kind,
    Refusal,
    frame,
    read_frame,
    read_hello,
    read_refusal,
    written,
)
from chordmq.errors import DecodeError


def cut(data: bytes) -> memoryview:
    """Return the one frame in these bytes, as a connection would see it."""
    reader = FrameReader(1024)
    reader.room()[: len(data)] = data
    (found,) = reader.received(len(data))
    return found


def test_a_frame_is_read_as_it_was_written_whatever_its_pieces_are() -> None:
    head = Head(Form.REQUEST, Kind.REPLICA_FETCH, 2**31 - 1, 2**63 - 1, 2**64 - 1)
    pieces = frame(head, [b"one", memoryview(b"two"), bytearray(b"three")])
    read, body = read_frame(cut(b"".join(pieces)))
    assert read == head
    assert bytes(body) == b"onetwothree"


def test_the_pieces_of_a_body_are_not_copied() -> None:
    body = bytearray(100)
    assert frame(Head(Form.NOTICE, Kind.RING, 1, 1, 0), [body])[1] is body


def test_a_frame_without_a_head_is_refused() -> None:
    with pytest.raises(DecodeError, match="no head"):
        read_frame(memoryview(b"short"))


def test_hellos_and_refusals_come_through() -> None:
    hello = Hello(VERSION, "cluster", 3, 17, "uuid")
    assert read_hello(memoryview(written(hello))) == hello
    refusal = Refusal("NotLeader", "node 2 leads it")
    assert read_refusal(memoryview(written(refusal))) == refusal


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xff", b"GET / HTTP/1.1", written(Hello(VERSION + 1, "cluster", 3, 17, "uuid"))],
)
def test_a_hello_in_another_language_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError):
        read_hello(memoryview(body))

"""Frames come out whole however the bytes arrive."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordmq.codecs.frames import (
    FIRST_SIZE_MAX,
    SHARED_SIZE,
    FrameReader,
    SmallFrameReader,
    own,
)
from chordmq.errors import DecodeError


def feed(reader: FrameReader, data: bytes, chunk: int, *, is_lent: bool = False) -> list[bytes]:
    """Receive the data as a socket would: never more at once than there is room or `chunk`."""
    frames = []
    position = 0
    receive = reader.lent if is_lent else reader.received
    while position < len(data):
        room = reader.room()
        count = min(len(room), chunk, len(data) - position)
        room[:count] = data[position : position + count]
        frames += [bytes(frame) for frame in receive(count)]
        position += count
    return frames


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 400), st.booleans())
def test_any_chunking_gives_the_same_frames(
    payloads: list[bytes], chunk: int, is_lent: bool
) -> None:
    reader = FrameReader(frame_size_max=1000)
    stream = b"".join(map(framed, payloads))
    assert feed(reader, stream, chunk, is_lent=is_lent) == payloads
    assert not reader.is_partial


def test_only_a_frame_of_ones_own_stays_when_others_receive() -> None:
    one, other = FrameReader(1000), FrameReader(1000)
    stream = framed(b"first") + framed(b"second")
    one.room()[: len(stream)] = stream
    first, second = one.lent(len(stream))
    first = own(first)
    other.room()[: len(stream)] = bytes(len(stream))
    assert other.received(4) == [memoryview(b"")]
    assert bytes(first) == b"first"
    assert bytes(second) == bytes(len(b"second"))
    assert own(first) is first


@given(st.lists(st.binary(max_size=30), max_size=3), st.binary(max_size=6), st.integers(1, 40))
def test_only_bytes_that_are_exactly_one_frame_are_a_lone_one(
    payloads: list[bytes], rest: bytes, limit: int
) -> None:
    reader = FrameReader(limit)
    stream = b"".join(map(framed, payloads)) + rest
    reader.room()[: len(stream)] = stream
    frame = reader.lone(len(stream))
    try:
        frames = FrameReader(limit).received(len(stream))
        is_one = len(frames) == 1 and len(frames[0]) + 4 == len(stream)
    except DecodeError:
        is_one, frames = False, []
    assert (frame is not None) == is_one
    assert frame is None or frame == frames[0]


@pytest.mark.parametrize("begun", [b"\0", framed(b"some")[:-1]])
def test_no_frame_is_a_lone_one_behind_another_that_has_begun(begun: bytes) -> None:
    reader = FrameReader(SHARED_SIZE * 4)
    feed(reader, begun, len(begun))
    assert reader.lone(8) is None
    reader = FrameReader(SHARED_SIZE * 4)
    feed(reader, framed(bytes(2 * SHARED_SIZE))[:9], 9)
    assert reader.lone(8) is None


@settings(max_examples=20)
@given(
    st.lists(st.integers(0, SHARED_SIZE + 9), min_size=1, max_size=6),
    st.integers(20_000, 2 * SHARED_SIZE),
    st.booleans(),
)
def test_any_chunking_gives_the_same_large_frames(
    sizes: list[int], chunk: int, is_lent: bool
) -> None:
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    reader = FrameReader(frame_size_max=10_000_000)
    stream = b"".join(map(framed, payloads))
    assert feed(reader, stream, chunk, is_lent=is_lent) == payloads
    assert not reader.is_partial


def test_a_frame_that_trickles_in_is_not_copied_with_each_byte() -> None:
    """C11: a slow client costs no more than a fast one: its frame gets memory of its own."""
    reader = FrameReader(frame_size_max=1_000_000)
    feed(reader, struct.pack(">i", 100_000) + b"x" * 50_000, 30_000)
    assert len(reader.room()) == 50_000
    feed(reader, b"x" * 100, 1)
    assert len(reader.room()) == 49_900


def test_a_frame_larger_than_the_shared_buffer_comes_out_whole() -> None:
    payload = bytes(range(256)) * 20_000
    assert feed(FrameReader(10_000_000), framed(payload), 65_536) == [payload]


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_frame_over_the_limit_is_refused_before_its_body_arrives(size: int) -> None:
    """C12: a hostile length costs its sender the connection and us no memory."""
    reader = FrameReader(frame_size_max=1000)
    with pytest.raises(DecodeError):
        feed(reader, struct.pack(">i", size), 4)
    assert reader.held == 0


def test_memory_follows_what_arrived_not_what_was_announced() -> None:
    """C11: a client that announces much and sends little holds little."""
    reader = FrameReader(frame_size_max=100 * 1024 * 1024)
    feed(reader, struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000, 65_536)
    assert reader.held <= FIRST_SIZE_MAX


def test_an_idle_connection_holds_no_memory() -> None:
    """C11: ten thousand idle connections share one receive buffer."""
    reader = FrameReader(frame_size_max=1000)
    feed(reader, framed(b"abc"), 7)
    assert reader.held == 0


@given(st.lists(st.binary(max_size=300), max_size=20), st.data())
def test_small_frames_are_cut_wherever_reads_end(
    payloads: list[bytes], data: st.DataObject
) -> None:
    for head_size in (4, 13):
        heads = [bytes([n % 256]) * (head_size - 4) for n in range(len(payloads))]
        frames = [
            head + struct.pack(">i", len(payload)) + payload
            for head, payload in zip(heads, payloads, strict=True)
        ]
        reader, found, stream = SmallFrameReader(1000, head_size), [], b"".join(frames)
        while stream:
            count = data.draw(st.integers(1, len(stream)))
            reader.room()[:count] = stream[:count]
            found += reader.received(count)
            stream = stream[count:]
        assert found == (payloads if head_size == 4 else frames)
        assert not reader.is_partial
        assert reader.held == 0


def test_a_small_frame_over_the_limit_is_refused_before_its_body() -> None:
    reader = SmallFrameReader(100)
    reader.room()[:4] = struct.pack(">i", 101)
    with pytest.raises(DecodeError, match="limit"):
        reader.received(4)


def test_what_is_held_of_a_large_frame_is_what_has_come() -> None:
    """C11: memory grows with what has arrived, not with what was announced."""
    reader = SmallFrameReader(100 * 1024 * 1024)
    reader.room()[:14] = struct.pack(">i", 100 * 1024 * 1024) + b"0123456789"
    assert reader.received(14) == []
    assert reader.held == 14

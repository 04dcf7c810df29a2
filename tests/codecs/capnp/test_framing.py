"""Frames of Cap'n Proto's stream format, followed without keeping them."""

import itertools
import struct

import capnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.capnp.framing import Framing
from chordmq.codecs.capnp.schema import SCHEMA
from chordmq.errors import DecodeError

segment_sizes = st.lists(st.integers(0, 20), min_size=1, max_size=9)


def frame(sizes: list[int]) -> bytes:
    head = struct.pack(f"<I{len(sizes)}I", len(sizes) - 1, *sizes)
    return head + b"\x00" * (-len(head) % 8) + b"\xaa" * 8 * sum(sizes)


@given(frames=st.lists(segment_sizes, min_size=1, max_size=5), data=st.data())
def test_the_end_of_each_frame_is_found_however_it_is_cut(
    frames: list[list[int]], data: st.DataObject
) -> None:
    framing = Framing(10_000)
    for sizes in frames:
        whole = frame(sizes)
        cuts = data.draw(st.lists(st.integers(1, len(whole) - 1), max_size=4, unique=True))
        edges = [0, *sorted(cuts), len(whole)]
        for begin, end in itertools.pairwise(edges):
            framing.receive(whole[begin:end])
            assert framing.is_partial == (end < len(whole))
            assert framing.held == end % len(whole)


@given(frames=st.lists(segment_sizes, min_size=1, max_size=5))
def test_several_frames_may_come_at_once(frames: list[list[int]]) -> None:
    framing = Framing(10_000)
    framing.receive(b"".join(map(frame, frames)))
    assert not framing.is_partial


def test_a_message_of_the_library_is_one_frame() -> None:
    message = SCHEMA.Batch.new_message(topic="t", deliveries=[{"offset": 7}])
    framing = Framing(10_000)
    framing.receive(message.to_bytes())
    assert not framing.is_partial
    assert capnp.__version__


def test_a_frame_over_the_limit_is_refused_before_its_body_arrives() -> None:
    framing = Framing(800)
    framing.receive(frame([100]))
    with pytest.raises(DecodeError, match="over 800"):
        framing.receive(struct.pack("<II", 0, 101))


def test_more_segments_than_a_frame_can_have_are_refused() -> None:
    with pytest.raises(DecodeError, match="segments"):
        Framing(800).receive(struct.pack("<II", 512, 1))


@given(st.binary(max_size=3_000))
def test_garbage_raises_a_decode_error_and_nothing_else(data: bytes) -> None:
    framing = Framing(1_000)
    try:
        framing.receive(data)
    except DecodeError:
        return
    assert framing.held <= 1_000 + 4 * 513 + 8

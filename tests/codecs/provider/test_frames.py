"""The provider's frames: what is written can be read, garbage raises DecodeError only."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.provider.frames import (
    HEAD,
    HEAD_SIZE,
    Acknowledgement,
    Publish,
    Status,
    Type,
    accepted,
    frame,
    goodbye,
    message_id,
    read_acknowledgement,
    read_commits,
    read_publish,
    read_run,
    refused,
    stored,
    write_push,
)
from chordmq.errors import DecodeError
from chordmq.records.record import Headers, Record, RecordRun
from tests.fronts.provider.client import Frame, data, message

some_bytes = st.none() | st.binary(max_size=50)
headers = st.lists(st.tuples(st.text(max_size=10), some_bytes), max_size=4).map(tuple)


@given(some_bytes, some_bytes, headers, st.integers(0, 2**62), st.integers(-1, 100))
def test_a_published_message_is_read_as_it_was_written(
    key: bytes | None, value: bytes | None, headers: Headers, timestamp: int, partition: int
) -> None:
    """D7: DATA of a client."""
    payload = data("some.topic", value, key, headers, timestamp, partition)
    publish = read_publish(frame(Type.DATA, 7, payload), now_ms=1)
    assert publish == ("some.topic", partition, (timestamp, key, value, headers))


@given(some_bytes, some_bytes, headers, st.integers(0, 2**47), st.integers(0, 2**16 - 1))
def test_a_pushed_message_is_what_a_client_reads(
    key: bytes | None, value: bytes | None, headers: Headers, offset: int, partition: int
) -> None:
    """D7: DATA of the node."""
    out: list[bytes] = []
    size = write_push(out, partition, Record(offset, 5, key, value, headers), 2)
    written = b"".join(out)
    kind, number, length = HEAD.unpack_from(written)
    assert (kind, number, length) == (Type.DATA, message_id(partition, offset), size)
    assert len(written) == HEAD_SIZE + size
    assert message(Frame(kind, number, written[HEAD_SIZE:])) == (
        number, 2, 5, key, headers, value,
    )  # fmt: skip


def test_bytes_stand_where_the_page_says() -> None:
    """D7: `[type:1][message id:8][length:4][payload]`."""
    out: list[bytes] = []
    write_push(out, 1, Record(2, 3, b"k", b"value", (("h", None),)), 1)
    assert b"".join(out).hex(" ") == (
        "01 00 01 00 00 00 00 00 02 00 00 00 21 00 01 00 00 00 00 00 00 00 03 "
        "00 00 00 01 6b 00 01 00 01 68 ff ff ff ff 00 00 00 05 76 61 6c 75 65"
    )
    assert stored([9], 1, 2).hex(" ") == (
        "02 00 00 00 00 00 00 00 09 00 00 00 0e 00 00 00 00 00 01 00 00 00 00 00 00 00 02"
    )
    assert accepted(9).hex(" ") == "02 00 00 00 00 00 00 00 09 00 00 00 02 00 00"
    assert refused([1], Status.TOO_LARGE, "no")[HEAD_SIZE:] == b"\x00\x06no"
    assert goodbye(Status.SILENT, "hm")[HEAD_SIZE:] == b"\x00\x0ahm"


def test_a_message_without_a_time_is_of_now() -> None:
    publish = read_publish(frame(Type.DATA, 7, data("t", b"v")), now_ms=42)
    assert publish[2].timestamp == 42


@given(
    st.lists(st.tuples(st.sampled_from(["t", "u"]), some_bytes, some_bytes), min_size=1, max_size=9)
)
def test_runs_hold_what_the_frames_do(
    messages: list[tuple[str, bytes | None, bytes | None]],
) -> None:
    """D7: messages that are alike are read together, and none of them differently for that."""
    frames = [
        frame(Type.DATA, number, data(topic, value, key))
        for number, (topic, key, value) in enumerate(messages, 5)
    ]
    at = 0
    found: list[Publish] = []
    ids: list[int] = []
    while at < len(frames):
        topic, partition, records, numbers, size = read_run(frames, at, 42, 1 << 20)
        run = records.records() if isinstance(records, RecordRun) else [records]
        assert isinstance(records, RecordRun) == (len(numbers) > 1)
        found += [(topic, partition, one) for one in run]
        ids += numbers
        assert size == sum(map(len, frames[at : at + len(numbers)]))
        at += len(numbers)
    assert found == [read_publish(one, 42) for one in frames]
    assert ids == list(range(5, 5 + len(frames)))


def test_alike_messages_are_one_run_up_to_a_size() -> None:
    frames = [frame(Type.DATA, number, data("t", b"%d" % number)) for number in range(20)]
    for size_max, last in ((1 << 20, 19), (4 * len(frames[3]), 6), (1, 3)):
        assert list(read_run(frames, 3, 42, size_max)[3]) == list(range(3, last + 1))


def test_a_run_ends_before_a_frame_that_is_malformed() -> None:
    whole = frame(Type.DATA, 1, data("t", b"value"))
    record = read_publish(whole, 42)[2]
    for spoilt in (whole[:-1], whole + b"x", whole[:-10]):
        assert read_run([whole, spoilt, whole], 0, 42, 1 << 20)[2:4] == (record, (1,))
        with pytest.raises(DecodeError):
            read_run([whole, spoilt, whole], 1, 42, 1 << 20)


@given(st.binary(max_size=100))
def test_garbage_raises_decode_error_and_nothing_else(payload: bytes) -> None:
    for read in (lambda one: read_publish(one, 0), read_acknowledgement, read_commits):
        try:
            read(frame(Type.DATA, 7, payload))
        except DecodeError:
            pass


@given(st.binary(max_size=40), st.integers(1, 60))
def test_a_message_that_is_cut_is_refused(value: bytes, cut: int) -> None:
    payload = data("t", value, b"key", (("a", b"b"),))
    with pytest.raises(DecodeError):
        read_publish(frame(Type.DATA, 7, payload[: -min(cut, len(payload))]), 0)
    with pytest.raises(DecodeError):
        read_publish(frame(Type.DATA, 7, payload + b"x"), 0)


def test_one_message_or_several_are_acknowledged() -> None:
    first, last = message_id(3, 10), message_id(3, 20)
    assert read_acknowledgement(frame(Type.ACK, first)) == Acknowledgement(3, 10, 10, 1)
    assert read_acknowledgement(frame(Type.ACK, first, b"\x02")) == Acknowledgement(3, 10, 10, 2)
    several = struct.pack(">BQ", 3, last)
    assert read_acknowledgement(frame(Type.ACK, first, several)) == Acknowledgement(3, 10, 20, 3)
    with pytest.raises(DecodeError):
        read_acknowledgement(frame(Type.ACK, last, struct.pack(">BQ", 1, first)))
    with pytest.raises(DecodeError):
        read_acknowledgement(frame(Type.ACK, first, struct.pack(">BQ", 1, message_id(4, 20))))

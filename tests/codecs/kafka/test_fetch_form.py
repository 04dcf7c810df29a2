"""Fetch requests that are recognised by their form say the same as when they are read."""

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.kafka import fetch
from chordmq.codecs.kafka.fetch_form import SESSIONS_SINCE, FetchForm, form_of
from chordmq.codecs.kafka.header import read_request_header, request_head, response_head
from chordmq.codecs.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chordmq.codecs.kafka.schema import decode, encode

VERSIONS = list(FetchRequest.versions)
TOPIC_ID = bytes(range(16))
SESSION_ID = 0x0A0B0C0D


@dataclass(frozen=True)
class Sent:
    """What a request says that may differ from the one before."""

    offset: int = 0
    epoch: int = 1
    number: int = 77


FIRST = Sent()


def request(version: int, sent: Sent = FIRST, topic: str = "readings") -> memoryview:
    """Return the frame of a request for one partition."""
    by_id = version >= fetch.TOPIC_IDS_SINCE
    row = FetchPartition(partition=3, fetch_offset=sent.offset, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_id=SESSION_ID if version >= SESSIONS_SINCE else 0,
        session_epoch=sent.epoch if version >= SESSIONS_SINCE else -1,
        topics=[
            FetchTopic(
                topic="" if by_id else topic,
                topic_id=TOPIC_ID if by_id else bytes(16),
                partitions=[row],
            )
        ],
    )
    head = request_head(1, version, sent.number, "consumer")
    return memoryview(bytearray(head + bytes(encode(body, version))))


def topic_of(version: int, topic: str = "readings") -> fetch.TopicRecords:
    rows = [fetch.PartitionRecords(3)]
    if version >= fetch.TOPIC_IDS_SINCE:
        return fetch.TopicRecords("", TOPIC_ID, rows)
    return fetch.TopicRecords(topic, b"", rows)


def found(frame: memoryview, version: int, topic: str = "readings") -> FetchForm | None:
    body = read_request_header(frame).body
    answer = topic_of(version, topic), SESSION_ID
    return form_of(frame, body, decode(FetchRequest, version, frame, body), answer)


def form(version: int) -> FetchForm:
    one = found(request(version), version)
    assert one is not None
    return one


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_goes_on_elsewhere_is_recognised(version: int) -> None:
    """C6: whatever its offset, its place in the session and its correlation id."""
    epoch = 5 if version >= SESSIONS_SINCE else 0
    sent = Sent(offset=2**40 + 3, epoch=5, number=-9)
    assert form(version).continued(request(version, sent)) == (2**40 + 3, epoch)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_byte_that_is_different_elsewhere_makes_it_another_request(version: int) -> None:
    """C12: what is not the same has to be read."""
    like, frame = form(version), request(version)
    recognised = []
    for position in range(len(frame)):
        changed = memoryview(bytearray(frame))
        changed[position] ^= 1
        if like.continued(changed) is not None:
            recognised.append(position)
    free = 4 + 8 + (4 if version >= SESSIONS_SINCE else 0)
    assert len(recognised) == free


@given(version=st.sampled_from(VERSIONS), garbage=st.binary(max_size=200))
def test_garbage_is_not_recognised(version: int, garbage: bytes) -> None:
    """C12: and raises nothing."""
    like = form(version)
    assert like.continued(memoryview(garbage)) is None
    frame = request(version)
    assert like.continued(frame[: len(garbage)]) is None or len(garbage) >= len(frame)
    assert like.continued(memoryview(bytes(frame) + garbage + b"x")) is None


@given(
    version=st.sampled_from(VERSIONS),
    ends=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3),
    data=st.binary(min_size=1, max_size=300),
    number=st.integers(-(2**31), 2**31 - 1),
)
def test_an_answer_by_form_is_the_answer_by_hand(
    version: int, ends: tuple[int, int, int], data: bytes, number: int
) -> None:
    """C6: byte for byte, frame size and head included."""
    topic = topic_of(version)
    topic.partitions = [fetch.PartitionRecords(3, 0, *ends, [memoryview(data)])]
    body = b"".join(map(bytes, fetch.write_response([topic], version, 0, SESSION_ID)))
    by_hand = response_head(number, 1, version) + body
    before, after = form(version).answer(struct.pack(">i", number), ends, len(data))
    assert before + data + after == struct.pack(">i", len(by_hand)) + by_hand


def test_a_long_name_has_a_form_too() -> None:
    name = "n" * 200
    like = found(request(12, topic=name), 12, name)
    assert like is not None
    assert like.continued(request(12, Sent(offset=9), name)) == (9, 1)


def test_a_request_with_numbers_written_at_length_has_no_form() -> None:
    """C12: a client may write the count of topics in two bytes, and everything lies elsewhere."""
    frame = bytes(request(13))
    body = read_request_header(memoryview(frame)).body
    count_at = body + 4 + 13 + 8
    assert frame[count_at] == 2
    longer = memoryview(bytearray(frame[:count_at] + b"\x82\x00" + frame[count_at + 1 :]))
    assert decode(FetchRequest, 13, longer, body) == decode(FetchRequest, 13, frame, body)
    assert found(longer, 13) is None


def test_a_request_that_is_too_long_has_no_form() -> None:
    """C11: nothing large is kept for a connection."""
    name = "n" * 2000
    assert found(request(11, topic=name), 11, name) is None

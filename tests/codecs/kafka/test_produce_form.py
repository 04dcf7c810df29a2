"""Requests that are recognised by their form say the same as when they are read."""

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.kafka import produce
from chordmq.codecs.kafka.header import read_request_header, request_head, response_head
from chordmq.codecs.kafka.messages import produce as messages
from chordmq.codecs.kafka.produce_form import STARTS_SINCE, ProduceForm, form_of
from chordmq.codecs.kafka.schema import encode
from chordmq.errors import DecodeError

VERSIONS = list(range(STARTS_SINCE, 14))
TOPIC_ID = bytes(range(16))


@dataclass(frozen=True)
class Sent:
    """What a request says besides its batch."""

    acks: int = -1
    topic: str = "readings"
    index: int = 3
    number: int = 77


PLAIN = Sent()


def request(version: int, batch: bytes | None, sent: Sent = PLAIN) -> memoryview:
    """Return the frame of a request with one batch."""
    by_id = version >= produce.TOPIC_IDS_SINCE
    row = messages.PartitionProduceData(index=sent.index, records=batch)
    topic = messages.TopicProduceData(
        name="" if by_id else sent.topic,
        topic_id=TOPIC_ID if by_id else bytes(16),
        partition_data=[row],
    )
    body = messages.ProduceRequest(acks=sent.acks, timeout_ms=1000, topic_data=[topic])
    head = request_head(0, version, sent.number, "producer")
    return memoryview(bytearray(head + bytes(encode(body, version))))


def blank(version: int) -> produce.PartitionAnswer:
    if version >= produce.TOPIC_IDS_SINCE:
        return produce.PartitionAnswer("", TOPIC_ID, 3)
    return produce.PartitionAnswer("readings", b"", 3)


def form(version: int, batch: bytes = b"first batch") -> ProduceForm:
    frame = request(version, batch)
    found = form_of(frame, version, read(frame), blank(version))
    assert found is not None
    return found


def read(frame: memoryview) -> memoryview:
    header = read_request_header(frame)
    [row] = produce.read_request(frame, header.body, header.api_version).partitions
    assert row.records is not None
    return row.records


@pytest.mark.parametrize("size", [5, 126, 127, 128, 16_382, 16_384])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_differs_in_its_batch_has_the_form(version: int, size: int) -> None:
    """C1: whatever the size of the batch, and of the number that says it; nothing is copied."""
    batch = bytes(number % 251 for number in range(size))
    frame = request(version, batch, Sent(number=78))
    found = form(version).batch(frame)
    assert found is not None
    assert bytes(found) == batch
    assert found == read(frame)
    assert found.obj is frame.obj


@pytest.mark.parametrize(
    "sent", [Sent(acks=1), Sent(index=4), Sent(topic="readinxs"), Sent(topic="readings2")]
)
def test_another_request_has_another_form(sent: Sent) -> None:
    """C1: whatever decides where a batch goes and how it is acknowledged is compared."""
    assert form(9).batch(request(9, b"first batch", sent)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_another_version_has_another_form(version: int) -> None:
    """C1: the next version may be alike in all but its number."""
    other = VERSIONS[0] if version == VERSIONS[-1] else version + 1
    assert form(version).batch(request(other, b"first batch")) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_without_a_batch_has_another_form(version: int) -> None:
    """C15: it is refused by who reads it."""
    assert form(version).batch(request(version, None)) is None
    assert form(version).batch(request(version, b"")) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_cut_off_or_too_long_has_another_form(version: int) -> None:
    """C15: wherever it ends."""
    known, frame = form(version), request(version, b"another batch")
    for end in range(len(frame)):
        assert known.batch(frame[:end]) is None
    assert known.batch(memoryview(bytes(frame) + b"\0")) is None


@given(version=st.sampled_from(VERSIONS), place=st.integers(0), byte=st.integers(0, 255))
def test_a_changed_byte_never_makes_another_batch(version: int, place: int, byte: int) -> None:
    """C15: what has the form is read as the same batch, and goes to the same partition."""
    frame = request(version, b"another batch")
    frame[place % len(frame)] = byte
    found = form(version).batch(frame)
    if found is None:
        return
    header = read_request_header(frame)
    [row] = produce.read_request(frame, header.body, header.api_version).partitions
    assert (header.api_key, header.api_version, row.index) == (0, version, 3)
    assert row.records == found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_what_the_codec_writes(version: int) -> None:
    """C1: byte for byte."""
    answer = blank(version)
    answer.base_offset, answer.append_time_ms, answer.start_offset = 1 << 40, 1234, 17
    head = response_head(0x01020304, 0, version)
    written = head + produce.write_response([answer], version)
    given = form(version).answer(b"\1\2\3\4", 1 << 40, 1234, 17)
    assert given == len(written).to_bytes(4, "big") + written


def test_a_request_with_tags_or_of_an_old_version_has_no_form() -> None:
    """C1: both are rare; they are read."""
    tagged = request(9, b"batch")[:-1].tobytes() + b"\1\7\1x"
    frame = memoryview(tagged)
    assert form_of(frame, 9, read(frame), blank(9)) is None
    old = request(3, b"batch")
    assert form_of(old, 3, read(old), blank(3)) is None


def test_a_number_without_end_is_left_to_who_reads_it() -> None:
    """C15: five bytes that all say that more follow."""
    known = form(9)
    frame = request(9, b"x" * 20)
    at = bytes(frame).rindex(struct.pack(">i", 3)) + 4
    frame[at : at + 5] = b"\xff" * 5
    assert known.batch(frame) is None
    with pytest.raises(DecodeError):
        read(frame)

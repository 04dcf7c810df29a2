"""The Kafka wire protocol byte by byte: what clients rely on and brokers have got wrong."""

import select
import struct
import time

import pytest
from kio.schema.errors import ErrorCode

from tests.interop.conftest import CreateTopic
from tests.wire import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Wire,
    fetch_fields,
    framed,
    produce_fields,
    record_batch,
    request,
    response,
    stored,
)

TOO_NEW = 99
# An empty request of these is not answered by Apache Kafka either, or with times that kio refuses.
WITHOUT_EMPTY_FORM = {24, 29, 38, 39, 40}
SOFTWARE = {"client_software_name": "wire-test", "client_software_version": "1.0"}


def versions(wire: Wire) -> dict[int, range]:
    """Ask the broker which versions of which APIs it serves."""
    answer = wire.call(API_VERSIONS, 3, **SOFTWARE)
    assert answer.error_code is ErrorCode.none
    return {row.api_key: range(row.min_version, row.max_version + 1) for row in answer.api_keys}


def least(api_key: int, version: int) -> dict[str, object]:
    """Return the fields without which a request is not answered, or not with success."""
    if api_key == PRODUCE:
        return {"acks": -1}
    return dict(SOFTWARE) if api_key == API_VERSIONS and version >= 3 else {}


def test_a_too_new_api_versions_request_gets_version_0_and_the_range(wire: Wire) -> None:
    """C12: nothing after such a request's header is parsed, and the connection stays open."""
    head = struct.pack(">hhih", API_VERSIONS, TOO_NEW, 7, 4) + b"test" + b"\0"
    wire.socket.sendall(framed(head + b"\xff" * 20))
    frame = wire.receive_frame()
    assert frame is not None
    answer = response(API_VERSIONS, 0, 7, frame)
    assert answer.error_code is ErrorCode.unsupported_version
    assert API_VERSIONS in {row.api_key for row in answer.api_keys}
    assert API_VERSIONS in versions(wire)


@pytest.mark.parametrize(("api_key", "version"), [(METADATA, TOO_NEW), (999, 0), (PRODUCE, 1)])
def test_an_unsupported_request_closes_its_connection(
    wire: Wire, api_key: int, version: int
) -> None:
    """C12: other APIs have no way to say that a version is unknown."""
    wire.socket.sendall(framed(struct.pack(">hhih", api_key, version, 1, 4) + b"test" + b"\0" * 8))
    assert wire.is_closed_by_peer()


def test_produce_is_listed_from_version_0_on(wire: Wire) -> None:
    """C5: librdkafka switches compression off without it (KAFKA-18659)."""
    assert versions(wire)[PRODUCE].start == 0


def test_every_version_that_is_listed_answers_in_its_own_layout(
    wire: Wire, address: tuple[str, int]
) -> None:
    """C1, C12: an empty request of each API in each version gets an answer that kio can read."""
    ranges = versions(wire)
    assert {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 32, 33} <= ranges.keys()
    for api_key in sorted(ranges.keys() - WITHOUT_EMPTY_FORM):
        with Wire(address) as own:
            for version in ranges[api_key]:
                if api_key == PRODUCE and version < 3:
                    continue
                own.call(api_key, version, **least(api_key, version))


def test_a_request_without_a_client_id_is_served(wire: Wire) -> None:
    """C12: the client id is nullable, in the old string form even in the new header."""
    full = request(METADATA, 12, 5, {"topics": []})
    head, body = struct.pack(">hhih", METADATA, 12, 5, -1), full[8 + 2 + len("chordmq-test") :]
    wire.socket.sendall(framed(head + body))
    assert wire.receive(METADATA, 12, 5).brokers


def test_unknown_tagged_fields_are_skipped(wire: Wire) -> None:
    """C12: KIP-482, in the header and in the body."""
    full = request(METADATA, 12, 6, {"topics": []})
    tags = b"\x02" + b"\x63\x03abc" + b"\xe7\x07\x00"
    head_end = 8 + 2 + len("chordmq-test")
    head, body = full[:head_end], full[head_end + 1 : -1]
    wire.socket.sendall(framed(head + tags + body + tags))
    assert wire.receive(METADATA, 12, 6).brokers


def test_a_frame_may_arrive_one_byte_at_a_time(wire: Wire) -> None:
    """C12: chunking by the network changes nothing."""
    for byte in framed(request(METADATA, 12, 8, {"topics": []})):
        wire.socket.sendall(bytes([byte]))
    assert wire.receive(METADATA, 12, 8).brokers


def test_acks_0_gets_no_answer_and_is_stored(wire: Wire, create_topic: CreateTopic) -> None:
    """C1: the next answer on the connection is the next request's, and the record is there."""
    topic = create_topic()
    wire.send(PRODUCE, 9, **produce_fields(topic, record_batch([b"silent"]), acks=0))
    assert wire.call(METADATA, 12, topics=[]).brokers
    fetched = wire.fetch(topic, 0, max_wait=5000)
    assert stored(fetched.records) == [(0, b"silent")]


def test_an_error_with_acks_0_closes_the_connection(wire: Wire, create_topic: CreateTopic) -> None:
    """C12: there is no answer that could carry it."""
    topic = create_topic()
    broken = bytearray(record_batch([b"v"]))
    broken[-1] ^= 1
    wire.send(PRODUCE, 9, **produce_fields(topic, bytes(broken), acks=0))
    assert wire.is_closed_by_peer()


def test_a_batch_with_a_wrong_checksum_is_refused(wire: Wire, create_topic: CreateTopic) -> None:
    """C12, D4: CORRUPT_MESSAGE, and nothing is stored."""
    topic = create_topic()
    broken = bytearray(record_batch([b"v"]))
    broken[-1] ^= 1
    assert wire.produce(topic, bytes(broken)).error_code is ErrorCode.corrupt_message
    assert wire.produce(topic, record_batch([b"good"])).base_offset == 0


def test_pipelined_requests_are_answered_in_order(wire: Wire, create_topic: CreateTopic) -> None:
    """C12: clients match answers to requests by position."""
    topic = create_topic()
    sent = []
    for index in range(30):
        batch = record_batch([b"%d" % index])
        api_key, version, fields = (
            (PRODUCE, 9, produce_fields(topic, batch)),
            (METADATA, 12, {"topics": [{"name": topic}]}),
            (FETCH, 12, fetch_fields(topic, 0, max_wait=50)),
        )[index % 3]
        sent.append((api_key, version, wire.send(api_key, version, **fields)))
    answers = [wire.receive(*each) for each in sent]
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers[::3]]
    assert offsets == list(range(10))


def test_a_parked_fetch_wakes_when_data_arrives(
    wire: Wire, address: tuple[str, int], create_topic: CreateTopic
) -> None:
    """C6: long before its time is over; nothing is polled."""
    topic = create_topic()
    parked = wire.send_fetch(topic, 0, max_wait=60_000)
    assert not wire.has_answer(within_s=0.2)
    with Wire(address) as other:
        assert other.produce(topic, record_batch([b"wake"])).error_code is ErrorCode.none
    assert stored(wire.receive_fetch(parked).records) == [(0, b"wake")]


def test_a_parked_fetch_waits_for_its_minimum(
    wire: Wire, address: tuple[str, int], create_topic: CreateTopic
) -> None:
    """C6: min_bytes are collected from several batches."""
    topic = create_topic()
    parked = wire.send_fetch(topic, 0, max_wait=60_000, min_bytes=1000)
    with Wire(address) as other:
        other.produce(topic, record_batch([b"x" * 300]))
        assert not wire.has_answer(within_s=0.2)
        other.produce(topic, record_batch([b"x" * 900]))
    assert len(stored(wire.receive_fetch(parked).records)) == 2


def test_a_fetch_ends_when_its_time_is_over(wire: Wire, create_topic: CreateTopic) -> None:
    """C6: with what there is, here nothing; records are empty and never null."""
    topic = create_topic()
    started = time.monotonic()
    answer = wire.fetch(topic, 0, max_wait=300)
    assert time.monotonic() - started >= 0.29
    assert answer.records == b""
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.none, 0)


def test_a_fetch_honours_its_maximum_but_brings_at_least_one_batch(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C6: whole batches up to max_bytes, and one even if it is larger."""
    topic = create_topic()
    batch = record_batch([b"x" * 1000])
    for _ in range(10):
        wire.produce(topic, batch)
    assert len(stored(wire.fetch(topic, 0, max_bytes=1).records)) == 1
    limited = wire.fetch(topic, 0, max_bytes=3500, partition_max_bytes=3500).records
    assert len(limited) <= 3500
    # Apache Kafka fills up with a part of the next batch; only whole ones count.
    assert len(stored(limited[: 3 * len(batch)])) == 3
    assert len(stored(wire.fetch(topic, 0).records)) == 10


def test_a_fetch_from_the_middle_of_a_batch_brings_the_whole_batch(
    wire: Wire, create_topic: CreateTopic
) -> None:
    """C6: the client drops what it did not ask for; without it, it hangs for ever."""
    topic = create_topic()
    wire.produce(topic, record_batch([b"%d" % index for index in range(10)]))
    assert stored(wire.fetch(topic, 7).records)[0] == (0, b"0")


@pytest.mark.parametrize("offset", [5, -3])
def test_a_fetch_outside_the_log_is_an_error(
    wire: Wire, create_topic: CreateTopic, offset: int
) -> None:
    """C12: OFFSET_OUT_OF_RANGE comes at once, whatever the waiting time."""
    topic = create_topic()
    wire.produce(topic, record_batch([b"v"]))
    answer = wire.fetch(topic, offset, max_wait=60_000)
    assert answer.error_code is ErrorCode.offset_out_of_range


def test_a_fetch_from_an_unknown_topic_is_an_error(wire: Wire, name: str) -> None:
    """C12: UNKNOWN_TOPIC_OR_PARTITION comes at once."""
    answer = wire.fetch(name, 0, max_wait=60_000)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


def test_a_parked_fetch_holds_up_no_other_connection(
    wire: Wire, address: tuple[str, int], create_topic: CreateTopic
) -> None:
    """C6: waiting costs only the connection that waits."""
    topic = create_topic()
    wire.send_fetch(topic, 0, max_wait=60_000)
    with Wire(address) as other:
        assert other.call(METADATA, 12, topics=[]).brokers
    assert not select.select([wire.socket], [], [], 0)[0]

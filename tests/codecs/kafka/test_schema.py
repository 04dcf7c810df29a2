"""Tests of the compiled Kafka codec over every message and version."""

import contextlib
import subprocess
import sys
import tracemalloc
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, field

from chordmq.codecs.kafka.messages.api_versions import ApiVersionsRequest
from chordmq.codecs.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from chordmq.codecs.kafka.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from chordmq.codecs.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from chordmq.codecs.kafka.messages.offset_commit import OffsetCommitRequest
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.codecs.kafka.wire import Wire
from chordmq.errors import DecodeError
from tests.codecs.kafka.arbitrary import every_version, label, message_classes, messages, sample

quick = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("pair", every_version(), ids=label)
@settings(quick, max_examples=5)
@given(data=st.data())
def test_every_message_comes_back_from_its_bytes(
    pair: tuple[type[Any], int], data: st.DataObject
) -> None:
    """C1: every version of every message is encoded and decoded without loss."""
    cls, version = pair
    message = data.draw(messages(cls, version))
    assert decode(cls, version, encode(message, version)) == message


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
@settings(quick, max_examples=12)
@given(data=st.data())
def test_random_bytes_raise_decode_error_and_nothing_else(
    cls: type[Any], data: st.DataObject
) -> None:
    """C12: garbage is refused with one error, which closes only its own connection."""
    version = data.draw(st.sampled_from(cls.versions))
    try:
        decode(cls, version, data.draw(st.binary(max_size=60)))
    except DecodeError:
        pass


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
@settings(quick, max_examples=6)
@given(data=st.data())
def test_damaged_messages_raise_decode_error_and_nothing_else(
    cls: type[Any], data: st.DataObject
) -> None:
    """C12: a valid message with changed, missing or added bytes is decoded or refused."""
    version = data.draw(st.sampled_from(cls.versions))
    wire = encode(data.draw(messages(cls, version)), version)
    place = data.draw(st.integers(0, len(wire)))
    wire[place : place + data.draw(st.integers(0, 2))] = data.draw(
        st.sampled_from([b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff\x0f"])
    )
    try:
        decode(cls, version, bytes(wire))
    except DecodeError:
        pass


@pytest.mark.parametrize("pair", every_version(), ids=label)
def test_a_message_cut_anywhere_is_refused(pair: tuple[type[Any], int]) -> None:
    """C12: no prefix of a message passes for a message."""
    cls, version = pair
    wire = bytes(encode(cls(), version))
    for size in range(len(wire)):
        with pytest.raises(DecodeError):
            decode(cls, version, wire[:size])


def test_nine_bytes_cannot_make_the_decoder_allocate_gigabytes() -> None:
    """C12: a count is compared with the bytes that remain before anything is allocated."""
    with pytest.raises(DecodeError, match="topics"):
        decode(MetadataRequest, 12, bytes.fromhex("ffffffff0f00000000"))


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_hostile_lengths_allocate_next_to_nothing(cls: type[Any]) -> None:
    """C12: huge lengths at any place of a message cost its sender's connection, not our memory."""
    wires = {v: bytes(encode(sample(cls, v), v)) for v in (cls.versions[0], cls.versions[-1])}
    for version, wire in wires.items():
        decode(cls, version, wire)  # compiled before memory is counted
    tracemalloc.start()
    for version, wire in wires.items():
        for place in range(len(wire)):
            for hostile in (b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff"):
                with contextlib.suppress(DecodeError):
                    decode(cls, version, wire[:place] + hostile + wire[place + len(hostile) :])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_a_count_of_two_billion_is_refused(version: int) -> None:
    count = b"\xff\xff\xff\xff\x07" if version >= 9 else b"\x7f\xff\xff\xff"
    with pytest.raises(DecodeError):
        decode(MetadataRequest, version, count + bytes(60))


def test_an_endless_variable_length_integer_is_refused() -> None:
    with pytest.raises(DecodeError, match="five bytes"):
        decode(MetadataRequest, 12, b"\xff" * 40)


def test_unknown_tagged_fields_are_skipped() -> None:
    """C12: a newer client's tagged fields do not disturb an older broker (KIP-482)."""
    wire = encode(ApiVersionsRequest("lib", "1"), 3)
    assert wire.endswith(b"\0")
    wire[-1:] = b"\x02" + b"\x63\x03abc" + b"\xe8\x07\x00"
    assert decode(ApiVersionsRequest, 3, wire) == ApiVersionsRequest("lib", "1")


def test_an_unknown_tag_beside_known_ones_is_skipped() -> None:
    request = FetchRequest(cluster_id="c", replica_state=ReplicaState(3, 4))
    wire = encode(request, 15)
    tags = wire.index(b"\x02\x00\x02\x02c")
    wire[tags] = 3
    wire += b"\x32\x01z"
    assert decode(FetchRequest, 15, wire) == request


def test_a_tagged_field_shorter_than_its_size_is_refused() -> None:
    wire = encode(FetchRequest(cluster_id="c"), 15)
    tags = wire.index(b"\x01\x00\x02\x02c")
    wire[tags + 2 : tags + 5] = b"\x03\x02cc"
    with pytest.raises(DecodeError, match="cluster_id"):
        decode(FetchRequest, 15, wire)


def test_bytes_after_a_message_are_ignored_as_kafka_does() -> None:
    """C12: what librdkafka 2.16 sends to list all topics ends with three bytes too many."""
    sent = bytes.fromhex("00000000010000")
    assert decode(MetadataRequest, 13, sent) == MetadataRequest(
        topics=None, allow_auto_topic_creation=False
    )


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode(ApiVersionsRequest, 3, b"\x02\xff\x021\x00")


def test_null_is_refused_where_the_version_has_none() -> None:
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(DecodeError):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    with pytest.raises(DecodeError):
        decode(MetadataRequest, 1, b"\xff\xff\xff\xfe")


def test_null_is_not_encoded_where_the_version_has_none() -> None:
    with pytest.raises(ValueError, match="MetadataRequest v0"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(ValueError, match="MetadataResponse v9"):
        encode(MetadataResponse(topics=[MetadataResponseTopic(name=None)]), 9)


def test_a_nullable_struct_is_preceded_by_a_sign() -> None:
    request = DescribeTopicPartitionsRequest([TopicRequest("t")], 1, cursor=None)
    assert encode(request, 0).hex() == "0202740000000001ff00"
    request.cursor = Cursor("t", 7)
    assert encode(request, 0).hex() == "0202740000000001010274000000070000"
    assert decode(DescribeTopicPartitionsRequest, 0, encode(request, 0)) == request


def test_records_are_not_copied() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(0, b"r" * 99)])]
    )
    wire = memoryview(bytes(encode(request, 9)))
    records = decode(ProduceRequest, 9, wire).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is wire.obj
    assert records == b"r" * 99


def test_a_message_is_read_from_a_position() -> None:
    request = MetadataRequest([MetadataRequestTopic(name="t")])
    assert decode(MetadataRequest, 1, b"head" + encode(request, 1), 4) == request


def test_a_value_that_the_version_cannot_carry_is_our_bug() -> None:
    with pytest.raises(ValueError, match="version 3 has no MetadataRequest"):
        encode(MetadataRequest(allow_auto_topic_creation=False), 3)


def test_an_ignorable_value_is_dropped_in_versions_without_it() -> None:
    response = MetadataResponse(throttle_time_ms=9, cluster_id="c", controller_id=1)
    assert encode(response, 0) == bytes(8)


def test_a_number_out_of_range_is_our_bug() -> None:
    with pytest.raises(ValueError, match="FetchResponse v4"):
        encode(FetchResponse(throttle_time_ms=2**40), 4)


@pytest.mark.parametrize("version", [-1, 14, 99])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(DecodeError, match="no version"):
        decode(MetadataRequest, version, b"")
    with pytest.raises(ValueError, match="no version"):
        encode(MetadataRequest(), version)


def test_defaults_are_those_of_the_schema() -> None:
    commit = OffsetCommitRequest()
    assert (commit.generation_id_or_member_epoch, commit.retention_time_ms) == (-1, -1)
    assert MetadataRequest().allow_auto_topic_creation is True
    assert MetadataResponseTopic().topic_authorized_operations == -(2**31)
    assert decode(MetadataResponse, 0, bytes(8)).cluster_id is None


class Everything(Struct):
    """A message with the types that few real messages have."""

    versions: ClassVar[range] = range(2)
    flexible_since: ClassVar[int | None] = 1

    small: Annotated[int, Wire("uint16")] = 0
    large: Annotated[int, Wire("uint32")] = 0
    ratio: Annotated[float, Wire("float64")] = 0.0
    ids: Annotated[list[bytes] | None, Wire("[]uuid", nullable="0+")] = None
    flags: Annotated[list[bool], Wire("[]bool")] = field(default_factory=list)
    blobs: Annotated[list[bytes], Wire("[]bytes")] = field(default_factory=list)
    moved: Annotated[int, Wire("int8", tag=0, tagged="1+")] = 5


@pytest.mark.parametrize("version", [0, 1])
def test_rare_types_come_back_from_their_bytes(version: int) -> None:
    message = Everything(65535, 2**32 - 1, -0.5, [bytes(16)], [True, False], [b"", b"x"], 6)
    wire = encode(message, version)
    assert wire.hex() == "".join(
        [
            "ffff" "ffffffff" "bfe0000000000000",
            ("02" if version else "00000001") + "00" * 16,
            ("03" if version else "00000002") + "0100",
            ("03" "01" "0278") if version else ("00000002" "00000000" "00000001" "78"),
            "01" "00" "01" "06" if version else "06",
        ]
    )  # fmt: skip
    assert decode(Everything, version, wire) == message


def test_importing_one_api_imports_no_other() -> None:
    program = (
        "import sys, chordmq.codecs.kafka.header, chordmq.codecs.kafka.messages.heartbeat\n"
        "print(*(m for m in sys.modules if m.startswith('chordmq.codecs.kafka.messages.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["chordmq.codecs.kafka.messages.heartbeat"]

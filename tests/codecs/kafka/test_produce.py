"""The hand-written Produce codec agrees with the generated one, and survives garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.kafka import produce
from chordmq.codecs.kafka.leader_hints import Hint, NodeAddress
from chordmq.codecs.kafka.messages import produce as messages
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.errors import DecodeError

VERSIONS = list(range(3, 14))
TOPIC_ID = bytes(range(16))


def generated(version: int) -> messages.ProduceRequest:
    by_id = version >= produce.TOPIC_IDS_SINCE
    return messages.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            messages.TopicProduceData(
                name="" if by_id else "telemetry",
                topic_id=TOPIC_ID if by_id else bytes(16),
                partition_data=[
                    messages.PartitionProduceData(index=3, records=b"batch three"),
                    messages.PartitionProduceData(index=4, records=None),
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_read_as_the_generated_codec_writes_them(version: int) -> None:
    """C1: every version of Produce, without copying the records."""
    frame = memoryview(bytearray(encode(generated(version), version)))
    request = produce.read_request(frame, 0, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 30_000)
    rows = [(row.topic, row.topic_id, row.index) for row in request.partitions]
    by_id = version >= produce.TOPIC_IDS_SINCE
    topic = ("", TOPIC_ID) if by_id else ("telemetry", b"")
    assert rows == [(*topic, 3), (*topic, 4)]
    records = request.partitions[0].records
    assert records is not None
    assert bytes(records) == b"batch three"
    assert records.obj is frame.obj
    assert request.partitions[1].records is None


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_read_by_the_generated_codec(version: int) -> None:
    """C1: every version of the Produce response."""
    by_id = version >= produce.TOPIC_IDS_SINCE
    topic = ("", TOPIC_ID) if by_id else ("telemetry", b"")
    answers = [
        produce.PartitionAnswer(*topic, 0, 0, 500, 1234, 17),
        produce.PartitionAnswer(*topic, 1, 10, message="too large"),
    ]
    response = decode(
        messages.ProduceResponse, version, bytes(produce.write_response(answers, version))
    )
    [rows] = [topic.partition_responses for topic in response.responses]
    assert [(r.index, r.error_code, r.base_offset) for r in rows] == [(0, 0, 500), (1, 10, -1)]
    assert rows[0].log_append_time_ms == 1234
    if version >= 5:
        assert rows[0].log_start_offset == 17
    if version >= 8:
        assert [row.error_message for row in rows] == [None, "too large"]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_garbage_raises_decode_error_and_nothing_else(version: int, data: st.DataObject) -> None:
    """C12: a malformed Produce request is refused, whatever is wrong with it."""
    frame = bytearray(encode(generated(version), version))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    try:
        produce.read_request(memoryview(frame)[:cut], 0, version)
    except DecodeError:
        pass


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_who_leads_is_read_by_the_generated_codec(version: int) -> None:
    """C1: hints of KIP-951."""
    answer = produce.PartitionAnswer("", bytes(range(16)), 0, 6, leader=Hint(3, 9))
    nodes = [NodeAddress(3, "kafka.example", 9092, "rack-1")]
    body = bytes(produce.write_response([answer], version, nodes))
    response = decode(messages.ProduceResponse, version, body)
    leader = response.responses[0].partition_responses[0].current_leader
    told = [(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
    if version >= 10:
        assert (leader.leader_id, leader.leader_epoch) == (3, 9)
        assert told == [(3, "kafka.example", 9092, "rack-1")]
    else:
        assert told == []

"""The hand-written Fetch response is what the generated codec reads."""

import pytest

from chordmq.codecs.kafka.fetch import PartitionRecords, TopicRecords, write_response
from chordmq.codecs.kafka.leader_hints import Hint, NodeAddress
from chordmq.codecs.kafka.messages.fetch import FetchResponse
from chordmq.codecs.kafka.schema import decode

TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_read_by_the_generated_codec(version: int) -> None:
    """C1: Fetch answers of all versions, with records, errors and aborted transactions."""
    name = "" if version >= 13 else "telemetry"
    topics = [
        TopicRecords(
            name,
            TOPIC_ID if version >= 13 else bytes(16),
            [
                PartitionRecords(0, 0, 9, 8, 2, [memoryview(b"one"), memoryview(b"two")], [(5, 6)]),
                PartitionRecords(1, 3),
            ],
        )
    ]
    body = b"".join(write_response(topics, version, session_id=77))
    response = decode(FetchResponse, version, body)
    [topic] = response.responses
    first, second = topic.partitions
    assert (topic.topic, topic.topic_id) == (topics[0].topic, topics[0].topic_id)
    assert first.records is not None
    assert bytes(first.records) == b"onetwo"
    assert (first.high_watermark, first.last_stable_offset) == (9, 8)
    assert first.aborted_transactions is not None
    assert [(a.producer_id, a.first_offset) for a in first.aborted_transactions] == [(5, 6)]
    assert (second.partition_index, second.error_code) == (1, 3)
    assert second.records is not None
    assert not bytes(second.records)
    if version >= 7:
        assert response.session_id == 77


def test_records_pass_through_without_a_copy() -> None:
    """C6: the bytes of the log go to the socket as they are."""
    stored = memoryview(b"as stored")
    out = write_response(
        [TopicRecords("t", bytes(16), [PartitionRecords(0, buffers=[stored])])], 12
    )
    assert any(part is stored for part in out)


@pytest.mark.parametrize("version", [11, 12, 15, 16, 18])
def test_who_leads_and_who_is_nearer_is_read_by_the_generated_codec(version: int) -> None:
    """C1: hints of KIP-951 and preferred replicas of KIP-392."""
    rows = [PartitionRecords(0, 6, leader=Hint(3, 9)), PartitionRecords(1, preferred_replica=2)]
    topic_id = TOPIC_ID if version >= 13 else bytes(16)
    nodes = [NodeAddress(3, "kafka.example", 9092), NodeAddress(2, "h", 1, "rack-1")]
    body = write_response([TopicRecords("", topic_id, rows)], version, nodes=nodes)
    response = decode(FetchResponse, version, b"".join(body))
    first, second = response.responses[0].partitions
    assert second.preferred_read_replica == 2
    if version >= 12:
        assert (first.current_leader.leader_id, first.current_leader.leader_epoch) == (3, 9)
    told = [(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
    expected = [(3, "kafka.example", 9092, None), (2, "h", 1, "rack-1")]
    assert told == (expected if version >= 16 else [])

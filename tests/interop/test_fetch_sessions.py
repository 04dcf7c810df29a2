"""Fetch by session (KIP-227), by topic id and with leader epochs, as current consumers do."""

import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.interop.conftest import CreateTopic
from tests.wire import FETCH, OFFSET_FOR_LEADER_EPOCH, Wire, record_batch, stored

FULL, CLOSE = 0, -1


class Session:
    """A consumer's fetch session by topic id, in the version of the Java client's time."""

    def __init__(self, wire: Wire, topic_id: uuid.UUID) -> None:
        self.wire = wire
        self.topic_id = topic_id
        self.id = 0

    def fetch(
        self,
        epoch: int,
        offsets: dict[int, int],
        forgotten: tuple[int, ...] = (),
        max_wait: int = 0,
    ) -> Any:
        """Send one request of the session that names only what changed."""
        partitions = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
            for index, offset in offsets.items()
        ]
        left = [{"topic_id": self.topic_id, "partitions": list(forgotten)}] if forgotten else []
        topics = [{"topic_id": self.topic_id, "partitions": partitions}] if offsets else []
        answer = self.wire.call(
            FETCH, 17, max_wait=max_wait, min_bytes=1, max_bytes=10_000_000, session_id=self.id,
            session_epoch=epoch, topics=topics, forgotten_topics_data=left,
        )  # fmt: skip
        if epoch == FULL:
            self.id = answer.session_id
        return answer

    def rows(self, answer: Any) -> dict[int, list[tuple[int, bytes | None]]]:
        """Return the records of each partition that the answer names."""
        assert answer.error_code is ErrorCode.none
        return {
            row.partition_index: stored(row.records)
            for topic in answer.responses
            for row in topic.partitions
        }


def produce(wire: Wire, topic: str, partition: int, value: bytes) -> None:
    partitions = [{"index": partition, "records": record_batch([value])}]
    topics = [{"name": topic, "partition_data": partitions}]
    answer = wire.call(0, 9, acks=-1, timeout=10_000, topic_data=topics)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_an_incremental_answer_names_only_what_changed(
    wire: Wire, address: tuple[str, int], create_topic: CreateTopic
) -> None:
    """C1, C6: partitions are remembered, moved on and forgotten by the session."""
    topic = create_topic(partitions=3)
    session = Session(wire, wire.topic_id(topic))
    assert session.rows(session.fetch(FULL, {0: 0, 1: 0, 2: 0})) == {0: [], 1: [], 2: []}
    assert session.id != 0
    assert session.rows(session.fetch(1, {})) == {}
    with Wire(address) as other:
        produce(other, topic, 1, b"one")
        assert session.rows(session.fetch(2, {}, max_wait=10_000)) == {1: [(0, b"one")]}
        assert session.rows(session.fetch(3, {1: 1})) == {}
        produce(other, topic, 0, b"zero")
        produce(other, topic, 2, b"two")
        both = session.rows(session.fetch(4, {}, forgotten=(2,), max_wait=10_000))
        assert both == {0: [(0, b"zero")]}


def test_a_parked_incremental_fetch_wakes(
    wire: Wire, address: tuple[str, int], create_topic: CreateTopic
) -> None:
    """C6: also for a partition that only the session knows."""
    topic = create_topic()
    session = Session(wire, wire.topic_id(topic))
    session.fetch(FULL, {0: 0})
    parked = wire.send(
        FETCH, 17, max_wait=60_000, min_bytes=1, max_bytes=1_000_000, session_id=session.id,
        session_epoch=1,
    )  # fmt: skip
    assert not wire.has_answer(within_s=0.2)
    with Wire(address) as other:
        produce(other, topic, 0, b"wake")
    assert session.rows(wire.receive(FETCH, 17, parked)) == {0: [(0, b"wake")]}


def test_a_session_that_is_not_there_is_an_error(wire: Wire, create_topic: CreateTopic) -> None:
    """C12: the client then begins a new one; a skipped epoch is an error too."""
    topic = create_topic()
    session = Session(wire, wire.topic_id(topic))
    session.id = 123_456
    assert session.fetch(1, {}).error_code is ErrorCode.fetch_session_id_not_found
    session.id = 0
    session.fetch(FULL, {0: 0})
    assert session.fetch(5, {}).error_code is ErrorCode.invalid_fetch_session_epoch


def test_a_closed_session_is_gone(wire: Wire, create_topic: CreateTopic) -> None:
    """C1: epoch -1 answers once more in full and ends the session."""
    topic = create_topic()
    session = Session(wire, wire.topic_id(topic))
    session.fetch(FULL, {0: 0})
    last = session.fetch(CLOSE, {0: 0})
    assert (last.error_code, last.session_id) == (ErrorCode.none, 0)
    assert session.fetch(1, {}).error_code is ErrorCode.fetch_session_id_not_found


def test_an_unknown_topic_id_is_an_error_of_its_row(wire: Wire) -> None:
    """C12: UNKNOWN_TOPIC_ID, so that a client of a deleted and recreated topic asks again."""
    session = Session(wire, uuid.uuid4())
    answer = session.fetch(CLOSE, {0: 0})
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_both_isolation_levels_see_plain_records(
    wire: Wire, create_topic: CreateTopic, isolation_level: int
) -> None:
    """C1: without transactions the last stable offset is the high watermark."""
    topic = create_topic()
    wire.produce(topic, record_batch([b"v"]))
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    answer = wire.call(
        FETCH, 11, replica_id=-1, max_bytes=1000, session_epoch=-1,
        isolation_level=isolation_level, topics=[{"topic": topic, "partitions": partitions}],
    )  # fmt: skip
    row = answer.responses[0].partitions[0]
    assert (row.high_watermark, row.last_stable_offset) == (1, 1)
    assert stored(row.records) == [(0, b"v")]


def test_a_leader_epoch_of_the_future_is_refused(wire: Wire, create_topic: CreateTopic) -> None:
    """C12: KIP-320, in Fetch and in OffsetForLeaderEpoch."""
    topic = create_topic()
    wire.produce(topic, record_batch([b"a", b"b"]))

    def end_of(current: int, asked: int) -> tuple[ErrorCode, int, int]:
        rows = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": asked}]
        topics = [{"topic": topic, "partitions": rows}]
        answer = wire.call(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
        row = answer.topics[0].partitions[0]
        return row.error_code, row.leader_epoch, row.end_offset

    assert end_of(-1, 0) == (ErrorCode.none, 0, 2)
    assert end_of(99, 0)[0] is ErrorCode.unknown_leader_epoch
    assert end_of(-1, 99) == (ErrorCode.none, -1, -1)
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    partitions = [{**row, "current_leader_epoch": 99}]
    answer = wire.call(
        FETCH, 11, replica_id=-1, max_bytes=1000, session_epoch=-1,
        topics=[{"topic": topic, "partitions": partitions}],
    )  # fmt: skip
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch

"""How long records stay in memory and on disk, as the topic's creator said."""

import time
from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from tests.conftest import StartNode
from tests.running_node import RunningNode
from tests.wire import CREATE_TOPICS, FIRST_TIME_MS, INIT_PRODUCER_ID, Wire, record_batch, stored

DEADLINE_S = 60.0
NEW_PRODUCER = {"transaction_timeout": 10_000, "producer_id": -1, "producer_epoch": -1}
VALUES = [(offset, b"%d" % offset) for offset in range(10)]


@pytest.fixture
def hasty(start_node: StartNode) -> RunningNode:
    """Give a node that looks after its logs ten times a second."""
    return start_node({"broker.log.retention.check.interval.ms": "100"})


def filled_topic(wire: Wire, name: str, settings: dict[str, str], time_ms: int) -> None:
    """Create a topic with settings of its own and write ten records of that time to it."""
    configs = [{"name": setting, "value": value} for setting, value in settings.items()]
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
    created = wire.call(CREATE_TOPICS, 5, topics=[wanted], timeout=10_000)
    assert created.topics[0].error_code is ErrorCode.none
    for _, value in VALUES:
        answer = wire.produce(name, record_batch([value], timestamp_ms=time_ms))
        assert answer.error_code is ErrorCode.none


def test_records_past_their_time_in_memory_are_served_from_disk(
    hasty: RunningNode, name: str
) -> None:
    """A6: the reader sees no difference."""
    with Wire(hasty.address) as wire:
        filled_topic(wire, name, {"memory.retention.ms": "1000"}, time.time_ns() // 1_000_000)
        assert stored(wire.fetch(name, 0).records) == VALUES
        wait_until(lambda: hasty.metric("chordmq_tail_bytes") == 0)
        assert stored(wire.fetch(name, 0).records) == VALUES


def test_records_past_their_retention_are_deleted_from_disk(hasty: RunningNode, name: str) -> None:
    """A6, C7: the log then begins behind them, and its offsets go on."""
    with Wire(hasty.address) as wire:
        filled_topic(wire, name, {"retention.ms": "60000"}, FIRST_TIME_MS)
        # Retention may have come before the last of them was written.
        wait_until(lambda: wire.fetch(name, 10).log_start_offset == 10)
        assert wire.fetch(name, 0).error_code is ErrorCode.offset_out_of_range
        now_ms = time.time_ns() // 1_000_000
        assert wire.produce(name, record_batch([b"new"], timestamp_ms=now_ms)).base_offset == 10
        assert stored(wire.fetch(name, 10).records) == [(10, b"new")]


def test_a_retry_is_recognised_whatever_time_its_records_carry(
    hasty: RunningNode, name: str
) -> None:
    """C3: a producer of old records is no old producer; how long it is idle is for our clock."""
    two_days_ago_ms = time.time_ns() // 1_000_000 - 2 * 86_400_000
    with Wire(hasty.address) as wire:
        filled_topic(wire, name, {"retention.ms": "-1"}, two_days_ago_ms)
        batch = record_batch(
            [b"once"],
            producer_id=wire.call(INIT_PRODUCER_ID, 4, **NEW_PRODUCER).producer_id,
            producer_epoch=0,
            base_sequence=0,
            timestamp_ms=two_days_ago_ms,
        )
        assert wire.produce(name, batch).base_offset == 10
        # The node has looked after all its logs when it has deleted what is old elsewhere.
        for round_ in ("-a", "-b"):
            filled_topic(wire, name + round_, {"retention.ms": "60000"}, two_days_ago_ms)
            wait_until(lambda: wire.fetch(name + round_, 0).error_code is not ErrorCode.none)  # noqa: B023
        assert wire.produce(name, batch).base_offset == 10
        assert wire.fetch(name, 0).high_watermark == 11


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"

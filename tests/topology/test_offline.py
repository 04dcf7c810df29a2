"""A leaf that was away while much has passed catches up, and its siblings do not notice; slow."""

import os
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conftest import StartNode
from tests.running_node import RunningNode
from tests.topology.test_pipes import arrived, call, publish, until

BYTES = int(os.environ.get("CHORDMQ_OFFLINE_BYTES", str(64 << 20)))
"""What passes meanwhile; the whole proof is with 1 GiB (1073741824)."""
SIZE = 1000
LIVE_MAX = 500


def leaf(root: RunningNode, directory: Path) -> RunningNode:
    settings = {"pipes.parent": root.http, "pipes.topics": "bulk,live",
                "pipes.topics_interval_s": "1"}  # fmt: skip
    return RunningNode(directory, settings)


def end_of(node: RunningNode, topic: str) -> int:
    topic_ = call(node, "GET", f"/v1/topics/{topic}")
    return sum(row["end_offset"] for row in topic_["partitions"])


def fill(root: RunningNode, count: int) -> None:
    producer = Producer({"bootstrap.servers": root.bootstrap, "linger.ms": 20})
    for number in range(count):
        producer.produce("bulk", b"%0*d" % (SIZE, number))
        if number % 1000 == 0:
            producer.poll(0)
            while len(producer) > 50_000:
                producer.poll(0.1)
    assert producer.flush(300) == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_leaf_that_was_away_catches_up_while_its_sibling_stays_current(
    start_node: StartNode, tmp_path: Path
) -> None:
    """D12: store and forward; live records reach the sibling all the while."""
    root = start_node()
    for topic in ("bulk", "live"):
        body = {"name": topic, "partitions": 2 if topic == "live" else 1,
                "settings": {"flush": "os"}}  # fmt: skip
        call(root, "POST", "/v1/topics", body)
    sibling, away = leaf(root, tmp_path / "sibling"), leaf(root, tmp_path / "away")
    try:
        sibling.start()
        away.start()
        publish(root, "live", range(2))
        until(lambda: arrived(away, "live", 2), "the leaf has begun")
        away.kill9()
        count = BYTES // SIZE
        fill(root, count)
        away.start()
        waits_s = []
        for number in range(2, LIVE_MAX):
            publish(root, "live", range(number, number + 1))
            began_s = time.monotonic()
            until(lambda end=number + 1: end_of(sibling, "live") >= end, "live")  # type: ignore[misc]
            waits_s.append(time.monotonic() - began_s)
            if end_of(away, "bulk") >= count:
                break
        until(lambda: end_of(away, "bulk") >= count, "the leaf is current")
        assert end_of(away, "bulk") == count
        until(lambda: end_of(away, "live") == end_of(root, "live"), "in all topics")
        print(f"{len(waits_s)} live records, at most {max(waits_s):.3f} s late at the sibling")
    finally:
        sibling.close()
        away.close()

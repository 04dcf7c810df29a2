"""The numbers of the Kafka front on a real node."""

import struct
import urllib.request

from tests.running_node import RunningNode
from tests.wire import METADATA, Wire, framed


def metrics(node: RunningNode) -> dict[str, float]:
    with urllib.request.urlopen(f"{node.http}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.split()[-1]) for line in lines if line[0] != "#"}


def test_requests_connections_and_bytes_are_counted(own_node: RunningNode) -> None:
    """C15, C11: connections are tracked, requests counted by API."""
    before = metrics(own_node)
    with Wire(own_node.address) as wire:
        for _ in range(3):
            wire.call(METADATA, 4, topics=None)
        after = metrics(own_node)
    assert after['chordmq_kafka_requests_total{api="Metadata"}'] == 3
    assert after['chordmq_kafka_request_failures_total{api="Metadata"}'] == 0
    assert after['chordmq_kafka_busy_seconds_total{api="Metadata"}'] > 0
    assert after['chordmq_connections{listener="kafka"}'] == 1
    assert before['chordmq_connections{listener="kafka"}'] == 0
    assert after['chordmq_connections_accepted_total{listener="kafka"}'] == 1
    assert after["chordmq_kafka_bytes_in_total"] > before["chordmq_kafka_bytes_in_total"]
    assert after["chordmq_kafka_bytes_out_total"] > before["chordmq_kafka_bytes_out_total"]


def test_a_malformed_request_is_counted_as_a_failure(own_node: RunningNode) -> None:
    """C12, C15: it ends only its own connection, and is seen."""
    with Wire(own_node.address) as wire:
        head = struct.pack(">hhihb", METADATA, 12, 1, -1, 0)
        wire.socket.sendall(framed(head + b"\xff" * 5))
        assert wire.is_closed_by_peer()
    assert metrics(own_node)['chordmq_kafka_request_failures_total{api="Metadata"}'] == 1

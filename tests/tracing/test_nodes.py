"""A message that goes from node to node leaves spans of all of them in one trace."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.cluster.running_cluster import RunningCluster, place
from tests.tracing.collector import Collector, attributes
from tests.tracing.traces import new_trace, span_in


@pytest.fixture
def cluster(collector: Collector, tmp_path: Path) -> Iterator[RunningCluster]:
    settings = {"tracing.endpoint": collector.endpoint, "broker.default.replication.factor": "2"}
    with RunningCluster(tmp_path, 2, settings) as running:
        yield running


def numbers(span: Span) -> dict[str, int]:
    return {one.key: one.value.int_value for one in span.attributes}


def test_a_message_is_seen_where_it_was_sent_where_it_is_led_and_where_it_is_copied(
    cluster: RunningCluster, collector: Collector, name: str
) -> None:
    """C15: requests between nodes and replication have spans in the trace of the client."""
    leader, other = 1, 2
    place(cluster, name, [[leader, other]])
    trace, parent = new_trace()
    httpx.post(
        f"{cluster.nodes[other].http}/v1/topics/{name}/records",
        json={"value": "1"}, headers={"traceparent": parent}, timeout=60,
    ).raise_for_status()  # fmt: skip
    request = span_in(collector, trace, "POST")
    asked = span_in(collector, trace, "ask")
    served = span_in(collector, trace, "serve")
    assert asked.parent_span_id == request.span_id
    assert served.parent_span_id == asked.span_id
    assert numbers(asked)["chordmq.peer"] == leader
    assert numbers(served)["chordmq.peer"] == other
    assert attributes(asked)["rpc.method"] == attributes(served)["rpc.method"] == "APPEND"
    for operation in ("publish", "replicate"):
        span = span_in(collector, trace, operation)
        assert span.parent_span_id.hex() == parent.split("-")[2]
        assert span.name == f"{operation} {name}"
    asked_for = {span.name for span in list(collector.spans) if span.name.startswith("ask ")}
    assert not asked_for & {"ask PING", "ask RING"}, "they are asked all the time"

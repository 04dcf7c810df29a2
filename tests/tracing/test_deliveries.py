"""What reaches consumers has spans in the traces of its producers, over every protocol."""

import httpx
import pytest

from tests.interop.doors.door import Sample
from tests.interop.test_matrix import DOORS
from tests.running_node import RunningNode
from tests.tracing.collector import Collector, attributes
from tests.tracing.traces import new_trace, produce, span_in, spans_in


def create(node: RunningNode, topic: str, **settings: str) -> None:
    body = {"name": topic, "partitions": 1, "settings": settings}
    httpx.post(f"{node.http}/v1/topics", json=body, timeout=60).raise_for_status()


@pytest.mark.interop
def test_a_delivery_has_a_span_in_the_trace_of_its_producer(
    traced_node: RunningNode, collector: Collector, name: str
) -> None:
    """C15: whoever looks at a message's trace sees that it was handed out, over any protocol."""
    traces = {}
    for receiver, door in DOORS.items():
        topic = f"{name}-{receiver}"
        traces[topic], parent = new_trace()
        create(traced_node, topic)
        produce(traced_node, topic, parent)
        door.consume(traced_node, topic, 1)
    for topic, trace in traces.items():
        span = span_in(collector, trace, "deliver")
        assert attributes(span)["messaging.destination.name"] == topic
        assert span.parent_span_id == span_in(collector, trace, "publish").parent_span_id


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_what_a_fetch_hands_out_is_linked_to_it(
    traced_node: RunningNode, collector: Collector, name: str, compression: str
) -> None:
    """C15: from the delivery of one message to the request that took it along with others."""
    trace, parent = new_trace()
    create(traced_node, name, **{"compression.type": compression})
    produce(traced_node, name, parent, parent)
    DOORS["kafka"].consume(traced_node, name, 2)
    span = span_in(collector, trace, "deliver")
    request = collector.wait_for_id(span.links[0].span_id)
    assert request.name == "Fetch"
    assert request.start_time_unix_nano <= span.start_time_unix_nano


@pytest.mark.interop
@pytest.mark.parametrize("receiver", ["kafka", "mqtt"])
def test_a_trace_that_is_not_recorded_gets_no_spans(
    traced_node: RunningNode, collector: Collector, name: str, receiver: str
) -> None:
    """C15: who begins a trace decides whether it is recorded; the others are not touched."""
    unrecorded, silent = new_trace(is_sampled=False)
    recorded, parent = new_trace()
    create(traced_node, name)
    produce(traced_node, name, silent, parent)
    DOORS["kafka"].produce(traced_node, name, Sample(b"key", b"value", (), 1_700_000_000_000))
    DOORS[receiver].consume(traced_node, name, 3)
    span_in(collector, recorded, "deliver")
    assert not [span for span in list(collector.spans) if span.trace_id == unrecorded]
    assert len(spans_in(collector, recorded, "publish")) == 1

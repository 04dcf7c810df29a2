"""Traces that clients begin, and the spans of nodes in them."""

import secrets

from confluent_kafka import Producer
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.running_node import RunningNode
from tests.tracing.collector import Collector
from tests.waiting import wait_until


def new_trace(*, is_sampled: bool = True) -> tuple[bytes, str]:
    """Return the id of a trace, and how a client tells of it."""
    trace, span = secrets.token_bytes(16), secrets.token_bytes(8)
    return trace, f"00-{trace.hex()}-{span.hex()}-{is_sampled:02d}"


def spans_in(collector: Collector, trace: bytes, operation: str) -> list[Span]:
    """Return the spans of an operation on messages that a trace has so far."""
    return [
        span
        for span in list(collector.spans)
        if span.trace_id == trace and span.name.startswith(f"{operation} ")
    ]


def span_in(collector: Collector, trace: bytes, operation: str) -> Span:
    """Return the first of them, once it has been told."""
    wait_until(lambda: bool(spans_in(collector, trace, operation)))
    return spans_in(collector, trace, operation)[0]


def produce(node: RunningNode, topic: str, *parents: str) -> None:
    """Send one message in each trace."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for parent in parents:
        producer.produce(topic, b"1", partition=0, headers={"traceparent": parent})
    assert producer.flush(60) == 0

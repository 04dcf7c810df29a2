"""Spans of a real node and a real application reach a collector, in the traces of their clients."""

import asyncio
import json
import urllib.request
from typing import Any

import paho.mqtt.client as paho
import pika
from confluent_kafka import Consumer
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from chordmq.client.app import ConsumerApp
from chordmq.client.consumer import Message
from chordmq.tracing.settings import TracingSettings
from tests.running_node import RunningNode
from tests.tracing.collector import Collector, attributes
from tests.tracing.traces import new_trace, produce, span_in
from tests.waiting import wait_until


def post(url: str, body: dict[str, str], **headers: str) -> None:
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json", **headers}
    )
    urllib.request.urlopen(request, timeout=60).close()


def headers_of(node: RunningNode, topic: str) -> dict[str, Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(60)
    assert message is not None
    consumer.close()
    return dict(message.headers() or [])


def test_kafka_requests_and_what_they_publish_have_spans(
    traced_node: RunningNode, collector: Collector, name: str
) -> None:
    """C15: Produce and Fetch as spans, publications in the trace that their records carry."""
    trace, parent = new_trace()
    produce(traced_node, name, parent)
    span = span_in(collector, trace, "publish")
    assert span.parent_span_id.hex() == parent.split("-")[2]
    assert attributes(span)["messaging.destination.name"] == name
    request = collector.wait_for_id(span.links[0].span_id)
    assert request.name == "Produce"
    assert request.start_time_unix_nano <= span.start_time_unix_nano
    assert span.end_time_unix_nano >= span.start_time_unix_nano
    assert headers_of(traced_node, name) == {"traceparent": parent.encode()}
    assert attributes(collector.wait_for("Fetch")[0])["chordmq.front"] == "kafka"
    assert "test" in collector.services


def test_http_continues_a_trace_and_hands_it_to_the_records(
    traced_node: RunningNode, collector: Collector, name: str
) -> None:
    """C15: HTTP requests as spans; a record published over HTTP carries the request's trace."""
    trace, parent = new_trace()
    post(f"{traced_node.http}/v1/topics", {"name": name})
    post(f"{traced_node.http}/v1/topics/{name}/records", {"value": "1"}, traceparent=parent)
    assert span_in(collector, trace, "publish").parent_span_id.hex() == parent.split("-")[2]
    (span,) = collector.wait_for("POST /v1/topics/{topic}/records")
    assert span.trace_id == trace
    assert headers_of(traced_node, name) == {"traceparent": parent.encode()}


def test_mqtt_and_amqp_publications_have_spans(
    traced_node: RunningNode, collector: Collector, name: str
) -> None:
    """C15: a trace that begins in an MQTT or AMQP client goes on in the node."""
    trace, parent = new_trace()
    client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
    client.connect(*traced_node.mqtt_address)
    client.loop_start()
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("traceparent", parent)]
    client.publish(f"{name}/a", b"1", qos=1, properties=properties).wait_for_publish(60)
    client.disconnect()
    client.loop_stop()
    assert span_in(collector, trace, "publish").parent_span_id.hex() == parent.split("-")[2]

    trace, parent = new_trace()
    host, port = traced_node.amqp_address
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    told = pika.BasicProperties(headers={"traceparent": parent}, delivery_mode=2)
    channel.basic_publish("", name, b"1", told)
    connection.close()
    assert span_in(collector, trace, "publish").parent_span_id.hex() == parent.split("-")[2]


async def test_processing_a_message_has_a_span_in_the_trace_that_it_carries(
    node: RunningNode, collector: Collector, name: str
) -> None:
    """C15: the consumer application goes on with the trace of the producer; failures are marked."""
    trace, parent = new_trace()
    await asyncio.to_thread(produce, node, name, parent)
    app = ConsumerApp()
    seen: list[Message] = []

    @app.consumer(name, group=name)
    def take(message: Message) -> None:
        seen.append(message)
        app.stop()

    app.tracing = TracingSettings(endpoint=collector.endpoint).open()
    assert app.tracing is not None
    await app.serve(node.bootstrap)
    await app.tracing.close()
    assert len(seen) == 1
    (span,) = collector.wait_for(f"process {name}")
    assert (span.trace_id, span.parent_span_id.hex()) == (trace, parent.split("-")[2])


def test_latencies_come_with_a_trace_to_look_at(
    traced_node: RunningNode, collector: Collector, name: str
) -> None:
    """C15: exemplars in the OpenMetrics form of /metrics."""
    produce(traced_node, name, new_trace()[1])
    request = urllib.request.Request(
        f"{traced_node.http}/metrics",
        headers={"Accept": "application/openmetrics-text; version=1.0.0"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    parsed = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    families = {one.name: one for one in parsed}
    shown = {
        sample.exemplar.labels["trace_id"]
        for sample in families["chordmq_request_seconds"].samples
        if sample.exemplar and sample.labels["operation"] == "Produce"
    }
    assert shown
    wait_until(lambda: shown <= {span.trace_id.hex() for span in list(collector.spans)})


async def test_a_collector_that_is_gone_does_not_keep_anybody() -> None:
    tracing = TracingSettings(endpoint="http://127.0.0.1:1").open()
    assert tracing is not None
    tracing.end(tracing.begin("kafka", "Produce", 0.0), 1.0)
    await tracing.close()

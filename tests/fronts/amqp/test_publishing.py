"""X1, A3: queues and exchanges over topics that other fronts use, and those topics' fate."""

import time
from typing import Any

import httpx
import paho.mqtt.publish
from confluent_kafka import Consumer, Producer, TopicPartition

from chordmq.codecs.amqp.content import (
    HEADER_NAME,
    Envelope,
    new_properties,
    write_envelope,
)
from tests.fronts.amqp.client import (
    TIMEOUT_S,
    connected,
    count,
    publish,
    take,
    wait_for,
    wait_until_stored,
)
from tests.running_node import RunningNode


def produce(node: RunningNode, topic: str, key: str | None, value: str, **headers: str) -> None:
    """Produce a record with librdkafka."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, value, key, headers=list(headers.items()))
    assert producer.flush(TIMEOUT_S) == 0


def read(node: RunningNode, topic: str, wanted: int) -> list[Any]:
    """Read records with librdkafka."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": topic})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return list(consumer.consume(wanted, TIMEOUT_S))
    finally:
        consumer.close()


def topics(node: RunningNode) -> set[str]:
    """Return the names of all topics."""
    return {one["name"] for one in httpx.get(f"{node.http}/v1/topics", timeout=60).json()["topics"]}


def test_a_topic_is_an_exchange_and_its_keys_are_routing_keys(node: RunningNode, name: str) -> None:
    """X1: Kafka's records come to the queues that are bound to the exchange of the topic's name."""
    with connected(node) as channel:
        channel.exchange_declare(name, "topic", durable=True)
        for queue, pattern in (("all", "#"), ("eu", "eu.*")):
            channel.queue_declare(f"{name}.{queue}", durable=True)
            channel.queue_bind(f"{name}.{queue}", name, pattern)
        produce(node, name, "eu.order", "one", trace="t1")
        produce(node, name, "us.order", "two")
        wait_for(channel, f"{name}.all", 2)
        method, properties, body = channel.basic_get(f"{name}.eu")
        assert (method.exchange, method.routing_key, body) == (name, "eu.order", b"one")
        assert properties.headers["trace"] == "t1"
        assert [body for body, _ in take(channel, f"{name}.all", 2)] == ["one", "two"]
        assert count(channel, f"{name}.eu") == 0


def test_kafka_reads_what_is_published_to_an_exchange_once_for_all_queues(
    node: RunningNode, name: str
) -> None:
    """X1: ten queues, one record."""
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.exchange_declare(name, "fanout", durable=True)
        for number in range(10):
            channel.queue_declare(f"{name}.{number}", durable=True)
            channel.queue_bind(f"{name}.{number}", name)
        publish(channel, name, "key", "one", "two")
        for number in range(10):
            assert [body for body, _ in take(channel, f"{name}.{number}", 2)] == ["one", "two"]
    found = read(node, name, 2)
    assert [(one.key(), one.value(), one.offset()) for one in found] == [
        (b"key", b"one", 0),
        (b"key", b"two", 1),
    ]


def test_a_queue_gets_what_others_put_into_the_topic_of_its_name(
    node: RunningNode, name: str
) -> None:
    """X1, A3: records over HTTP and Kafka, shared by the consumers of a queue."""
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True)
        publish(channel, "", name, "amqp")
        produce(node, name, None, "kafka")
        url = f"{node.http}/v1/topics/{name}/records"
        assert httpx.post(url, json={"value": "http"}, timeout=60).status_code in (200, 201)
        assert [body for body, _ in take(channel, name, 3)] == ["amqp", "kafka", "http"]
    assert [one.value() for one in read(node, name, 3)] == [b"amqp", b"kafka", b"http"]


def test_mqtt_and_amq_topic_share_their_names(node: RunningNode, name: str) -> None:
    """X1, E2: `a/b/c` in MQTT is `a.b.c` in amq.topic, with the wildcards of each."""
    host, port = node.mqtt_address
    with connected(node) as channel:
        channel.queue_declare(name, exclusive=True)
        channel.queue_bind(name, "amq.topic", f"{name}.devices.*.temperature")
        paho.mqtt.publish.single(
            f"{name}/devices/d1/temperature", "20", qos=1, hostname=host, port=port
        )
        paho.mqtt.publish.single(
            f"{name}/devices/d1/humidity", "50", qos=1, hostname=host, port=port
        )
        channel.confirm_delivery()
        publish(channel, "amq.topic", f"{name}.devices.d2.temperature", "21")
        wait_for(channel, name, 2)
        method, _, body = channel.basic_get(name)
        assert (method.routing_key, body) == (f"{name}.devices.d1.temperature", b"20")
        assert take(channel, name, 1)[0][0] == "21"
    records = read(node, f"{name}.devices", 3)
    assert {one.key() for one in records} == {b"d1", b"d2"}
    names = {dict(one.headers())["chordmq.topic"] for one in records}
    assert f"{name}/devices/d2/temperature".encode() in names


def test_a_queue_begins_at_the_end_of_a_topic_unless_told_otherwise(
    node: RunningNode, name: str
) -> None:
    """A3: x-stream-offset says where: first, last, next or an offset."""
    for value in "abc":
        produce(node, name, None, value)
    expected: dict[Any, list[str]] = {None: [], "next": [], "last": ["c"], "first": ["a", "b", "c"]}
    expected[1] = ["b", "c"]
    with connected(node) as channel:
        for start, found in expected.items():
            arguments = {} if start is None else {"x-stream-offset": start}
            channel.queue_declare(name, durable=True, arguments=arguments)
            assert count(channel, name) == len(found)
            assert [body for body, _ in take(channel, name, len(found))] == found
            channel.queue_delete(name)
    assert name in topics(node)  # another front made it


def test_topics_that_were_made_for_queues_and_exchanges_go_with_them(
    node: RunningNode, name: str
) -> None:
    """E4: what a queue still holds of a deleted exchange stays until it is consumed."""
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.exchange_declare(f"{name}.e", "fanout", durable=True)
        channel.queue_declare(f"{name}.q", durable=True)
        channel.queue_bind(f"{name}.q", f"{name}.e")
        publish(channel, f"{name}.e", "", "kept")
        publish(channel, "", f"{name}.q", "own")
        assert {f"{name}.e", f"{name}.q"} <= topics(node)
        channel.exchange_delete(f"{name}.e")
        assert {body for body, _ in take(channel, f"{name}.q", 2)} == {"kept", "own"}
        wait_until_stored(node)
        channel.queue_delete(f"{name}.q")
        deadline = time.monotonic() + TIMEOUT_S
        while topics(node) & {f"{name}.e", f"{name}.q"}:
            assert time.monotonic() < deadline


def test_a_backlog_longer_than_memory_keeps_its_order(node: RunningNode, name: str) -> None:
    """E4, A5: 10,000 messages wait, 4,096 of them in memory."""
    with connected(node) as channel:
        channel.queue_declare(name, durable=True)
        for number in range(10_000):
            channel.basic_publish("", name, str(number).encode())
        wait_for(channel, name, 10_000)
        channel.basic_qos(prefetch_count=1000)
        found = []
        for method, _, body in channel.consume(name, inactivity_timeout=TIMEOUT_S):
            found.append(int(body))
            if len(found) % 500 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if len(found) == 10_000:
                break
        assert found == list(range(10_000))
        channel.cancel()
        assert count(channel, name) == 0


def test_a_forged_envelope_reaches_no_queue_of_another_topic(node: RunningNode, name: str) -> None:
    """E13: who may write to one topic must not get at queues that it does not belong to."""
    envelope = Envelope("/", "", f"{name}.victim", new_properties({}, 0))
    header = write_envelope(2**62, envelope)
    with connected(node) as channel:
        for queue in (f"{name}.own", f"{name}.victim"):
            channel.queue_declare(queue, durable=True)
        producer = Producer({"bootstrap.servers": node.bootstrap})
        producer.produce(f"{name}.own", "forged", headers=[(HEADER_NAME, header)])
        assert producer.flush(TIMEOUT_S) == 0
        produce(node, f"{name}.own", None, "honest")
        assert take(channel, f"{name}.own", 1) == [("honest", False)]
        assert count(channel, f"{name}.victim") == 0


def test_what_was_there_before_a_queue_stays_out_of_it_after_a_crash(
    own_node: RunningNode,
) -> None:
    """A5: a queue begins where it was declared, also when the node is killed right after."""
    with connected(own_node) as channel:
        channel.exchange_declare("watched", "fanout", durable=True)
        for number in range(3):
            produce(own_node, "watched", None, f"early {number}")
        channel.queue_declare("late", durable=True)
        channel.queue_bind("late", "watched")
        produce(own_node, "watched", None, "in time")
        wait_for(channel, "late", 1)
        own_node.restart()
    with connected(own_node) as channel:
        wait_for(channel, "late", 1)
        assert take(channel, "late", 1)[0][0] == "in time"

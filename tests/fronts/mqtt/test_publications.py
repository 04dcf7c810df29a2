"""What MQTT clients publish, and what subscribers and Kafka's consumers get of it."""

import time

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from chordmq.codecs.mqtt.properties import Properties
from tests.fronts.mqtt.client import PUBACK, PUBREC, PUBREL, packet
from tests.fronts.mqtt.conftest import Connect
from tests.running_node import RunningNode

VERSIONS = pytest.mark.parametrize("version", [4, 5])


def consumed(node: RunningNode, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "mqtt-tests"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while len(found) < count:
            more = consumer.consume(count - len(found), 60)
            assert more, "no message came"
            found += more
        return found
    finally:
        consumer.close()


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_a_message_arrives_with_the_lower_qos(
    connect: Connect, name: str, version: int, qos: int, wanted: int
) -> None:
    """E3: QoS 0, 1 and 2 both ways, in both versions."""
    reader, writer = connect(version=version), connect(version=version)
    assert reader.subscribe(f"{name}/a/#", qos=wanted) == [wanted]
    assert writer.publish(f"{name}/a/b", b"hello", qos) in (0, 0x10)
    found = reader.message()
    assert found[:5] == (f"{name}/a/b", b"hello", min(qos, wanted), False, False)


def test_thousands_of_messages_of_one_read_keep_their_order(connect: Connect, name: str) -> None:
    """E3: runs of packets in one read, of two topics that change."""
    reader, writer = connect(version=4), connect(version=4)
    reader.subscribe(f"{name}/#", qos=1)
    for number in range(3000):
        writer.post(f"{name}/{number // 7 % 2}/x", b"%d" % number, number // 5 % 2)
    got: dict[str, list[int]] = {}
    for _ in range(3000):
        message = reader.message()
        got.setdefault(f"{message.topic} {message.qos}", []).append(int(message.payload))
    assert sum(map(len, got.values())) == 3000
    assert all(numbers == sorted(numbers) for numbers in got.values())


def test_a_kafka_consumer_sees_key_name_and_properties(
    node: RunningNode, connect: Connect, name: str
) -> None:
    """E2, X1: the third level is the key; the whole name and all properties are headers."""
    properties = Properties(
        content_type="text/plain",
        response_topic="answers/here",
        correlation_data=b"\x00\x01",
        payload_format=1,
        user=(("trace", "7"), ("trace", "8")),
    )
    writer = connect()
    assert writer.publish(f"{name}/devices/d7/t", b"21.5", 1, properties=properties) == 0
    [record] = consumed(node, f"{name}.devices", 1)
    assert (record.key(), record.value()) == (b"d7", b"21.5")
    assert record.headers() == [
        ("chordmq.topic", f"{name}/devices/d7/t".encode()),
        ("chordmq.payload-format", b"1"),
        ("content-type", b"text/plain"),
        ("response-topic", b"answers/here"),
        ("correlation-data", b"\x00\x01"),
        ("trace", b"7"),
        ("trace", b"8"),
    ]


def test_properties_reach_subscribers_unchanged(connect: Connect, name: str) -> None:
    """E3: MQTT-3.3.2-4, -15 to -18, -20: and through the log as well as past it."""
    properties = Properties(
        content_type="text/plain",
        response_topic="answers/here",
        correlation_data=b"\x00\x01",
        payload_format=1,
        user=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    reader, writer = connect(f"{name}-r", properties=Properties(session_expiry_s=60)), connect()
    reader.subscribe(f"{name}/a/#", qos=1)
    writer.publish(f"{name}/a/b", b"live", 1, properties=properties)
    assert reader.message().properties == properties
    reader.disconnect()
    writer.publish(f"{name}/a/b", b"missed", 1, properties=properties)
    again = connect(f"{name}-r", clean=False, properties=Properties(session_expiry_s=60))
    found = again.message()
    assert (found.payload, found.properties) == (b"missed", properties)


def test_a_kafka_record_reaches_subscribers(node: RunningNode, connect: Connect, name: str) -> None:
    """X1: a record's topic and key are its name; its headers are user properties."""
    reader = connect()
    reader.subscribe(f"{name}/orders/#", qos=2)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"1"), ("raw", b"\xff\x00")]
    producer.produce(f"{name}.orders", key=b"k1", value=b"v1", headers=headers)
    assert producer.flush(60) == 0
    found = reader.message()
    assert (found.topic, found.payload, found.qos) == (f"{name}/orders/k1", b"v1", 1)
    assert found.properties.user == (("trace", "1"), ("raw;base64", "/wA="))


def test_two_subscriptions_bring_one_copy_with_both_identifiers(
    connect: Connect, name: str
) -> None:
    """E3: MQTT-3.3.4-2, -4: the highest QoS, and all identifiers."""
    reader, writer = connect(), connect()
    reader.subscribe(f"{name}/a/#", qos=0, properties=Properties(subscription_ids=(7,)))
    reader.subscribe(f"{name}/+/b", qos=1, properties=Properties(subscription_ids=(200_000,)))
    writer.publish(f"{name}/a/b", b"one", 1)
    found = reader.message()
    assert (found.qos, sorted(found.properties.subscription_ids)) == (1, [7, 200_000])
    assert reader.is_quiet()


def test_no_local_and_retain_as_published(connect: Connect, name: str) -> None:
    """E3: MQTT-3.8.3-3 and MQTT-3.3.1-12, -13."""
    client, other = connect(f"{name}-c"), connect()
    client.subscribe(f"{name}/a/b", options=4)
    other.subscribe(f"{name}/a/b", options=8)
    client.publish(f"{name}/a/b", b"own", 1, retain=True)
    assert other.message()[1:4] == (b"own", 0, True)
    other.publish(f"{name}/a/b", b"others'", 1, retain=True)
    assert client.message()[1:4] == (b"others'", 0, False)
    client.publish(f"{name}/a/b", b"", 1, retain=True)


@pytest.mark.parametrize("is_followed", [True, False])
def test_no_local_holds_for_messages_sent_just_before(
    connect: Connect, name: str, is_followed: bool
) -> None:
    """E3: MQTT-3.8.3-3, whether or not they are stored together with those of others."""
    own, other = connect(f"{name}-c"), connect()
    own.publish(f"{name}/a/b", b"makes the topic", 1)
    if is_followed:
        other.subscribe(f"{name}/a/#")
    other.post(f"{name}/a/b", b"before")
    own.post(f"{name}/a/b", b"own")
    own.subscribe(f"{name}/a/#", qos=1, options=4)
    other.publish(f"{name}/a/b", b"after", 1)
    found = own.message().payload
    if found == b"before":
        found = own.message().payload
    assert found == b"after"


def test_a_repeated_message_of_qos_2_counts_once(connect: Connect, name: str) -> None:
    """E3: MQTT-4.3.3-10: until PUBREL, the same number is the same message."""
    reader, writer = connect(), connect()
    reader.subscribe(f"{name}/a/b", qos=2)
    writer.post(f"{name}/a/b", b"once", 2, id=5)
    assert writer.answer(PUBREC, 5) == 0
    writer.post(f"{name}/a/b", b"once", 2, id=5, duplicate=True)
    assert writer.answer(PUBREC, 5) == 0
    writer.send(packet(0x62, b"\0\x05"))
    assert writer.answer(7, 5) == 0
    writer.publish(f"{name}/a/b", b"another", 2, id=5)
    assert reader.messages(2) == [b"once", b"another"]


def test_an_unknown_number_is_answered_with_its_reason(connect: Connect) -> None:
    """E3: PUBREL and PUBREC for numbers that nobody knows."""
    client = connect()
    client.send(packet(0x62, b"\0\x09"))
    assert client.answer(7, 9) == 0x92
    client.send(packet(0x50, b"\0\x09"))
    assert client.answer(PUBREL, 9) == 0x92


def test_answers_come_in_the_order_of_the_messages(connect: Connect, name: str) -> None:
    """E3: MQTT-4.6.0-2: also where messages go to different log topics."""
    writer = connect()
    numbers = [writer.post(f"{name}/{one % 5}/x", b"x", 1) for one in range(60)]
    assert [writer.answer(PUBACK, number) for number in numbers] == [0] * 60


def test_a_message_expires(connect: Connect, name: str) -> None:
    """E3: MQTT-3.3.2-5, -6: what waits too long is not delivered; else the rest is told."""
    reader, writer = connect(f"{name}-r", properties=Properties(session_expiry_s=60)), connect()
    reader.subscribe(f"{name}/a/#", qos=1)
    reader.disconnect()
    writer.publish(f"{name}/a/1", b"soon", 1, properties=Properties(message_expiry_s=1))
    writer.publish(f"{name}/a/2", b"late", 1, properties=Properties(message_expiry_s=1000))
    time.sleep(1.2)  # what is to be shown is that time passes
    again = connect(f"{name}-r", clean=False, properties=Properties(session_expiry_s=60))
    found = again.message()
    assert found.payload == b"late"
    assert found.properties.message_expiry_s in range(900, 1000)


def test_topic_aliases_work_both_ways(connect: Connect, name: str) -> None:
    """E3: MQTT-3.3.2-7 to -12."""
    reader = connect(properties=Properties(topic_alias_maximum=1))
    writer = connect()
    reader.subscribe(f"{name}/a/#")
    alias = Properties(topic_alias=3)
    writer.post(f"{name}/a/b", b"1", properties=alias)
    writer.post("", b"2", properties=alias)
    writer.post(f"{name}/a/c", b"3", properties=alias)
    writer.post("", b"4", properties=alias)
    found = [reader.message() for _ in range(4)]
    assert [(one.topic, one.payload) for one in found] == [
        (f"{name}/a/b", b"1"), ("", b"2"), (f"{name}/a/c", b"3"), (f"{name}/a/c", b"4"),
    ]  # fmt: skip
    assert [one.properties.topic_alias for one in found] == [1, 1, None, None]


@pytest.mark.parametrize("alias", [0, 33])
def test_an_alias_out_of_range_ends_the_connection(connect: Connect, name: str, alias: int) -> None:
    """E3: MQTT-3.3.2-8, -9."""
    client = connect()
    client.post(f"{name}/a", b"", properties=Properties(topic_alias=alias))
    assert client.ending() == 0x94


def test_an_unknown_alias_ends_the_connection(connect: Connect) -> None:
    """E3: a topic must be named once."""
    client = connect()
    client.post("", b"", properties=Properties(topic_alias=1))
    assert client.ending() in (0x82, 0x94)


def test_more_than_the_receive_maximum_ends_the_connection(connect: Connect, name: str) -> None:
    """E3: MQTT-3.3.4-9: 100 messages of QoS 2 may be without PUBREL."""
    client = connect()
    for number in range(1, 102):
        client.post(f"{name}/a", b"", 2, id=number)
    assert client.ending() == 0x93


def test_the_clients_receive_maximum_is_kept(connect: Connect, name: str) -> None:
    """E3: MQTT-3.3.4-9 of the server: no more than asked for is on its way."""
    reader = connect(properties=Properties(receive_maximum=3))
    writer = connect()
    reader.subscribe(f"{name}/a/#", qos=1)
    for number in range(10):
        writer.publish(f"{name}/a/b", b"%d" % number, 1)
    first = [reader.message(answers=False) for _ in range(3)]
    assert reader.is_quiet()
    for message in first:
        reader.send(packet(0x40, message.id.to_bytes(2, "big")))
    assert reader.messages(7) == [b"%d" % number for number in range(3, 10)]


def test_a_packet_that_is_too_large_for_the_client_is_not_sent(connect: Connect, name: str) -> None:
    """E3: MQTT-3.1.2-24, -25: it counts as delivered."""
    reader = connect(properties=Properties(maximum_packet_size=200, receive_maximum=1))
    writer = connect()
    reader.subscribe(f"{name}/a/#", qos=1)
    for size in (300, 50, 400, 60):
        writer.publish(f"{name}/a/b", b"x" * size, 1)
    assert [len(payload) for payload in reader.messages(2)] == [50, 60]


def test_names_that_no_log_topic_can_have(connect: Connect, name: str) -> None:
    """E2: any name of MQTT arrives under itself."""
    reader, writer = connect(), connect()
    names = [f"{name}ü", f"{name}.with.dots", f"/{name}/", f"{name}//x", f"{name}/a b/c"]
    for one in names:
        reader.subscribe(one, qos=1)
        assert writer.publish(one, b"x", 1) == 0
        assert reader.message().topic == one


@pytest.mark.parametrize("topic", ["$SYS/broker/version", "$share/g/x", "$queue/q", "$stream/s"])
def test_reserved_names_cannot_be_published_to(connect: Connect, topic: str) -> None:
    """E3: MQTT-4.7.2: the broker's own names."""
    assert connect().publish(topic, b"x", 1) == 0x87


def test_internal_topics_cannot_be_published_to(connect: Connect) -> None:
    assert connect().publish("__consumer_offsets", b"x", 1) >= 0x80


def test_everything_read_before_a_disconnect_is_stored(
    node: RunningNode, connect: Connect, name: str
) -> None:
    """E3: a clean goodbye discards nothing."""
    writer = connect(version=4)
    writer.publish(f"{name}/a", b"first", 1)
    one = packet(0x30, b"\0" + bytes((len(name) + 2,)) + f"{name}/a".encode() + b"x")
    writer.send(one * 2000 + b"\xe0\0")
    writer.wait_for_end()
    assert len(consumed(node, f"{name}.a", 2001)) == 2001


def test_a_large_message_passes(connect: Connect, name: str) -> None:
    """E3: over many reads, and back."""
    reader, writer = connect(), connect()
    reader.subscribe(f"{name}/a", qos=1)
    payload = bytes(range(256)) * 3500
    writer.publish(f"{name}/a", payload, 1)
    assert reader.message().payload == payload


def test_a_message_too_large_for_its_topic_is_refused(connect: Connect, name: str) -> None:
    """E3: the reason is told, and the connection stays."""
    writer = connect()
    assert writer.publish(f"{name}/a", b"x" * 2_000_000, 1) >= 0x80
    assert writer.publish(f"{name}/a", b"small", 1) == 0

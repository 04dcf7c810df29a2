"""Messages of AMQP 1.0 as those of 0-9-1, and back."""

import uuid
from typing import Any

import pytest

from chordmq.broker.queues.translation import message_of, message_of_record, properties_of
from chordmq.codecs.amqp.content import Envelope, Properties, from_names, to_names
from chordmq.codecs.amqp1.sections import (
    BodyKind,
    Head,
    Message,
    MessageHeader,
    MessageProperties,
    read_head,
    read_header,
    write_head,
    write_kept,
)
from chordmq.codecs.amqp1.values import Opaque, Symbol, Timestamp
from chordmq.records.record import Record


def translated(
    header: MessageHeader | None = None,
    said: MessageProperties | None = None,
    application: dict[str, Any] | None = None,
    kind: BodyKind = BodyKind.DATA,
) -> dict[str, Any]:
    """Return what 0-9-1 sees of a message."""
    head = write_head(Head({}, said or MessageProperties(), application or {}))
    raw = header.to_bytes() if header is not None else b""
    return to_names(properties_of(raw, head, kind, None))


def test_each_property_has_its_place() -> None:
    said = MessageProperties(
        message_id=uuid.UUID(int=1),
        user_id=b"anna",
        subject="s",
        reply_to="/queues/a%2Fb",
        correlation_id=7,
        content_type=Symbol("t/p"),
        content_encoding=Symbol("gzip"),
        creation_time=Timestamp(1_500),
        group_id="g",
    )
    header = MessageHeader(durable=True, priority=5, ttl=100)
    assert translated(header, said) == {
        "message_id": str(uuid.UUID(int=1)),
        "user_id": "anna",
        "type": "s",
        "reply_to": "a/b",
        "correlation_id": "7",
        "content_type": "t/p",
        "content_encoding": "gzip",
        "timestamp": 1,
        "app_id": "g",
        "delivery_mode": 2,
        "priority": 5,
        "expiration": "100",
        "headers": {"timestamp_in_ms": 1_500},
    }


def test_values_that_tables_do_not_have_become_those_that_they_have() -> None:
    application: dict[str, Any] = {
        "uuid": uuid.UUID(int=2),
        "large": 2**64 - 1,
        "time": Timestamp(5_000),
        "decimal": Opaque(0x74, b"\0\0\0\1"),
        "bytes": b"\xff",
        "list": [1, "a"],
        "symbol": Symbol("s"),
        "x" * 300: "dropped",
    }
    found = translated(application=application)["headers"]
    assert (found["uuid"], found["large"]) == (str(uuid.UUID(int=2)), str(2**64 - 1))
    assert found["time"].timestamp() == 5
    assert bytes(found["decimal"]) == b"\0\0\0\1"
    assert (bytes(found["bytes"]), found["list"], found["symbol"]) == (b"\xff", [1, "a"], "s")
    assert "x" * 300 not in found


def test_bodies_that_0_9_1_cannot_have_are_marked() -> None:
    assert translated(kind=BodyKind.SECTIONS)["type"] == "amqp-1.0"
    assert translated(kind=BodyKind.NULL)["headers"] == {"chordmq.null": True}
    assert "message_id" not in translated(said=MessageProperties(message_id="m" * 256))


def test_the_way_back() -> None:
    properties = from_names(
        {
            "headers": {"a": 1, "list": [1], "x-death": [{"count": 1}], "BCC": ["k"]},
            "delivery_mode": 2,
            "expiration": "60000",
            "reply_to": "a/b c",
            "timestamp": 5,
            "user_id": "anna",
        }
    )
    message = message_of(Envelope("/", "e", "key", properties), b"body")
    header, head = read_header(message.header), read_head(message.head)
    assert (header.durable, header.ttl, message.kind) == (True, 60_000, BodyKind.DATA)
    assert (head.properties.subject, head.properties.reply_to) == ("key", "a/b c")
    assert (head.properties.creation_time, head.properties.user_id) == (5_000, b"anna")
    assert head.application == {"a": 1}
    assert head.annotations == {"x-opt-list": [1], "x-death": [{"count": 1}]}


def test_a_message_of_1_0_is_given_back_as_it_was() -> None:
    kept = Message(b"", b"\x00\x53\x73\xc0\x04\x01\xa1\x01m", BodyKind.TEXT, b"body", b"")
    envelope = Envelope("/", "", "q", Properties(b"\0\0"), write_kept(kept))
    assert message_of(envelope, b"body") == kept


@pytest.mark.parametrize("name", ["chordmq.amqp1", "chordmq.amqp"])
def test_a_record_that_only_claims_to_be_a_message_is_a_plain_record(name: str) -> None:
    """C12: any client can write such a header."""
    record = Record(0, 1_700, b"k", b"v", ((name, b"\xff\xff"),))
    message = message_of_record("/", "topic", record)
    assert (message.kind, message.body) == (BodyKind.DATA, b"v")
    assert read_head(message.head).properties.subject == "k"

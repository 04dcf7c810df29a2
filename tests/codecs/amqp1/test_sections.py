"""The sections of a message against proton's: what is kept, and what changes on its way."""

import uuid
from typing import Any

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.amqp1.sections import (
    BodyKind,
    read_head,
    read_header,
    read_kept,
    split_message,
    write_body,
    write_head,
    write_kept,
    write_message,
)
from chordmq.codecs.amqp1.values import symbol, ulong
from chordmq.errors import DecodeError

RICH: dict[str, Any] = {
    "id": uuid.UUID(int=5),
    "user_id": b"anna",
    "address": "/queues/q",
    "subject": "s",
    "reply_to": "r",
    "correlation_id": 7,
    "content_type": proton.symbol("text/plain"),
    "expiry_time": 5.0,
    "creation_time": 12.5,
    "group_id": "g",
    "group_sequence": 3,
    "durable": True,
    "priority": 7,
    "ttl": 3.5,
    "annotations": {proton.symbol("x-a"): 1},
    "properties": {"a": 1, "b": "x", "c": 2.5, "d": None},
}


def encoded(**fields: Any) -> bytes:
    """Return a message as proton writes it."""
    return bytes(proton.Message(**fields).encode())


def decoded(data: bytes) -> Any:
    """Return a message as proton reads it."""
    message = proton.Message()
    message.decode(data)
    return message


@pytest.mark.parametrize(
    ("fields", "kind", "body"),
    [
        ({"body": b"x", "inferred": True}, BodyKind.DATA, b"x"),
        ({"body": b"y" * 300, "inferred": True}, BodyKind.DATA, b"y" * 300),
        ({"body": "ü"}, BodyKind.TEXT, "ü".encode()),
        ({"body": "z" * 300}, BodyKind.TEXT, b"z" * 300),
        ({"body": b"x"}, BodyKind.BINARY, b"x"),
        ({"body": None}, BodyKind.NULL, b""),
        ({"body": 5}, BodyKind.SECTIONS, b"\x00\x53\x77\x55\x05"),
        ({"body": {"a": [1, None]}}, BodyKind.SECTIONS, None),
        ({"body": [1, "a"], "inferred": True}, BodyKind.SECTIONS, None),
    ],
)
def test_a_body_is_plain_bytes_wherever_it_can_be(
    fields: dict[str, Any], kind: BodyKind, body: bytes | None
) -> None:
    message = split_message(encoded(**fields))
    assert message.kind is kind
    assert body is None or message.body == body
    back = decoded(write_body(message.kind, message.body))  # which holds the memory of its body
    assert (bytes(back.body) if isinstance(back.body, memoryview) else back.body) == fields["body"]


def test_nothing_of_a_message_is_lost_in_a_record() -> None:
    """E4: the bare message stays as it was, bit by bit."""
    data = encoded(body={"k": "v"}, **RICH)
    message = split_message(data)
    kept = read_kept(write_kept(message), message.body)
    assert kept == message
    assert kept.header + kept.head + write_body(kept.kind, kept.body) + kept.footer == data


def test_what_a_message_says_of_itself_is_read() -> None:
    message = split_message(encoded(body="b", **RICH))
    header, head = read_header(message.header), read_head(message.head)
    assert (header.durable, header.priority, header.ttl) == (True, 7, 3500)
    said = head.properties
    assert (said.message_id, said.user_id, said.to) == (uuid.UUID(int=5), b"anna", "/queues/q")
    assert (said.subject, said.creation_time, said.group_sequence) == ("s", 12500, 3)
    assert head.annotations == {"x-a": 1}
    assert head.application == RICH["properties"]
    assert decoded(write_head(head) + b"\x00\x53\x77\x40").properties == RICH["properties"]


@pytest.mark.parametrize("fields", [{}, RICH])
def test_a_delivery_says_how_often_it_failed_and_where_it_came_from(fields: Any) -> None:
    message = split_message(encoded(body="b", **fields))
    annotations = symbol("x-offset") + ulong(7)
    found = decoded(write_message(message, annotations, 2, is_first=False))
    assert (found.delivery_count, found.first_acquirer, found.body) == (2, False, "b")
    assert found.annotations == fields.get("annotations", {}) | {"x-offset": 7}
    assert found.properties == fields.get("properties", found.properties)
    assert decoded(write_message(message, b"")).first_acquirer


@pytest.mark.parametrize("count", [1, 30])
def test_annotations_keep_their_types_beside_those_of_the_node(count: int) -> None:
    """E4: Qpid JMS knows kinds of messages by an annotation that must be a byte."""
    own: dict[Any, Any] = {
        proton.symbol(f"x-opt-{number}"): proton.byte(number) for number in range(count)
    }
    own[proton.symbol("x-offset")] = proton.short(5)  # what another node has said
    message = split_message(encoded(body="b", annotations=own))
    found = decoded(write_message(message, symbol("x-offset") + ulong(7))).annotations
    assert found == own | {"x-offset": 7}
    assert all(type(found[f"x-opt-{number}"]) is proton.byte for number in range(count))
    assert type(found["x-offset"]) is proton.ulong


DATA = b"\x00\x53\x75\xa0\x01x"


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"\x00\x53\x79\x45" + DATA,
        DATA + b"\x00\x53\x70\x45",
        DATA + b"\x00\x53\x77\x40",
        b"\x00\x53\x77\x40\x00\x53\x77\x40",
        b"\x00\x53\x75\xa1\x01x",
        b"\x00\x53\x75\xa0\x05x",
        b"\x00\x40\x40",
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        split_message(data)


@pytest.mark.parametrize(
    "head", [b"\x00\x53\x73\x40", b"\x00\x53\x74\x45", b"\x00\x53\x73\xc0\x02\x0f@"]
)
def test_properties_that_are_none_are_refused(head: bytes) -> None:
    with pytest.raises(DecodeError):
        read_head(head)


@given(st.binary(max_size=80))
def test_garbage_is_a_message_or_refused(data: bytes) -> None:
    try:
        message = split_message(data)
        read_header(message.header)
        read_head(message.head)
    except DecodeError:
        return
    assert read_kept(write_kept(message), message.body) == message


@given(st.binary(max_size=20))
def test_what_is_kept_can_only_be_refused(data: bytes) -> None:
    try:
        read_kept(data, b"body")
    except DecodeError:
        return

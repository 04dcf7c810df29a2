"""Packets as the node sends them, byte by byte."""

from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.properties import PUBACK, PUBREL, Properties
from chordmq.codecs.mqtt.reasons import Reason


def test_connack_of_both_versions() -> None:
    assert writer.connack(4, Reason.SUCCESS, has_session=True) == b"\x20\x02\x01\x00"
    assert writer.connack(4, Reason.NOT_AUTHORIZED) == b"\x20\x02\x00\x05"
    assert writer.connack(4, Reason.QUOTA_EXCEEDED) == b"\x20\x02\x00\x03"
    told = writer.connack(5, Reason.SUCCESS, properties=Properties(receive_maximum=100))
    assert told == b"\x20\x06\x00\x00\x03\x21\x00\x64"


def test_acknowledgements() -> None:
    assert writer.pubacks([b"\0\1", b"\0\2"]) == b"\x40\x02\0\1\x40\x02\0\2"
    assert writer.ack(PUBACK, 1, 5) == b"\x40\x02\0\1"
    assert writer.ack(PUBACK, 1, 5, Reason.NOT_AUTHORIZED) == b"\x40\x03\0\1\x87"
    assert writer.ack(PUBREL, 1, 5, Reason.PACKET_IDENTIFIER_NOT_FOUND) == b"\x62\x03\0\1\x92"
    assert writer.ack(PUBREL, 1, 4, Reason.PACKET_IDENTIFIER_NOT_FOUND) == b"\x62\x02\0\1"


def test_suback_of_both_versions() -> None:
    assert writer.suback(9, [1, 0x87], 4) == b"\x90\x04\0\x09\1\x80"
    assert writer.suback(9, [1, 0x87], 5) == b"\x90\x05\0\x09\0\1\x87"
    assert writer.unsuback(9, [0, 0x11], 4) == b"\xb0\x02\0\x09"
    assert writer.unsuback(9, [0, 0x11], 5) == b"\xb0\x05\0\x09\0\0\x11"


def test_messages_one_after_another() -> None:
    assert writer.publish_all(0x30, b"\0\1a", [b"x", b"yz"]) == b"\x30\4\0\1ax\x30\5\0\1ayz"
    found = writer.publish_each(0x32, (b"\0\1a", b"\0"), [1, 300], [b"x", b""])
    assert found == b"\x32\7\0\1a\0\1\0x\x32\6\0\1a\x01\x2c\0"
    found = writer.publish_each_to([b"\0\1a", b"\0\2bc"], [1, 300], [b"x", b""], b"\0")
    assert found == b"\x32\7\0\1a\0\1\0x\x32\7\0\2bc\x01\x2c\0"
    large = writer.publish_all(0x30, b"\0\1a", [b"x" * 20_000])
    assert large[:4] == b"\x30\xa3\x9c\x01"
    assert writer.publish_size(3, 20_000) == len(large)


def test_goodbye() -> None:
    assert writer.disconnect(Reason.SESSION_TAKEN_OVER) == b"\xe0\x02\x8e\0"
    assert writer.auth(0x18, Properties(authentication_method="m")) == b"\xf0\x06\x18\x04\x15\0\1m"

"""Packets as clients send them: whole, in pieces, in runs, and broken at every byte."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.codecs.mqtt.packets import (
    Ack,
    Acks,
    Auth,
    Connect,
    Disconnect,
    Options,
    Packet,
    Ping,
    Publish,
    Run,
    Subscribe,
    Unsubscribe,
    Will,
)
from chordmq.codecs.mqtt.properties import NONE, Properties, write_properties
from chordmq.codecs.mqtt.reader import RUN_BYTES_MAX, PacketReader
from chordmq.codecs.mqtt.reasons import Reason

SIZE_MAX = 1 << 20
CONNECT_311 = bytes.fromhex("100d00044d51545404020000000161")
CONNECT_5 = bytes.fromhex("100e00044d5154540502000000000161")
# CONNECT of MQTT 5 with a will, a user, a password and properties, byte by byte.
FULL_CONNECT = bytes.fromhex(
    "103a 00044d515454 05 e6 000a 08 1100000005 21000a 0003616263"
    "05 1800000007 0001 77 0002 6f6b 0005 616c696365 0006 736563726574".replace(" ", "")
)


def reader(version: int = 5) -> PacketReader:
    """Return a reader of a client that is let in."""
    ready = PacketReader(SIZE_MAX)
    ready.receive(CONNECT_5 if version == 5 else CONNECT_311)
    assert ready.version == version
    return ready


def packet(first: int, body: bytes) -> bytes:
    size, out = len(body), bytearray((first,))
    while True:
        out.append(size & 0x7F | (0x80 if size > 0x7F else 0))
        size >>= 7
        if not size:
            return bytes(out) + body


def text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()


def publish(topic: str, payload: bytes, qos: int = 0, number: int = 0, version: int = 5) -> bytes:
    identifier = struct.pack(">H", number) if qos else b""
    return packet(0x30 | qos << 1, text(topic) + identifier + b"\0" * (version == 5) + payload)


def test_connect_of_both_versions() -> None:
    assert PacketReader(SIZE_MAX).receive(CONNECT_311) == [
        Connect(version=4, clean_start=True, keep_alive_s=0, client_id="a")
    ]
    assert PacketReader(SIZE_MAX).receive(CONNECT_5) == [
        Connect(version=5, clean_start=True, keep_alive_s=0, client_id="a")
    ]


def test_connect_with_everything() -> None:
    data = FULL_CONNECT[:1] + bytes((len(FULL_CONNECT) - 2,)) + FULL_CONNECT[2:]
    [found] = PacketReader(SIZE_MAX).receive(data)
    assert found == Connect(
        version=5,
        clean_start=True,
        keep_alive_s=10,
        client_id="abc",
        will=Will(
            topic="w", payload=b"ok", qos=0, retain=True, properties=Properties(will_delay_s=7)
        ),
        user="alice",
        password=b"secret",
        properties=Properties(session_expiry_s=5, receive_maximum=10),
    )


@pytest.mark.parametrize("version", [4, 5])
def test_alike_messages_are_one_run(version: int) -> None:
    data = b"".join(publish("a/b", b"%d" % n, 0, 0, version) for n in range(5))
    [run] = reader(version).receive(data)
    assert run == Run(b"a/b", "a/b", [b"0", b"1", b"2", b"3", b"4"], [], data, len(data))


@pytest.mark.parametrize("version", [4, 5])
def test_a_run_ends_where_topic_or_qos_changes(version: int) -> None:
    parts = [("a/b", 0), ("a/b", 1), ("a/b", 1), ("a/c", 1), ("a/bc", 0), ("a/b", 2)]
    data = b"".join(publish(t, b"x", q, 7, version) for t, q in parts)
    found = reader(version).receive(data)
    assert [(one.name, one.qos, len(one.payloads)) for one in found if isinstance(one, Run)] == [
        ("a/b", 0, 1), ("a/b", 1, 2), ("a/c", 1, 1), ("a/bc", 0, 1),
    ]  # fmt: skip
    assert found[-1] == Publish(topic="a/b", payload=b"x", qos=2, id=7)


def test_long_runs_are_cut() -> None:
    one = publish("a", b"x" * 1000)
    found = reader().receive(one * 200)
    assert sum(len(run.payloads) for run in found if isinstance(run, Run)) == 200
    assert all(len(run.raw) <= RUN_BYTES_MAX for run in found if isinstance(run, Run))


def _messages(packets: list[Packet]) -> list[tuple[str, bytes, bytes]]:
    """Return name, identifier and payload of each message of runs."""
    found = []
    for one in packets:
        assert isinstance(one, Run)
        ids = one.ids or [b""] * len(one.payloads)
        found += [(one.name, *both) for both in zip(ids, one.payloads, strict=True)]
    return found


def taken(ready: PacketReader, data: bytes) -> list[Packet]:
    """Return what a read brings, as a connection asks for it."""
    message = ready.alone(data)
    if message is None:
        return ready.receive(data)
    number, payload = message
    return [Run(ready.topic, ready.topic.decode(), [payload], [number], b"", len(data))]


@pytest.mark.parametrize("version", [4, 5])
@given(
    sent=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([0, 1, 125, 300, 17_000]), st.booleans())
    )
)
def test_messages_one_by_one_are_the_same_as_all_at_once(
    version: int, sent: list[tuple[str, int, bool]]
) -> None:
    packets = [
        publish(topic, b"x" * size, int(is_certain), number, version)
        for number, (topic, size, is_certain) in enumerate(sent, 1)
    ]
    alone, together = reader(version), reader(version)
    found = [one for data in packets for one in taken(alone, data)]
    assert _messages(found) == _messages(together.receive(b"".join(packets)))
    assert [one.raw for one in found if isinstance(one, Run)] == [
        b"" if is_certain else data for data, (_, _, is_certain) in zip(packets, sent, strict=True)
    ]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("at", range(2, 11))
def test_a_message_like_the_last_is_looked_at_all_the_same(version: int, at: int) -> None:
    """A fault in the second of two messages is found whether or not they come together."""
    first, second = (publish("abc", b"", 1, number, version) for number in (1, 2))
    for byte in range(256):
        changed = second[:at] + bytes((byte,)) + second[at + 1 :]
        alone, together = reader(version), reader(version)
        found = taken(alone, first) + taken(alone, changed)
        wanted = together.receive(first + changed)
        assert str(alone.fault) == str(together.fault)
        assert alone.held == together.held
        if together.fault is None and all(isinstance(one, Run) for one in wanted):
            assert _messages(found) == _messages(wanted)


@pytest.mark.parametrize("version", [4, 5])
def test_a_message_like_the_last_comes_alone_unless_another_has_begun(version: int) -> None:
    first, second = (publish("abc", b"x", 1, number, version) for number in (1, 2))
    ready = reader(version)
    assert ready.alone(first) is None  # its topic is not known yet
    ready.receive(first)
    assert ready.alone(second) == (b"\0\2", b"x")
    assert ready.alone(second + second) is None
    ready.receive(second[:1])
    assert ready.alone(second) is None


def test_acknowledgements_come_together() -> None:
    data = b"".join(packet(0x40, struct.pack(">H", n)) for n in range(1, 6)) + b"\xc0\0"
    assert reader().receive(data) == [Acks([1, 2, 3, 4, 5]), Ping()]


def test_every_other_packet() -> None:
    user = Properties(user=(("k", "v"),), reason_string="why")
    packets = {
        packet(0x50, b"\0\1\x10" + write_properties(user)): Ack(5, 1, 0x10, user),
        packet(0x62, b"\0\1"): Ack(6, 1),
        packet(0x70, b"\0\1\x92"): Ack(7, 1, 0x92),
        packet(0x82, b"\0\1" + b"\2\x0b\7" + text("a/#") + b"\x2d"): Subscribe(
            1,
            [("a/#", Options(qos=1, no_local=True, retain_as_published=True, retain_handling=2))],
            Properties(subscription_ids=(7,)),
        ),
        packet(0xA2, b"\0\1\0" + text("a") + text("b")): Unsubscribe(1, ["a", "b"]),
        packet(0xE0, b""): Disconnect(),
        packet(0xE0, b"\4"): Disconnect(4),
        packet(0xF0, b"\x18" + write_properties(Properties(authentication_method="m"))): Auth(
            0x18, Properties(authentication_method="m")
        ),
    }
    assert reader().receive(b"".join(packets)) == list(packets.values())


@given(st.lists(st.integers(1, 40), max_size=30))
def test_any_cut_gives_the_same_packets(cuts: list[int]) -> None:
    data = b"".join(
        (
            publish("a/b", b"1" * 200),
            publish("a/b", b"2"),
            publish("a/c", b"3", 1, 9),
            packet(0x40, b"\0\1"),
            packet(0x40, b"\0\2"),
            packet(0x82, b"\0\1\0" + text("x") + b"\1"),
            b"\xc0\0",
        )
    )
    whole, pieces = _flat(reader().receive(data)), []
    cut = reader()
    at = 0
    for size in [*cuts, len(data)]:
        pieces += cut.receive(data[at : at + size])
        at += size
    assert _flat(pieces) == whole
    assert cut.held == 0


def _flat(packets: list[Packet]) -> list[object]:
    """Return packets with runs taken apart."""
    flat: list[object] = []
    for one in packets:
        if isinstance(one, Run):
            ids = one.ids or [b""] * len(one.payloads)
            flat += [
                (one.name, payload, number)
                for payload, number in zip(one.payloads, ids, strict=True)
            ]
        elif isinstance(one, Acks):
            flat += one.ids
        else:
            flat.append(one)
    return flat


SAMPLES = {
    "connect": FULL_CONNECT[:1] + bytes((len(FULL_CONNECT) - 2,)) + FULL_CONNECT[2:],
    "publish": CONNECT_5
    + packet(
        0x32,
        text("a/b")
        + b"\0\7"
        + write_properties(
            Properties(content_type="t", user=(("a", "b"),), correlation_data=b"c", topic_alias=1)
        )
        + b"payload",
    ),
    "run": CONNECT_311 + publish("a/b", b"one", 1, 1, 4) + publish("a/b", b"two", 1, 2, 4),
    "subscribe": CONNECT_5 + packet(0x82, b"\0\1\2\x0b\7" + text("a/+/#") + b"\x2d"),
    "others": CONNECT_5 + packet(0x62, b"\0\1\0\0") + packet(0xE0, b"\0\5\x11\0\0\0\1"),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_byte_can_be_anything(sample: str) -> None:
    """E3: a fault is noted with its reason, and nothing else ever happens."""
    data = SAMPLES[sample]
    for at in range(len(data)):
        for byte in (*range(0, 256, 5), data[at] ^ 1, data[at] ^ 0x80, 0x7F, 0xFF):
            broken = PacketReader(SIZE_MAX)
            broken.receive(data[:at] + bytes((byte,)) + data[at + 1 :])
            assert broken.fault is None or broken.fault.reason >= 0x80
    for end in range(len(data)):
        short = PacketReader(SIZE_MAX)
        short.receive(data[:end])
        assert short.fault is None


@given(st.binary(max_size=200))
def test_garbage_is_a_fault_or_waits(data: bytes) -> None:
    for version in (4, 5):
        ready = reader(version)
        ready.receive(data)
        assert ready.fault is None or isinstance(ready.fault.reason, Reason)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x30\xff\xff\xff\xff\x01", Reason.MALFORMED_PACKET),
        (b"\x30\x80\x00", Reason.MALFORMED_PACKET),
        (b"\x30\xff\xff\xff\x7f", Reason.PACKET_TOO_LARGE),
        (publish("a/+", b""), Reason.TOPIC_NAME_INVALID),
        (publish("a/#", b""), Reason.TOPIC_NAME_INVALID),
        (publish("a\0b", b""), Reason.MALFORMED_PACKET),
        (packet(0x30, b"\0\3a\xc0\xafx"), Reason.MALFORMED_PACKET),
        (publish("", b""), Reason.TOPIC_NAME_INVALID),
        (publish("a", b"", 1, 0), Reason.MALFORMED_PACKET),
        (packet(0x36, text("a") + b"\0\1\0"), Reason.MALFORMED_PACKET),
        (packet(0x38, text("a") + b"\0"), Reason.MALFORMED_PACKET),
        (packet(0x30, text("a") + b"\2\x0b\1"), Reason.PROTOCOL_ERROR),
        (packet(0x30, text("a") + b"\4\x01\0\x01\0"), Reason.PROTOCOL_ERROR),
        (packet(0x30, text("a") + b"\2\x01\2"), Reason.PROTOCOL_ERROR),
        (packet(0x80, b"\0\1\0" + text("a") + b"\0"), Reason.MALFORMED_PACKET),
        (packet(0x82, b"\0\1\0" + text("a") + b"\3"), Reason.MALFORMED_PACKET),
        (packet(0x82, b"\0\1\0" + text("a") + b"\x30"), Reason.PROTOCOL_ERROR),
        (packet(0x82, b"\0\1\0" + text("a") + b"\x40"), Reason.MALFORMED_PACKET),
        (packet(0x82, b"\0\1\0"), Reason.PROTOCOL_ERROR),
        (packet(0x82, b"\0\1\2\x0b\0" + text("a") + b"\0"), Reason.PROTOCOL_ERROR),
        (packet(0xA2, b"\0\1\0"), Reason.PROTOCOL_ERROR),
        (packet(0x60, b"\0\1"), Reason.MALFORMED_PACKET),
        (packet(0xC0, b"x"), Reason.MALFORMED_PACKET),
        (packet(0xE0, b"\x8e"), Reason.MALFORMED_PACKET),
        (packet(0x20, b"\0\0\0"), Reason.PROTOCOL_ERROR),
        (packet(0x00, b""), Reason.PROTOCOL_ERROR),
        (CONNECT_5, Reason.PROTOCOL_ERROR),
    ],
)
def test_each_fault_has_its_reason(data: bytes, reason: Reason) -> None:
    """E3: what MQTT 5 calls malformed, and what it calls a protocol error."""
    ready = reader()
    assert ready.receive(data) == []
    assert ready.fault is not None
    assert ready.fault.reason is reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xc0\0", Reason.PROTOCOL_ERROR),
        (b"\x40\2\0\1", Reason.PROTOCOL_ERROR),
        (
            packet(0x10, text("MQIsdp") + b"\3\2\0\0" + text("a")),
            Reason.UNSUPPORTED_PROTOCOL_VERSION,
        ),
        (packet(0x10, text("MQTT") + b"\6\2\0\0" + text("a")), Reason.UNSUPPORTED_PROTOCOL_VERSION),
        (packet(0x10, text("MQTT") + b"\4\3\0\0" + text("a")), Reason.MALFORMED_PACKET),
        (packet(0x10, text("MQTT") + b"\4\x0a\0\0" + text("a")), Reason.MALFORMED_PACKET),
        (packet(0x10, text("MQTT") + b"\4\x42\0\0" + text("a")), Reason.MALFORMED_PACKET),
        (packet(0x10, text("MQTT") + b"\5\2\0\0\3\x21\0\0" + text("a")), Reason.PROTOCOL_ERROR),
        (packet(0x10, text("MQTT") + b"\5\2\0\0\0" + text("a") + b"x"), Reason.MALFORMED_PACKET),
    ],
)
def test_each_fault_of_a_connect_has_its_reason(data: bytes, reason: Reason) -> None:
    fresh = PacketReader(SIZE_MAX)
    fresh.receive(data)
    assert fresh.fault is not None
    assert fresh.fault.reason is reason


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1", b"\x11", b"\x30", b"\x10\x80\x80\x80\x80"])
def test_what_can_never_become_a_connect_is_a_fault_at_once(begun: bytes) -> None:
    """C10: nobody waits for the rest of it."""
    ready = PacketReader(SIZE_MAX)
    assert ready.receive(begun) == []
    assert ready.fault is not None


def test_packets_before_a_fault_count() -> None:
    ready = reader()
    assert len(ready.receive(publish("a", b"x") + packet(0xC0, b"x"))) == 1
    assert ready.fault is not None


def test_a_packet_too_large_is_refused_before_its_body() -> None:
    small = PacketReader(100)
    small.receive(CONNECT_5)
    small.receive(b"\x30\x80\x01")
    assert small.fault is not None
    assert small.fault.reason is Reason.PACKET_TOO_LARGE


def test_no_properties_are_one_value() -> None:
    [found] = reader().receive(packet(0x34, text("a") + b"\0\1\0x"))
    assert isinstance(found, Publish)
    assert found.properties is NONE

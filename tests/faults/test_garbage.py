"""Bytes that are not Kafka, or not quite: only their own connection suffers."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.running_node import RunningNode
from tests.wire import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Wire,
    fetch_fields,
    framed,
    produce_fields,
    record_batch,
    request,
)

MIB = 1 << 20
FRAMES_PER_EXAMPLE = 25
EXAMPLES = 120
TOPIC = "garbage"
BATCH = record_batch([b"some value", b"another"], producer_id=5, producer_epoch=0, base_sequence=0)
GROUP = {"group_id": "g", "member_id": "m", "generation_id": 1}

CONTENT: dict[int, dict[str, object]] = {
    0: produce_fields(TOPIC, BATCH),
    1: {"topics": [{"partitions": [{"partition": 0, "partition_max_bytes": MIB}]}]},
    2: {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    3: {"topics": [{"name": TOPIC}]},
    8: {"group_id": "g", "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
    11: {"group_id": "g", "protocols": [{"name": "range", "metadata": b"\0\0"}]},
    13: {"group_id": "g"},
    15: {"groups": ["g"]},
    20: {},
    22: {"producer_id": -1, "producer_epoch": -1},
    32: {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]},
    42: {"groups_names": ["g"]},
}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node that all of these tests attack, and see that it outlives them."""
    node = RunningNode(tmp_path_factory.mktemp("attacked"), {"kafka.partial_frame_timeout_s": "1"})
    try:
        node.start()
        with Wire(node.address) as wire:
            wire.call(METADATA, 12, topics=[{"name": TOPIC}], allow_auto_topic_creation=True)
        yield node
        assert node.is_running()
        assert "Traceback" not in node.log.read_text(), "a bad request raised an error of ours"
    finally:
        node.close()


@pytest.fixture
def bystander(attacked: RunningNode) -> Iterator[Wire]:
    """Give a connection that was open before the attack and must work after it."""
    with Wire(attacked.address) as wire:
        assert is_served(wire)
        yield wire
        assert is_served(wire)


def is_served(wire: Wire) -> bool:
    return bool(wire.call(METADATA, 12, topics=[]).brokers)


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        pytest.param(bytes.fromhex("160301020001fc0303") + b"\xaa" * 500, id="tls"),
        pytest.param(b"\x7f\xff\xff\xff", id="largest length"),
        pytest.param(struct.pack(">i", 100 * MIB + 1), id="length just over the limit"),
        pytest.param(b"\xff\xff\xff\xff", id="negative length"),
        pytest.param(b"\x80\x00\x00\x00", id="most negative length"),
        pytest.param(b"\0\0\0\0", id="empty frame"),
        pytest.param(framed(b"\0\x03"), id="cut off in the header"),
        pytest.param(framed(struct.pack(">hhih", METADATA, 12, 1, 500)), id="client id too long"),
        pytest.param(framed(struct.pack(">hhih", METADATA, 12, 1, -7)), id="negative client id"),
    ],
)
def test_a_bad_frame_closes_its_connection_at_once(attacked: RunningNode, sent: bytes) -> None:
    """C12: judged by what is there; the rest of a frame that is too long is not waited for."""
    with Wire(attacked.address) as wire:
        wire.socket.sendall(sent)
        assert wire.is_closed_by_peer()


@pytest.mark.usefixtures("bystander")
def test_lengths_inside_a_request_reserve_no_memory(attacked: RunningNode) -> None:
    """C12: nine bytes that claim four billion entries; one known codec aborts its process here."""
    before = attacked.resident_bytes()
    bodies = {1: b"\x7f\xff\xff\xff", 8: b"\x7f\xff\xff\xff"}
    bodies |= {12: b"\xff\xff\xff\xff\x0f\0\0\0\0", 13: b"\xfe\xff\xff\xff\x07"}
    for version, body in bodies.items():
        flexible = b"\0" if version >= 9 else b""
        with Wire(attacked.address) as wire:
            head = struct.pack(">hhih", METADATA, version, 1, 1) + b"c" + flexible
            wire.socket.sendall(framed(head + body))
            assert wire.is_closed_by_peer()
    assert attacked.resident_bytes() - before < 20 * MIB


@pytest.mark.usefixtures("bystander")
def test_announced_frames_that_never_come_reserve_no_memory(attacked: RunningNode) -> None:
    """C11: fifty clients that announce 90 MiB each and send ten bytes are closed in the end."""
    before = attacked.resident_bytes()
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(attacked.address)) for _ in range(50)]
        for wire in wires:
            wire.socket.sendall(struct.pack(">i", 90 * MIB) + b"\0\0\0\x09\0\0\0\0\0\0")
        with Wire(attacked.address) as other:
            assert is_served(other)
        assert attacked.resident_bytes() - before < 100 * MIB
        assert all(wire.is_closed_by_peer() for wire in wires)


@pytest.mark.usefixtures("bystander")
def test_clients_that_vanish_in_the_middle_of_a_frame_leave_nothing(attacked: RunningNode) -> None:
    """C12: by closing, and by resetting the connection."""
    full = framed(request(PRODUCE, 9, 1, produce_fields(TOPIC, BATCH)))
    for end in range(1, len(full)):
        with closing(socket.create_connection(attacked.address)) as one:
            one.sendall(full[:end])
            if end % 2:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.usefixtures("bystander")
def test_clients_that_vanish_while_they_wait_leave_nothing(attacked: RunningNode) -> None:
    """C6, C11: parked fetches of closed connections are dropped, not kept until their time."""
    fields = fetch_fields(TOPIC, 0, max_wait=600_000, min_bytes=MIB)
    for _ in range(200):
        with Wire(attacked.address) as wire:
            wire.send(FETCH, 12, **fields)


def served_apis(node: RunningNode) -> list[tuple[int, int]]:
    """Return every (API, version) that the node serves."""
    with Wire(node.address) as wire:
        answer = wire.call(
            API_VERSIONS, 3, client_software_name="test", client_software_version="1"
        )
    return [
        (row.api_key, version)
        for row in answer.api_keys
        for version in range(row.min_version, row.max_version + 1)
        if row.api_key != PRODUCE or version >= 3
    ]


def valid_frame(api_key: int, version: int) -> bytes:
    """Return a request that the codec of the node accepts, with content where we have some."""
    try:
        return request(api_key, version, 1, CONTENT.get(api_key, {}))
    except AssertionError:  # this version has other fields
        return request(api_key, version, 1, {})


@st.composite
def mutations(draw: st.DrawFn, frame: bytes) -> bytes:
    """Change a valid frame behind its API key and version: bytes, lengths, its end."""
    changed = bytearray(frame)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(4, len(changed)))
        match draw(st.sampled_from(["flip", "length", "insert", "delete", "cut"])):
            case "flip" if position < len(changed):
                changed[position] ^= 1 << draw(st.integers(0, 7))
            case "length":
                extreme = draw(st.sampled_from([-1, -2, 0, 2**31 - 1, -(2**31), 2**24]))
                changed[position : position + 4] = struct.pack(">i", extreme)
            case "insert":
                changed[position:position] = draw(st.binary(min_size=1, max_size=12))
            case "delete":
                del changed[position : position + draw(st.integers(1, 8))]
            case _:
                del changed[max(position, 8) :]
    return bytes(changed)


def test_mutated_requests_of_every_api_hurt_only_themselves(attacked: RunningNode) -> None:
    """C12: thousands of almost valid frames; another client is served throughout."""
    apis = served_apis(attacked)
    frames = {each: valid_frame(*each) for each in apis}
    before = attacked.resident_bytes()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data())
    def attack(data: st.DataObject) -> None:
        for _ in range(FRAMES_PER_EXAMPLE):
            frame = data.draw(mutations(frames[data.draw(st.sampled_from(apis))]))
            with closing(socket.create_connection(attacked.address, timeout=60)) as one:
                one.sendall(framed(frame))
                one.shutdown(socket.SHUT_WR)
                drain(one)
        assert attacked.is_running()
        assert is_served(other)

    with Wire(attacked.address) as other:
        attack()
    assert attacked.resident_bytes() - before < 100 * MIB


def drain(connection: socket.socket) -> None:
    """Read until the node closes the connection."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass

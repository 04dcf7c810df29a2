"""The gateway's connections: RFC 6455 on raw sockets, slow readers, limits, logins, shutdown."""

import asyncio
import base64
import json
import os
import random
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.conftest import StartNode
from tests.fronts.websocket.gateway import MSGPACK, gateway
from tests.running_node import RunningNode
from tests.secured_node import secured_node

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FINAL = 0x80
PASSWORDS = {"admin": "wise-and-old", "alice": "wonderland-9"}


class RawSocket:
    """A WebSocket after its handshake, without a library that would refuse to do wrong."""

    def __init__(self, node: RunningNode, *headers: str, early: bytes = b"") -> None:
        self.socket = socket.create_connection(node.http_address, timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            "GET /ws HTTP/1.1",
            f"Host: 127.0.0.1:{node.http_address[1]}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            *headers,
        ]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + early)
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def send(self, opcode: int, data: bytes, *, masked: bool = True) -> None:
        self.socket.sendall(frame(opcode, data, masked=masked))

    def receive(self) -> tuple[int, bytes]:
        first, size = self.file.read(2)
        if size == 126:
            (size,) = struct.unpack(">H", self.file.read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self.file.read(8))
        return first & 0x0F, self.file.read(size)

    def close_code(self) -> int:
        """Read until the node says goodbye and hangs up; return why."""
        while (message := self.receive())[0] != CLOSE:
            pass
        assert self.file.read() == b""
        (code,) = struct.unpack(">H", message[1][:2])
        return int(code)


def frame(opcode: int, data: bytes, *, masked: bool = True) -> bytes:
    bit = 0x80 if masked else 0
    if len(data) < 126:
        head = bytes([opcode, bit | len(data)])
    elif len(data) < 2**16:
        head = struct.pack(">BBH", opcode, bit | 126, len(data))
    else:
        head = struct.pack(">BBQ", opcode, bit | 127, len(data))
    if not masked:
        return head + data
    mask = b"mask"
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


@pytest.fixture
def raw(node: RunningNode) -> Iterator[RawSocket]:
    client = RawSocket(node)
    assert client.status == 101
    assert json.loads(client.receive()[1])["type"] == "welcome"
    yield client
    client.file.close()
    client.socket.close()


def test_fragments_with_control_frames_between_are_one_message(raw: RawSocket) -> None:
    message = json.dumps({"type": "ping", "id": "grüße"}, ensure_ascii=False).encode()
    parts = [message[at : at + 1] for at in range(len(message))]
    raw.send(TEXT, parts[0])
    for part in parts[1:-1]:
        raw.send(CONTINUATION, part)
    raw.send(FINAL | PING, b"still there?")
    assert raw.receive() == (PONG, b"still there?")
    raw.send(FINAL | CONTINUATION, parts[-1])
    assert json.loads(raw.receive()[1]) == {"type": "pong", "id": "grüße"}


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(FINAL | TEXT, b"\xff\xfe"), 1007),
        (frame(FINAL | BINARY, b"{}"), 1003),
        (frame(FINAL | TEXT, b"{}", masked=False), 1002),
        (frame(FINAL | 0x3, b""), 1002),
        (frame(FINAL | 0x40 | TEXT, b"{}"), 1002),
        (frame(FINAL | CONTINUATION, b"{}"), 1002),
        (frame(TEXT, b"{") + frame(FINAL | TEXT, b"}"), 1002),
        (frame(PING, b""), 1002),
        (frame(FINAL | PING, b"x" * 126), 1002),
        (frame(FINAL | CLOSE, struct.pack(">H", 1000)), 1000),
        (frame(FINAL | CLOSE, struct.pack(">H", 999)), 1002),
        (frame(FINAL | CLOSE, struct.pack(">H", 1000) + b"\xff"), 1007),
        (struct.pack(">BBQ", FINAL | TEXT, 0x80 | 127, 2**62) + b"mask", 1009),
        (frame(TEXT, b" " * 3_000_000) + frame(CONTINUATION, b" " * 3_000_000), 1009),
    ],
    ids=[
        "bad UTF-8", "binary", "unmasked", "reserved opcode", "reserved bit",
        "nothing to continue", "not continued", "fragmented ping", "long ping", "goodbye",
        "bad close code", "bad close reason", "huge", "huge in fragments",
    ],
)  # fmt: skip
def test_what_breaks_the_protocol_ends_with_its_close_code(
    raw: RawSocket, sent: bytes, code: int
) -> None:
    """C17: RFC 6455, sections 5 and 7.4."""
    raw.socket.sendall(sent)
    assert raw.close_code() == code


def test_a_message_may_come_with_the_handshake(node: RunningNode) -> None:
    client = RawSocket(node, early=frame(FINAL | TEXT, b'{"type":"ping"}'))
    assert [json.loads(client.receive()[1])["type"] for _ in range(2)] == ["welcome", "pong"]
    client.socket.close()
    client.file.close()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Origin: https://evil.example", 403),
        ("Origin: null", 403),
        ("Sec-WebSocket-Protocol: mqtt", 400),
        ("Sec-WebSocket-Protocol: chordmq.json, mqtt", 101),
    ],
)
def test_pages_of_other_sites_and_unknown_protocols_are_refused(
    node: RunningNode, header: str, status: int
) -> None:
    client = RawSocket(node, header)
    assert client.status == status
    client.socket.close()
    client.file.close()


def test_garbage_hurts_nobody_else(node: RunningNode) -> None:
    chance = random.Random(5)
    for _ in range(50):
        client = RawSocket(node)
        client.socket.sendall(chance.randbytes(chance.randrange(1, 3_000)))
        client.socket.shutdown(socket.SHUT_WR)
        client.file.read()
        client.file.close()
        client.socket.close()
    assert node.is_ready()


async def test_other_paths_have_no_websocket(node: RunningNode) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        async with gateway(node, query="-not-here"):
            pass
    assert refusal.value.response.status_code == 404


async def test_a_slow_reader_is_waited_for_and_holds_no_memory(
    own_node: RunningNode, name: str
) -> None:
    """E5: nothing is lost, the node stays small, and others are served meanwhile."""
    value = base64.b64encode(os.urandom(60_000)).decode()
    count = 1_500
    async with gateway(own_node, max_queue=1) as slow, gateway(own_node) as writer:
        await slow.subscribe(name + "/#")
        for number in range(100):
            await writer.publish(f"{name}/a", f"{number} {value}")
        before = own_node.resident_bytes()
        for number in range(100, count):
            await writer.publish(f"{name}/a", f"{number} {value}")
        held = own_node.metric("chordmq_connection_memory_bytes")
        assert held < 8 * 2**20
        tail = 64 * 2**20  # of the log, which the node keeps in memory anyway
        assert own_node.resident_bytes() - before < 20 * 2**20 + tail
        numbers = [int(text.split()[0]) for text in await slow.values(count)]
        assert numbers == list(range(count))


async def test_a_client_that_gives_no_sign_of_life_is_let_go(
    start_node: StartNode, name: str
) -> None:
    node = start_node({"websocket.ping_interval_s": "2"})
    async with gateway(node) as lively:
        client = RawSocket(node)
        seen = await asyncio.to_thread(client.file.read)
        assert seen.count(bytes([FINAL | PING, 0])) >= 2
        client.file.close()
        client.socket.close()
        await lively.ask("ping", "pong")


async def test_a_node_that_stops_says_goodbye(own_node: RunningNode, name: str) -> None:
    async with gateway(own_node) as client:
        await client.publish(name, "x")
        await client.subscribe(name)
        stopping = asyncio.create_task(asyncio.to_thread(own_node.stop))  # noqa: TID251
        with pytest.raises(ConnectionClosed) as end:
            await client.next("never")
        assert end.value.rcvd is not None
        assert end.value.rcvd.code == 1001
        assert await stopping == 0


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node where clients log in; `admin` may do everything, `alice` nothing."""
    with secured_node(tmp_path_factory.mktemp("secure"), PASSWORDS) as node:
        yield node


async def call(node: RunningNode, user: str, method: str, path: str, **more: Any) -> Any:
    async with httpx.AsyncClient(
        base_url=node.http, auth=(user, PASSWORDS[user]), timeout=60
    ) as http:
        answer = await http.request(method, path, **more)
    assert answer.status_code < 300, answer.text
    return answer.json()


async def token_of(node: RunningNode, user: str) -> str:
    made = await call(node, user, "POST", f"/v1/users/{user}/tokens", json={"label": "ws"})
    return str(made["token"])


def rule(topic: str, operation: str) -> dict[str, Any]:
    facts = {"kind": "topic", "name": topic, "principal": "User:alice", "operation": operation}
    return {"acls": [facts]}


async def test_a_token_opens_the_door_in_three_places(secure: RunningNode, name: str) -> None:
    """E5: in a header, in the query, or as the first message; a wrong one nowhere."""
    token = await token_of(secure, "admin")
    bearer = {"Authorization": f"Bearer {token}"}
    async with gateway(secure, additional_headers=bearer) as client:
        await client.publish(name, "x")
    async with gateway(secure, MSGPACK, query=f"?token={token}") as client:
        await client.publish(name, b"y")
    raw = RawSocket(secure)
    raw.send(FINAL | TEXT, json.dumps({"type": "login", "token": token}).encode())
    assert json.loads((await asyncio.to_thread(raw.receive))[1])["user"] == "admin"
    raw.file.close()
    raw.socket.close()
    with pytest.raises(InvalidStatus) as refusal:
        async with gateway(secure, query="?token=chordmq-wrong"):
            pass
    assert refusal.value.response.status_code == 401


@pytest.mark.parametrize("first", [b'{"type":"login","token":"no"}', b'{"type":"ping"}', b"{]"])
async def test_who_does_not_log_in_first_is_sent_away(secure: RunningNode, first: bytes) -> None:
    raw = RawSocket(secure)
    assert raw.status == 101
    raw.send(FINAL | TEXT, first)
    assert await asyncio.to_thread(raw.close_code) == 1008
    raw.file.close()
    raw.socket.close()


async def test_acls_decide_what_is_read_and_written_also_while_connected(
    secure: RunningNode, name: str
) -> None:
    """E5: nothing is shown that may not be read; a right that is taken ends the subscription."""
    topic = f"{name}.devices"
    await call(secure, "admin", "POST", "/v1/topics", json={"name": topic})
    query = f"?token={await token_of(secure, 'alice')}"
    async with gateway(secure, query=query) as alice:
        message = {"topic": f"{name}/devices/d1/t", "value": "x"}
        assert (await alice.ask("publish", "error", **message))["error"] == "TopicAccessDenied"
        told = await alice.ask("subscribe", "error", id="plain", topic=topic)
        assert told["error"] == "TopicAccessDenied"
        assert (await alice.subscribe(f"{name}/#"))["positions"] == {}
        for operation in ("write", "read"):
            await call(secure, "admin", "POST", "/v1/acls", json=rule(topic, operation))
        assert (await alice.subscribe(topic, id="plain"))["positions"] == {topic: "0:0"}
        await alice.publish(message["topic"], "y")
        assert await alice.values(2) == ["y", "y"]  # the filter has begun to match it
        where = {"kind": "topic", "name": topic}
        await call(secure, "admin", "DELETE", "/v1/acls", params=where)
        admin_query = f"?token={await token_of(secure, 'admin')}"
        async with gateway(secure, query=admin_query) as admin:
            await admin.publish(topic, "secret")
        lost = await alice.next("unsubscribed")
        assert (lost["id"], lost["error"]) == ("plain", "TopicAccessDenied")
        await alice.ask("ping", "pong")
        assert alice.records == []


async def test_clients_that_are_served_hold_no_memory(own_node: RunningNode, name: str) -> None:
    """E5: large messages of clients that wait for their next idea must not stop others."""
    async with gateway(own_node) as client:
        for _ in range(3):
            await client.publish(name, "x" * 900_000)
        await client.ask("ping", "pong")
        assert own_node.metric("chordmq_connection_memory_bytes") < 100_000


async def test_the_gateway_speaks_tls_as_http_does(name: str, tmp_path: Path) -> None:
    """E5: wss:// on the same port, with an orderly end."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for part in issued.cert_chain_pems:
        part.write_to_path(tmp_path / "certificate.pem", append=True)
    settings = {
        "http.tls.certificate": str(tmp_path / "certificate.pem"),
        "http.tls.key": str(tmp_path / "key.pem"),
    }
    node = RunningNode(tmp_path / "node-tls", settings)
    node.start(wait=False)
    try:
        trusted = ssl.create_default_context()
        authority.configure_trust(trusted)
        async with asyncio.timeout(60):
            client = await _connected(node, trusted)
        async with client:
            assert "welcome" in str(await client.recv())
            await client.send(json.dumps({"type": "publish", "topic": name, "value": "x" * 99_999}))
            assert "published" in str(await client.recv())
            start = {"type": "subscribe", "id": 1, "topic": name, "start": "earliest"}
            await client.send(json.dumps(start))
            assert "subscribed" in str(await client.recv())
            assert len(await client.recv()) > 99_999
            await client.send(b"binary")
            await client.wait_closed()
            assert client.close_code == 1003
    finally:
        node.close()


async def _connected(node: RunningNode, trusted: ssl.SSLContext) -> ClientConnection:
    """Connect as soon as the node is ready."""
    while True:
        try:
            return await connect(f"wss://127.0.0.1:{node.http_address[1]}/ws", ssl=trusted)
        except (OSError, InvalidStatus):
            await asyncio.sleep(0.05)

"""What holds on every door alike: a login that is taken back, a right that is revoked, a quota."""

import asyncio
import json
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import aio_pika
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from chordmq.client.connection import Address, Connection, ConnectionSettings
from chordmq.client.connection import connect as open_connection
from chordmq.client.errors import ClientError
from chordmq.client.security import Security
from chordmq.codecs.kafka.messages.metadata import MetadataRequest, MetadataResponse
from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode

ADMIN = ("admin", "wise-and-old")
RATE = 100_000


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node where clients log in, with an administrator."""
    node = RunningNode(tmp_path_factory.mktemp("doors"), {"auth.mechanisms": "SCRAM-SHA-512,PLAIN"})
    name, password = ADMIN
    command = ["users", "add", name, "--new-password", password, "--admin"]
    CommandLine("").ok(*command, "--data-dir", str(node.data))
    try:
        node.start()
        yield node
    finally:
        node.close()


@pytest.fixture
async def admin(secure: RunningNode) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=secure.http, auth=ADMIN, timeout=60) as client:
        yield client


class User:
    """A user of this test's own, who may read and write a topic of the same name."""

    def __init__(self, node: RunningNode, admin: httpx.AsyncClient, name: str) -> None:
        self.node = node
        self.admin = admin
        self.name = name
        self.token = ""
        self.token_id = ""
        self.clients: list[Framed] = []

    async def settle_in(self) -> None:
        name = self.name
        await self.admin.post("/v1/topics", json={"name": name, "partitions": 1})
        made = await self.admin.post("/v1/users", json={"name": name, "password": f"{name}-pw"})
        assert made.status_code == 201, made.text
        rules = [
            {"kind": kind, "name": name, "match": "prefixed", "principal": f"User:{name}",
             "operation": "all"}
            for kind in ("topic", "group")
        ]  # fmt: skip
        assert (await self.admin.post("/v1/acls", json={"acls": rules})).status_code == 201
        token = (await self.admin.post(f"/v1/users/{name}/tokens", json={})).json()
        self.token, self.token_id = token["token"], token["id"]

    async def revoke_token(self) -> None:
        path = f"/v1/users/{self.name}/tokens/{self.token_id}"
        assert (await self.admin.delete(path)).status_code == 204

    async def limit(self, **limits: float) -> None:
        body = {"user": self.name, "limits": limits}
        answer = await self.admin.put("/v1/quotas", json=body)
        assert answer.status_code == 200, answer.text

    def http(self) -> httpx.AsyncClient:
        bearer = {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.node.http, headers=bearer, timeout=60)

    def websocket(self) -> connect:
        return connect(f"ws://127.0.0.1:{self.node.http_address[1]}/ws?token={self.token}")

    async def framed(self, role: str, more: str = "") -> "Framed":
        reader, writer = await asyncio.open_connection(*self.node.framed_address)
        client = Framed(reader, writer)
        self.clients.append(client)
        client.send(f"{role} topic={self.name} token={self.token} {more}".strip().encode())
        return client

    async def kafka(self, password: str) -> Connection:
        security = Security(user=self.name, password=password, mechanism="SCRAM-SHA-512")
        settings = ConnectionSettings(security=security)
        return await open_connection(Address(*self.node.address), settings)


class Framed:
    """A client of the plain length-prefixed protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def send(self, *payloads: bytes) -> None:
        self.writer.write(b"".join(struct.pack(">i", len(one)) + one for one in payloads))

    async def receive(self) -> bytes:
        async with asyncio.timeout(60):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)


@pytest.fixture
async def user(secure: RunningNode, admin: httpx.AsyncClient, name: str) -> AsyncIterator[User]:
    user = User(secure, admin, name)
    await user.settle_in()
    yield user
    for client in user.clients:
        client.writer.close()
        with suppress(ConnectionError):
            await client.writer.wait_closed()


async def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the next message of a kind from the gateway."""
    async with asyncio.timeout(60):
        while (message := json.loads(await socket.recv()))["type"] != kind:
            pass
    return message  # type: ignore[no-any-return]


async def test_a_revoked_token_ends_a_websocket(user: User) -> None:
    """C10, E5: the client is told why, and cannot come back."""
    async with user.websocket() as socket:
        await told(socket, "welcome")
        await user.revoke_token()
        with pytest.raises(ConnectionClosed) as closed:
            await told(socket, "never")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert "log in again" in closed.value.rcvd.reason


@pytest.mark.parametrize("role", ["PRODUCER", "CONSUMER"])
async def test_a_revoked_token_ends_a_plain_connection(user: User, role: str) -> None:
    """C10, B7: an error frame says why."""
    client = await user.framed(role, "ack=each" if role == "PRODUCER" else "ack=auto")
    producer = await user.framed("PRODUCER", "ack=each")
    producer.send(b"one")
    assert (await producer.receive()).startswith(b"ACK")
    if role == "CONSUMER":
        assert await client.receive() == b"one"
    else:
        client.send(b"two")
        assert (await client.receive()).startswith(b"ACK")
    await user.revoke_token()
    assert b"log in again" in await client.receive()
    with pytest.raises(asyncio.IncompleteReadError):
        await client.receive()


async def test_a_revoked_token_ends_an_event_stream(user: User) -> None:
    """C10: it ends with the reason."""
    path = f"/v1/topics/{user.name}/stream"
    async with asyncio.timeout(60), user.http() as http, http.stream("GET", path) as stream:
        assert stream.status_code == 200
        await user.revoke_token()
        assert b"AuthenticationFailed" in await stream.aread()


async def test_a_revoked_token_ends_a_long_poll(user: User) -> None:
    """C10: it is answered with 401."""
    async with user.http() as http, asyncio.timeout(60):
        path = f"/v1/topics/{user.name}/records?position=latest&wait_ms=50000"
        task = asyncio.ensure_future(http.get(path))
        await asyncio.sleep(0.3)  # it has begun to wait, or else is refused at the door
        await user.revoke_token()
        answer = await task
    assert "AuthenticationFailed" in answer.text
    assert answer.status_code == 401


async def test_a_new_password_ends_kafka_connections(user: User) -> None:
    """C10: who is connected with the old one is hung up on, and the old one lets nobody in."""
    consumer = await user.kafka(f"{user.name}-pw")
    assert (await consumer.call(MetadataRequest(topics=[]), MetadataResponse)).brokers
    body, path = {"password": "another-one"}, f"/v1/users/{user.name}/password"
    assert (await user.admin.put(path, json=body)).status_code == 204
    with pytest.raises(ClientError):
        await consumer.call(MetadataRequest(topics=[]), MetadataResponse)
    with pytest.raises(ClientError):
        await user.kafka(f"{user.name}-pw")
    again = await user.kafka("another-one")
    assert (await again.call(MetadataRequest(topics=[]), MetadataResponse)).brokers
    assert (await user.admin.delete(f"/v1/users/{user.name}")).status_code == 204
    with pytest.raises(ClientError):
        await again.call(MetadataRequest(topics=[]), MetadataResponse)
    for one in (consumer, again):
        one.close()


async def test_a_new_password_ends_amqp_connections(user: User) -> None:
    """C10, E4: as RabbitMQ does when an operator ends a connection: 320."""
    host, port = user.node.amqp_address
    connection = await aio_pika.connect(
        host=host, port=port, login=user.name, password=f"{user.name}-pw"
    )
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    connection.close_callbacks.add(lambda _, error: ended.set_result(error))
    body, path = {"password": "another-one"}, f"/v1/users/{user.name}/password"
    assert (await user.admin.put(path, json=body)).status_code == 204
    async with asyncio.timeout(60):
        assert "log in again" in str(await ended)
    await connection.close()


async def test_who_sends_too_much_over_http_is_told_when_to_go_on(user: User) -> None:
    """E13: 429 with Retry-After; then it goes on."""
    await user.limit(producer_byte_rate=RATE)
    path, octets = f"/v1/topics/{user.name}/records", {"content-type": "application/octet-stream"}
    async with user.http() as http:
        much = bytes(2 * RATE)
        assert (await http.post(path, content=much, headers=octets)).status_code == 200
        # Who takes long enough to come back has waited for as long as is wanted.
        while (refused := await http.post(path, content=much, headers=octets)).is_success:
            pass
        assert (refused.status_code, refused.json()["error"]) == (429, "QuotaExceeded")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await http.get(path)).status_code == 200, "reading has a limit of its own"
        await asyncio.sleep(int(refused.headers["retry-after"]) + 0.1)
        assert (await http.post(path, content=b"x", headers=octets)).status_code == 200


async def test_who_reads_too_much_over_http_is_told_when_to_go_on(user: User) -> None:
    """E13: consumer_byte_rate, for pages of records and for those of a shared cursor."""
    await user.limit(consumer_byte_rate=RATE / 100)
    path = f"/v1/topics/{user.name}"
    async with user.http() as http:
        value = "x" * 2 * RATE
        assert (await http.post(f"{path}/records", json={"value": value})).status_code == 200
        assert (await http.get(f"{path}/records")).status_code == 200
        for refused in (
            await http.get(f"{path}/records"),
            await http.get(f"{path}/stream"),
            await http.post(f"{path}/cursors/{user.name}/take", json={"consumer": "c"}),
        ):
            assert refused.status_code == 429, refused.text
            assert int(refused.headers["retry-after"]) >= 1


async def test_who_has_the_node_work_too_much_is_told_when_to_go_on(user: User) -> None:
    """E13: request_percentage counts the event loop's time over HTTP as over Kafka."""
    await user.limit(request_percentage=0.01)
    async with user.http() as http:
        statuses = [(await http.get("/v1/topics")).status_code for _ in range(20)]
    assert statuses[0] == 200
    assert statuses[-1] == 429


async def test_who_sends_too_much_over_a_websocket_is_told_and_not_read(user: User) -> None:
    """E13, E5: a `throttled` message, and back-pressure for as long as it says."""
    await user.limit(producer_byte_rate=RATE)
    async with user.websocket() as socket:
        message = {"type": "publish", "topic": user.name, "value": "x" * RATE}
        began = time.monotonic()
        for number in range(3):
            await socket.send(json.dumps(message | {"id": number}))
        throttled = await told(socket, "throttled")
        assert throttled["direction"] == "in"
        assert 0 < throttled["wait_ms"] <= 3000
        await socket.send(json.dumps(message | {"id": "later"}))
        while (await told(socket, "published"))["id"] != "later":
            pass
        assert time.monotonic() - began > throttled["wait_ms"] / 1000 * 0.9


async def test_what_is_pushed_over_a_websocket_keeps_to_the_quota(user: User) -> None:
    """E13, E5: the log waits for the client's share; nothing is lost."""
    await user.limit(consumer_byte_rate=RATE)
    async with user.http() as http, user.websocket() as socket:
        path = f"/v1/topics/{user.name}/records"
        for _ in range(4):
            await http.post(path, json={"value": "x" * RATE})
        began = time.monotonic()
        subscribe = {"type": "subscribe", "id": 1, "topic": user.name, "start": "earliest"}
        await socket.send(json.dumps(subscribe))
        count, waits = 0, 0
        async with asyncio.timeout(60):
            while count < 4:
                message = json.loads(await socket.recv())
                count += len(message.get("records", ()))
                waits += message["type"] == "throttled"
        assert waits
        assert time.monotonic() - began > 1.0


@pytest.mark.parametrize("limit", ["producer_byte_rate", "consumer_byte_rate"])
async def test_plain_clients_feel_their_quota_as_back_pressure(user: User, limit: str) -> None:
    """E13, B5: frames wait in the socket or in the log; nothing is lost."""
    await user.limit(**{limit: RATE})
    producer = await user.framed("PRODUCER", "ack=each")
    consumer = await user.framed("CONSUMER", "ack=auto start=earliest")
    began = time.monotonic()
    for _ in range(6):
        producer.send(bytes(RATE // 2))
        assert (await producer.receive()).startswith(b"ACK")
        assert len(await consumer.receive()) == RATE // 2
    assert time.monotonic() - began > 1.0


async def test_a_right_that_is_revoked_ends_a_plain_producer(user: User) -> None:
    """C9: the next frame is refused, and says why."""
    producer = await user.framed("PRODUCER", "ack=each")
    producer.send(b"one")
    assert (await producer.receive()).startswith(b"ACK")
    query = {"kind": "topic", "name": user.name}
    assert (await user.admin.delete("/v1/acls", params=query)).status_code == 200
    producer.send(b"two")
    assert b"may not write" in await producer.receive()

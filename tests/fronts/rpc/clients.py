"""Clients of both procedure-call fronts behind one interface, made from the schema files alone."""

import asyncio
import base64
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import capnp
import grpc
import grpc.aio

from tests.running_node import RunningNode

SCHEMAS = Path(__file__).resolve().parents[3] / "schema"
TIMEOUT_S = 20.0

if str(SCHEMAS) not in sys.path:
    sys.path.append(str(SCHEMAS))
pb, services = grpc.protos_and_services("chordmq.proto")
CAPNP = capnp.load(
    str(SCHEMAS / "chordmq.capnp"), imports=[str(Path(capnp.__file__).parent.parent)]
)

Address = tuple[str, int]
Headers = tuple[tuple[str, bytes | None], ...]


class Refused(Exception):
    """The node has refused a call; `error` is the name of its error."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(f"{error}: {message}")
        self.error = error


class Row(NamedTuple):
    """A message, as sent or received."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = -1
    partition: int = -1
    offset: int = -1
    name: str = ""
    deliveries: int = 0


class Login(NamedTuple):
    """Who a client is, and how it gets in."""

    token: str = ""
    user: str = ""
    password: str = ""
    client: str = "tests"
    authority: Path | None = None
    """The file of the certificate authority, where the node speaks TLS."""


class Subscription(Protocol):
    """What tests do with a subscription."""

    positions: dict[str, str]
    gaps: list[tuple[int, int, int]]

    async def take(self, count: int) -> list[Row]:
        """Return so many messages, and no fewer."""
        ...

    async def is_silent(self, seconds: float) -> bool:
        """Return whether no message comes in a time."""
        ...

    async def ended(self) -> Refused:
        """Return why the node has ended the subscription."""
        ...

    async def credit(self, count: int) -> None:
        """Let more come."""
        ...

    async def acknowledge(self, topic: str, row: Row, outcome: str = "accept") -> None:
        """Say what became of a message."""
        ...

    async def commit(self, topic: str, position: str) -> None:
        """Keep the place."""
        ...

    async def close(self) -> None:
        """End the subscription."""
        ...


class Client(Protocol):
    """What tests do with a node."""

    async def publish(self, topic: str, rows: Sequence[Row]) -> list[tuple[int, int]]:
        """Store messages and return their places."""
        ...

    async def stream(self, topic: str, batches: Sequence[Sequence[Row]]) -> int:
        """Store messages in a stream, and return how many were stored."""
        ...

    async def subscribe(self, topic: str, **wanted: Any) -> Subscription:
        """Subscribe: own, shared, start (earliest, latest or a time), positions, credit."""
        ...

    async def commit(self, index: str, topic: str, position: str) -> None:
        """Keep the place of a named index."""
        ...

    async def committed(self, index: str, topic: str) -> str:
        """Return the place of a named index."""
        ...

    async def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        """Make a topic, and return how many partitions it has."""
        ...

    async def topics(self) -> list[str]:
        """Return the topics that the client may see."""
        ...

    async def end_offsets(self, name: str) -> list[int]:
        """Return where the partitions of a topic end."""
        ...

    async def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


class Doors:
    """Opens clients of one front, and closes them."""

    def __init__(self, front: str, stack: AsyncExitStack) -> None:
        self.front = front
        self._stack = stack

    def address(self, node: RunningNode) -> Address:
        """Return where the front listens."""
        return node.capnp_address if self.front == "capnp" else node.grpc_address

    async def open(self, node: RunningNode, login: Login | None = None) -> Client:
        """Connect to a node; raise Refused if it does not let the client in."""
        opening = open_capnp if self.front == "capnp" else open_grpc
        async with asyncio.timeout(TIMEOUT_S):
            client: Client = await opening(self.address(node), login)
        self._stack.push_async_callback(client.close)
        return client


@asynccontextmanager
async def doors(front: str) -> AsyncIterator[Doors]:
    """Give clients of a front; those that are left open are closed."""
    async with AsyncExitStack() as stack:
        if front == "capnp":
            await stack.enter_async_context(capnp.kj_loop())
        yield Doors(front, stack)


class Received:
    """What has come of a subscription."""

    def __init__(self, positions: Mapping[str, str]) -> None:
        self.positions = dict(positions)
        self.gaps: list[tuple[int, int, int]] = []
        self._rows: asyncio.Queue[Row | Refused] = asyncio.Queue()
        self._end: Refused | None = None

    def came(self, topic: str, rows: Sequence[Row], position: str) -> None:
        if position:
            self.positions[topic] = position
        for row in rows:
            self._rows.put_nowait(row)

    def has_ended(self, error: Refused) -> None:
        self._rows.put_nowait(error)

    async def take(self, count: int) -> list[Row]:
        rows: list[Row] = []
        async with asyncio.timeout(TIMEOUT_S):
            while len(rows) < count:
                row = await self._rows.get()
                if isinstance(row, Refused):
                    raise row
                rows.append(row)
        return rows

    async def is_silent(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._rows.get()
        except TimeoutError:
            return True
        return False

    async def ended(self) -> Refused:
        async with asyncio.timeout(TIMEOUT_S):
            while not isinstance(row := await self._rows.get(), Refused):
                pass
        return row


# Cap'n Proto.


async def open_capnp(address: Address, login: Login | None = None) -> "Capnp":
    """Return a node over Cap'n Proto; there must be a `capnp.kj_loop`."""
    login = login or Login()
    context = ssl.create_default_context(cafile=login.authority) if login.authority else None
    host = "localhost" if login.authority else address[0]
    stream = await capnp.AsyncIoStream.create_connection(host, address[1], ssl=context)
    try:
        client = capnp.TwoPartyClient(stream)
        door = client.bootstrap().cast_as(CAPNP.Door)
        node = (await told(door.login(_credentials(login), login.client))).node
    except BaseException:
        stream.close()
        raise
    return Capnp(node, stream, client)


def _credentials(login: Login) -> dict[str, Any]:
    if login.token:
        return {"token": login.token}
    if login.user:
        return {"password": {"user": login.user, "secret": login.password}}
    return {"none": None}


async def told(call: Any) -> Any:
    """Return what a call answers, or raise what the node says is wrong."""
    try:
        return await call
    except capnp.KjException as error:
        text = error.description.removeprefix("remote exception: message = ").strip()
        name, _, reason = text.partition(": ")
        raise Refused(name, reason) from None


class Sink(CAPNP.Sink.Server):  # type: ignore[misc, name-defined]
    """Takes what is pushed."""

    def __init__(self, received: Received) -> None:
        self.received = received

    async def deliver(self, batch: Any, **_: Any) -> None:
        rows = [_from_capnp(one) for one in batch.deliveries]
        self.received.gaps += [(gap.partition, gap.wanted, gap.next) for gap in batch.gaps]
        self.received.came(batch.topic, rows, batch.position)

    async def end(self, reason: str, **_: Any) -> None:
        name, text = reason.split(": ", 1)
        self.received.has_ended(Refused(name, text))


def _from_capnp(delivery: Any) -> Row:
    message = delivery.message
    return Row(
        message.value if message._has("value") else None,
        message.key if message._has("key") else None,
        tuple((one.name, one.value if one._has("value") else None) for one in message.headers),
        message.timestampMs,
        message.partition,
        delivery.offset,
        delivery.name,
        delivery.deliveries,
    )


def _to_capnp(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"timestampMs": row.timestamp, "partition": row.partition}
    if row.key is not None:
        found["key"] = row.key
    if row.value is not None:
        found["value"] = row.value
    found["headers"] = [
        {"name": name} if value is None else {"name": name, "value": value}
        for name, value in row.headers
    ]
    return found


class CapnpSubscription(Received):
    """A subscription over Cap'n Proto."""

    handle: Any

    async def credit(self, count: int) -> None:
        await told(self.handle.credit(count))

    async def acknowledge(self, topic: str, row: Row, outcome: str = "accept") -> None:
        place = (row.partition, row.offset, row.offset)
        await told(self.handle.acknowledge(topic, *place, outcome))

    async def commit(self, topic: str, position: str) -> None:
        await told(self.handle.commit(topic, position))

    async def close(self) -> None:
        await told(self.handle.close())


class Capnp:
    """A node over Cap'n Proto."""

    def __init__(self, node: Any, stream: Any, client: Any) -> None:
        self.node = node
        self._stream = stream
        self.connection = client

    async def close(self) -> None:
        self._stream.close()
        for _ in range(3):  # turns of the event loop, in which the socket is closed
            await asyncio.sleep(0)

    async def publish(self, topic: str, rows: Sequence[Row]) -> list[tuple[int, int]]:
        answer = await told(self.node.publish(topic, [_to_capnp(row) for row in rows]))
        return list(zip(answer.places.partitions, answer.places.offsets, strict=True))

    async def stream(self, topic: str, batches: Sequence[Sequence[Row]]) -> int:
        producer = (await told(self.node.produce(topic))).producer
        for batch in batches:
            await told(producer.push([_to_capnp(row) for row in batch]))
        return int((await told(producer.flush())).stored)

    async def subscribe(self, topic: str, **wanted: Any) -> CapnpSubscription:
        start = wanted.get("start", "earliest")
        begin: dict[str, Any] = {"timestampMs": start} if isinstance(start, int) else {start: None}
        if "positions" in wanted:
            places = wanted["positions"].items()
            begin = {"positions": [{"topic": one, "position": text} for one, text in places]}
        index = {"shared": wanted["shared"]} if "shared" in wanted else {"own": ""}
        if "own" in wanted:
            index = {"own": wanted["own"]}
        received = CapnpSubscription({})
        asked = {
            "topic": topic, "index": index, "start": begin, "credit": wanted.get("credit", 0),
        }  # fmt: skip
        answer = await told(self.node.subscribe(asked, Sink(received)))
        for one in answer.positions:
            received.positions.setdefault(one.topic, one.position)
        received.handle = answer.subscription
        return received

    async def commit(self, index: str, topic: str, position: str) -> None:
        await told(self.node.commit(index, topic, position))

    async def committed(self, index: str, topic: str) -> str:
        return str((await told(self.node.committed(index, topic))).position)

    async def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        texts = [{"name": key, "value": value} for key, value in settings.items()]
        answer = await told(self.node.createTopic(name, partitions, texts))
        return len(answer.topic.partitions)

    async def topics(self) -> list[str]:
        return list((await told(self.node.listTopics())).names)

    async def end_offsets(self, name: str) -> list[int]:
        answer = await told(self.node.describeTopic(name))
        return [one.endOffset for one in answer.topic.partitions]

    async def delete_topic(self, name: str) -> None:
        await told(self.node.deleteTopic(name))


# gRPC.


async def open_grpc(address: Address, login: Login | None = None) -> "Grpc":
    """Return a node over gRPC."""
    login = login or Login()
    target = f"{'localhost' if login.authority else address[0]}:{address[1]}"
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    if login.authority:
        credentials = grpc.ssl_channel_credentials(login.authority.read_bytes())
        channel = grpc.aio.secure_channel(target, credentials, options)
    else:
        channel = grpc.aio.insecure_channel(target, options)
    client = Grpc(channel, login)
    try:
        await client.topics()  # gRPC logs in with each call, and connects with the first
    except BaseException:
        await client.close()
        raise
    return client


async def answered(call: Any) -> Any:
    """Return what a call answers, or raise what the node says is wrong."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise refused(error) from None


def refused(error: Any) -> Refused:
    metadata = dict(error.trailing_metadata() or ())
    return Refused(metadata.get("chordmq-error", error.code().name), error.details())


def _from_grpc(delivery: Any) -> Row:
    message = delivery.message
    return Row(
        message.value if message.HasField("value") else None,
        message.key if message.HasField("key") else None,
        tuple((one.name, one.value if one.HasField("value") else None) for one in message.headers),
        message.timestamp_ms,
        message.partition,
        delivery.offset,
        delivery.name,
        delivery.deliveries,
    )


def _to_grpc(row: Row) -> Any:
    return pb.Message(
        key=row.key,
        value=row.value,
        headers=[pb.Header(name=name, value=value) for name, value in row.headers],
        timestamp_ms=None if row.timestamp < 0 else row.timestamp,
        partition=None if row.partition < 0 else row.partition,
    )


class GrpcSubscription(Received):
    """A subscription over gRPC."""

    def __init__(self, call: Any) -> None:
        super().__init__({})
        self._call = call
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._reading = asyncio.ensure_future(self._read())

    async def begin(self, wanted: Any) -> None:
        await answered(self._call.write(pb.SubscribeRequest(wanted=wanted)))
        await self._answer()

    async def _read(self) -> None:
        try:
            while (answer := await self._call.read()) is not grpc.aio.EOF:
                kind = answer.WhichOneof("response")
                if kind == "batch":
                    rows = [_from_grpc(one) for one in answer.batch.deliveries]
                    gaps = answer.batch.gaps
                    self.gaps += [(gap.partition, gap.wanted, gap.next) for gap in gaps]
                    self.came(answer.batch.topic, rows, answer.batch.position)
                    continue
                if kind == "subscribed":
                    for one in answer.subscribed.positions:
                        self.positions.setdefault(one.topic, one.position)
                self._answers.put_nowait(answer)
        except grpc.aio.AioRpcError as error:
            self.has_ended(refused(error))
            self._answers.put_nowait(refused(error))
        except asyncio.CancelledError:
            return

    async def _answer(self) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await self._answers.get()
        if isinstance(answer, Refused):
            raise answer
        if answer.WhichOneof("response") == "refused":
            raise Refused(answer.refused.error, answer.refused.message)

    async def credit(self, count: int) -> None:
        await self._call.write(pb.SubscribeRequest(credit=count))

    async def acknowledge(self, topic: str, row: Row, outcome: str = "accept") -> None:
        one = pb.Acknowledge(
            topic=topic, partition=row.partition, first=row.offset, last=row.offset,
            outcome=outcome.upper(),
        )  # fmt: skip
        await self._call.write(pb.SubscribeRequest(acknowledge=one))
        await self._answer()

    async def commit(self, topic: str, position: str) -> None:
        place = pb.Position(topic=topic, position=position)
        await self._call.write(pb.SubscribeRequest(commit=place))
        await self._answer()

    async def close(self) -> None:
        self._call.cancel()
        await asyncio.wait([self._reading])


class Grpc:
    """A node over gRPC."""

    def __init__(self, channel: Any, login: Login) -> None:
        self.channel = channel
        self.opened: list[GrpcSubscription] = []
        self.stub = services.ChordMQStub(channel)
        self.metadata = [("chordmq-client", login.client)]
        if login.token:
            self.metadata.append(("authorization", f"Bearer {login.token}"))
        if login.user:
            text = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
            self.metadata.append(("authorization", f"Basic {text}"))

    async def close(self) -> None:
        for subscription in self.opened:
            await subscription.close()
        await self.channel.close()

    async def _call(self, method: Any, request: Any) -> Any:
        return await answered(method(request, metadata=self.metadata, timeout=TIMEOUT_S))

    async def publish(self, topic: str, rows: Sequence[Row]) -> list[tuple[int, int]]:
        request = pb.PublishRequest(topic=topic, messages=[_to_grpc(row) for row in rows])
        answer = await self._call(self.stub.Publish, request)
        return list(zip(answer.partitions, answer.offsets, strict=True))

    async def stream(self, topic: str, batches: Sequence[Sequence[Row]]) -> int:
        call = self.stub.PublishStream(metadata=self.metadata)

        async def send() -> None:
            for batch in batches:
                messages = [_to_grpc(row) for row in batch]
                await call.write(pb.PublishRequest(topic=topic, messages=messages))
            await call.done_writing()

        sending = asyncio.ensure_future(send())
        stored = 0
        try:
            while (answer := await call.read()) is not grpc.aio.EOF:
                stored += len(answer.offsets)
        except grpc.aio.AioRpcError as error:
            raise refused(error) from None
        finally:
            sending.cancel()
        return stored

    async def subscribe(self, topic: str, **wanted: Any) -> GrpcSubscription:
        start = wanted.get("start", "earliest")
        asked = pb.Wanted(
            topic=topic,
            start=1 if start == "latest" else 0,
            start_timestamp_ms=start if isinstance(start, int) else 0,
            credit=wanted.get("credit", 0),
        )
        if "own" in wanted:
            asked.own = wanted["own"]
        if "shared" in wanted:
            asked.shared = wanted["shared"]
        for one, position in wanted.get("positions", {}).items():
            asked.positions.add(topic=one, position=position)
        received = GrpcSubscription(self.stub.Subscribe(metadata=self.metadata))
        self.opened.append(received)
        await received.begin(asked)
        return received

    async def commit(self, index: str, topic: str, position: str) -> None:
        place = pb.Position(topic=topic, position=position)
        await self._call(self.stub.Commit, pb.CommitRequest(index=index, position=place))

    async def committed(self, index: str, topic: str) -> str:
        request = pb.CommittedRequest(index=index, topic=topic)
        return str((await self._call(self.stub.Committed, request)).position)

    async def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        request = pb.CreateTopicRequest(name=name, partitions=partitions, settings=settings)
        return len((await self._call(self.stub.CreateTopic, request)).partitions)

    async def topics(self) -> list[str]:
        return list((await self._call(self.stub.ListTopics, pb.ListTopicsRequest())).names)

    async def end_offsets(self, name: str) -> list[int]:
        answer = await self._call(self.stub.DescribeTopic, pb.DescribeTopicRequest(name=name))
        return [one.end_offset for one in answer.partitions]

    async def delete_topic(self, name: str) -> None:
        await self._call(self.stub.DeleteTopic, pb.DeleteTopicRequest(name=name))

"""A client of the gRPC front, made from its schema file alone."""

import asyncio
import base64
import sys
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from tests.fronts.rpc.contract import SCHEMAS, TIMEOUT_S, Address, Login, Received, Refused, Row

if str(SCHEMAS) not in sys.path:
    sys.path.append(str(SCHEMAS))
pb, services = grpc.protos_and_services("chordmq.proto")


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

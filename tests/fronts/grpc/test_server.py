"""What gRPC brings besides our own calls: status codes, deadlines, health, reflection."""

import asyncio

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from tests.conftest import StartNode
from tests.fronts.grpc.client import pb, services
from tests.fronts.rpc.clients import doors
from tests.running_node import RunningNode


def target(node: RunningNode) -> str:
    host, port = node.grpc_address
    return f"{host}:{port}"


def test_a_client_learns_the_service_by_reflection(node: RunningNode) -> None:
    """C17: what grpcurl and its like do: list, describe, call, without the schema file."""
    with grpc.insecure_channel(target(node)) as channel:
        known = ProtoReflectionDescriptorDatabase(channel)
        assert "chordmq.v1.ChordMQ" in known.get_services()
        file = known.FindFileContainingSymbol("chordmq.v1.ChordMQ")
        methods = [method.name for method in file.service[0].method]
        assert methods[:3] == ["Publish", "PublishStream", "Subscribe"]
        for version in ("v1", "v1alpha"):
            ask = channel.stream_stream(
                f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            )
            assert b"chordmq.v1.ChordMQ" in next(ask(iter([b":\x00"]), timeout=60))


async def test_health_is_told(own_node: RunningNode) -> None:
    """C17: serving while the node serves; watchers hear of its end."""
    async with grpc.aio.insecure_channel(target(own_node)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "chordmq.v1.ChordMQ"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        watching = health.Watch(health_pb2.HealthCheckRequest(service=""))
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
        stopping = asyncio.ensure_future(asyncio.to_thread(own_node.stop))
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watching.cancel()
        assert await stopping == 0


async def test_a_call_ends_at_its_deadline(node: RunningNode, name: str) -> None:
    async with doors("grpc") as door:
        client = await door.open(node)
        await client.create_topic(name)
        async with grpc.aio.insecure_channel(target(node)) as channel:
            call = services.ChordMQStub(channel).Subscribe(timeout=4)
            await call.write(pb.SubscribeRequest(wanted=pb.Wanted(topic=name)))
            assert (await call.read()).WhichOneof("response") == "subscribed"
            with pytest.raises(grpc.aio.AioRpcError) as end:
                await call.read()
            assert end.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("speaks", [True, False])
async def test_a_stream_that_is_refused_says_why(
    start_node: StartNode, name: str, *, speaks: bool
) -> None:
    """Both to a client that has sent its first request and to one that sends nothing."""
    node = start_node({"grpc.subscriptions_max": "1"})
    async with grpc.aio.insecure_channel(target(node)) as channel:
        stub = services.ChordMQStub(channel)
        await stub.CreateTopic(pb.CreateTopicRequest(name=name))
        first = stub.Subscribe()
        await first.write(pb.SubscribeRequest(wanted=pb.Wanted(topic=name)))
        assert (await first.read()).WhichOneof("response") == "subscribed"
        second = stub.Subscribe()
        if speaks:
            await second.write(pb.SubscribeRequest(wanted=pb.Wanted(topic=name)))
        with pytest.raises(grpc.aio.AioRpcError, match=r"grpc\.subscriptions_max") as refusal:
            await second.read()
        assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        first.cancel()


async def test_a_subscription_goes_on_after_the_clients_last_word(
    node: RunningNode, name: str
) -> None:
    """What command-line clients do: one request, then the end of their half."""
    async with doors("grpc") as door:
        client = await door.open(node)
        await client.create_topic(name)
        async with grpc.aio.insecure_channel(target(node)) as channel:
            call = services.ChordMQStub(channel).Subscribe()
            await call.write(pb.SubscribeRequest(wanted=pb.Wanted(topic=name)))
            await call.done_writing()
            assert (await call.read()).WhichOneof("response") == "subscribed"
            await channel.unary_unary("/chordmq.v1.ChordMQ/Publish")(
                pb.PublishRequest(topic=name, messages=[pb.Message(value=b"v")]).SerializeToString()
            )
            batch = (await call.read()).batch
            assert [one.message.value for one in batch.deliveries] == [b"v"]
            call.cancel()


@pytest.mark.parametrize(
    ("method", "request_", "code"),
    [
        ("DescribeTopic", pb.DescribeTopicRequest(name="nowhere"), "NOT_FOUND"),
        ("CreateTopic", pb.CreateTopicRequest(name="not a name"), "INVALID_ARGUMENT"),
        ("DeleteTopic", pb.DeleteTopicRequest(name="nowhere"), "NOT_FOUND"),
        ("Publish", pb.PublishRequest(topic="t"), "INVALID_ARGUMENT"),
    ],
)
async def test_errors_have_their_status(
    node: RunningNode, method: str, request_: object, code: str
) -> None:
    async with grpc.aio.insecure_channel(target(node)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await getattr(services.ChordMQStub(channel), method)(request_)
        assert refusal.value.code().name == code
        assert "chordmq-error" in dict(refusal.value.trailing_metadata())


async def test_bytes_that_are_no_message_end_their_call_only(node: RunningNode) -> None:
    async with grpc.aio.insecure_channel(target(node)) as channel:
        call = channel.unary_unary("/chordmq.v1.ChordMQ/Publish")
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call(b"\xff\xff\xff")
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await channel.unary_unary("/chordmq.v1.ChordMQ/Nothing")(b"")
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert await channel.unary_unary("/chordmq.v1.ChordMQ/ListTopics")(b"") is not None

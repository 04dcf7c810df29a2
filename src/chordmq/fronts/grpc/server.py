"""The library's server, which only our own relays can use, and how its calls become ours."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from chordmq.codecs.grpc.messages import METHODS, SERVICE, message
from chordmq.errors import (
    AuthenticationFailed,
    ChordMQError,
    InvalidRequest,
    PolicyViolation,
    ShuttingDown,
)
from chordmq.fronts.grpc.errors import abort
from chordmq.fronts.grpc.handlers import STREAMING, UNARY, Streaming, Unary
from chordmq.fronts.grpc.mapping import to_credentials
from chordmq.fronts.rpc.front import RpcFront
from chordmq.fronts.rpc.relay import Relay
from chordmq.fronts.rpc.session import STOPPING, Session, Who
from chordmq.logs import get_logger

log = get_logger(__name__)

REFLECTION = "grpc.reflection.v1.ServerReflection"
NAME_KEY = "chordmq-client"
NAME_LENGTH_MAX = 200
CALLS_MAX = 1_000
"""Calls of one connection at the same time."""
FOR_EVER_S = 3600.0
CLOSE_TIMEOUT_S = 1.0
FIRST_REQUEST_TIMEOUT_S = 1.0
"""How long the refusal of a stream waits for what its client is about to send."""

Context = Any
"""What the library knows of a call."""


class GrpcServer:
    """Serves what the relays bring, on the node's own loop."""

    def __init__(self, front: RpcFront, relay: Callable[[str], Relay | None]) -> None:
        """Serve clients that `relay` knows by the library's name for them, and nobody else."""
        self._front = front
        self._relay = relay
        self.name = f"chordmq-{uuid.uuid4().hex}"
        self._health = health.aio.HealthServicer()
        self._draining: asyncio.Task[None] | None = None
        self._streams: Counter[Relay] = Counter()
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", front.settings.frame_size_max),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", CALLS_MAX),
            ]
        )

    async def open(self) -> None:
        """Begin to serve."""
        own = {name: self._handler(name) for name in METHODS}
        services = [SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME, REFLECTION]
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(SERVICE, own),
                grpc.method_handlers_generic_handler(REFLECTION, _reflection(services)),
            )
        )
        reflection.enable_server_reflection(services, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._server.add_insecure_port(f"unix-abstract:{self.name}")
        await self._server.start()

    def drain(self) -> None:
        """Take no new calls, end subscriptions and let other calls finish."""
        if self._draining is None:
            self._draining = self._front.listener.tasks.create_task(self._drain())

    async def _drain(self) -> None:
        await self._health.enter_graceful_shutdown()
        self._front.end()
        await self._server.stop(FOR_EVER_S)  # the listener hangs up when it has waited enough

    async def close(self) -> None:
        """Stop, after the last client has gone."""
        await self._server.stop(CLOSE_TIMEOUT_S)

    def _handler(self, name: str) -> Any:
        method = METHODS[name]
        kind = message(method.input_type.name)
        write = message(method.output_type.name).SerializeToString
        if name in STREAMING:
            handle = self._streaming(STREAMING[name], kind)
            return grpc.stream_stream_rpc_method_handler(handle, None, write)
        return grpc.unary_unary_rpc_method_handler(self._unary(UNARY[name], kind), None, write)

    def _unary(self, method: Unary, kind: Any) -> Any:
        async def handle(request: bytes, context: Context) -> Any:
            async with _answered(context), self._session(context) as session:
                return await method(session, _parsed(kind, request))

        return handle

    def _streaming(self, method: Streaming, kind: Any) -> Any:
        async def handle(requests: Any, context: Context) -> None:
            async with _answered(context), AsyncExitStack() as stack:
                try:
                    session = await stack.enter_async_context(self._session(context, lasts=True))
                except ChordMQError:
                    await _heard_out(context)
                    raise
                one_at_a_time = asyncio.Lock()

                async def read() -> Any:
                    request = await _before(session.ended, context.read())
                    is_over = request is None or request is grpc.aio.EOF
                    return None if is_over else _parsed(kind, request)

                async def write(answer: Any) -> None:
                    async with one_at_a_time:
                        await context.write(answer)

                await method(session, read, write)
                session.check_ended()

        return handle

    def _check_streams(self, relay: Relay) -> None:
        limit = self._front.settings.subscriptions_max
        if self._streams[relay] >= limit:
            raise PolicyViolation(f"{limit} streams are open, which is grpc.subscriptions_max")

    @asynccontextmanager
    async def _session(self, context: Context, *, lasts: bool = False) -> AsyncIterator[Session]:
        """Log a call's client in; a call that lasts is a client among those that are there."""
        front, relay = self._front, self._relay(context.peer())
        if relay is None:
            raise AuthenticationFailed("come in by the listener")
        if self._draining is not None:
            raise ShuttingDown(STOPPING)
        relay.calls += 1
        session: Session | None = None
        try:
            if lasts:
                self._check_streams(relay)
            metadata = dict(context.invocation_metadata() or ())
            credentials = to_credentials(str(metadata.get("authorization", "")))
            login = await front.log_in(credentials, relay.host, relay.certified())
            name = str(metadata.get(NAME_KEY, ""))[:NAME_LENGTH_MAX]
            session = Session(front, Who(login.principal, relay.host, name, uuid.uuid4().hex))
            if lasts:
                self._streams[relay] += 1
                front.enter(session, login)
            yield session
        finally:
            relay.calls -= 1
            if session is not None:
                front.leave(session)
                if lasts:
                    self._streams[relay] -= 1
                    self._streams = +self._streams  # without those that have none


@asynccontextmanager
async def _answered(context: Context) -> AsyncIterator[None]:
    """Have a failure told as a status, and keep the code of this node to itself."""
    try:
        yield
    except ChordMQError as error:
        await abort(context, error)
    except grpc.aio.BaseError:
        raise
    except Exception:
        log.exception("call failed", listener="grpc")
        await context.abort(grpc.StatusCode.INTERNAL, "a fault of this node; its log says more")


async def _heard_out(context: Context) -> None:
    """Take a client's first request before its stream is refused.

    A Python client whose first write finds the stream ended says INTERNAL, not what we said.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_REQUEST_TIMEOUT_S):
            await context.read()


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InvalidRequest(f"these bytes are no {kind.DESCRIPTOR.name}") from None


async def _before(end: asyncio.Event, work: Any) -> Any:
    """Return what comes of work; None if the end comes first."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(end.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return await tasks[0] if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()


def _reflection(services: list[str]) -> dict[str, Any]:
    """Return the methods of the newer reflection service, whose messages are those of the old."""
    handler = grpc.stream_stream_rpc_method_handler(
        reflection.aio.ReflectionServicer(services).ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return {"ServerReflectionInfo": handler}

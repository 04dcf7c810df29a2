"""One connection to a broker: versions agreed, requests pipelined, answers matched by number."""

import asyncio
import os
import ssl
import struct
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar, Protocol, TypeVar, cast

from chordmq.client.codes import Code
from chordmq.client.errors import (
    CannotConnect,
    ClientError,
    Closed,
    ConnectionLost,
    ProtocolMismatch,
    RequestTimedOut,
    check,
)
from chordmq.client.security import Security, log_in
from chordmq.codecs.kafka.decoder import skip_tags
from chordmq.codecs.kafka.header import API_VERSIONS, is_flexible, request_head
from chordmq.codecs.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chordmq.codecs.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from chordmq.codecs.kafka.messages.sasl_handshake import SaslHandshakeRequest
from chordmq.codecs.kafka.schema import decode, encode
from chordmq.dataclass import dataclass
from chordmq.errors import DecodeError
from chordmq.version import VERSION

FRAME_SIZE_MAX = 256 * 1024 * 1024
SOFTWARE_NAME = "chordmq-python"

# Newer versions of Produce, Fetch, OffsetCommit and OffsetFetch name topics by id alone, and the
# client speaks of them by name; older ones of the rest keep the same facts in other fields (brokers
# before Kafka 3.0). Newer versions of the transaction requests are for brokers, or for clients that
# change their epoch with every transaction.
SPOKEN = {
    0: range(3, 13),
    1: range(4, 13),
    8: range(2, 10),
    9: range(8, 10),
    10: range(4, 7),
    13: range(3, 6),
    20: range(6, 7),
    24: range(4),
    26: range(5),
    28: range(3, 5),
}

LOGIN = frozenset({SaslHandshakeRequest.api_key, SaslAuthenticateRequest.api_key})

_SIZE = struct.Struct(">i")
_ERROR_CODE = struct.Struct(">h")


class Message(Protocol):
    """A top-level message of the codec."""

    api_key: ClassVar[int]
    versions: ClassVar[range]
    flexible_since: ClassVar[int | None]


R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How the client presents itself, and how patient it is."""

    client_id: str = "chordmq"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    security: Security = field(default_factory=Security)


@dataclass(slots=True)
class _Waiting:
    """A request whose answer is still to come."""

    read: Callable[[memoryview], Any]
    future: asyncio.Future[Any]
    timer: asyncio.TimerHandle


class Connection(asyncio.Protocol):
    """One TCP connection; opened by `connect`, never reopened: the cluster makes a new one."""

    def __init__(self, address: Address, settings: ConnectionSettings) -> None:
        self.address = address
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: dict[int, _Waiting] = {}
        self._number = 0
        self._versions: dict[int, range] = {}
        self._failure: ClientError | None = None
        self._held: list[bytes] | None = None
        """Requests kept back while the client logs in again; None when it does not."""
        self._renewal: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return self._failure is None

    def knows(self, request: type[Message]) -> bool:
        """Return whether the broker has said that it answers such requests."""
        return request.api_key in self._versions

    def version_for(self, request: type[Message]) -> int:
        """Return the highest version of a request that both sides speak."""
        theirs = self._versions.get(request.api_key)
        ours = SPOKEN.get(request.api_key, request.versions)
        if theirs is None:
            raise ProtocolMismatch(f"{self.address} does not know {request.__name__}")
        highest = min(ours[-1], theirs[-1])
        if highest < max(ours[0], theirs[0]):
            raise ProtocolMismatch(
                f"{self.address} speaks {request.__name__} {theirs[0]}-{theirs[-1]}, "
                f"this client {ours[0]}-{ours[-1]}"
            )
        return highest

    def send(
        self, request: Message, answer: type[R], timeout_s: float | None = None
    ) -> asyncio.Future[R]:
        """Send a request now; the future gets its answer, a ConnectionLost or a RequestTimedOut."""
        version = self.version_for(type(request))

        def read(body: memoryview) -> R:
            return decode(answer, version, body)

        return self._send(request, version, read, timeout_s)

    async def call(self, request: Message, answer: type[R], timeout_s: float | None = None) -> R:
        """Send a request and wait for its answer."""
        return await self.send(request, answer, timeout_s)

    def tell(self, request: Message) -> None:
        """Send a request that the broker never answers (Produce with acks=0)."""
        self._write(request, self.version_for(type(request)))

    def close(self, reason: ClientError | None = None) -> None:
        """Close at once; what still waits for an answer fails with the reason."""
        self._fail(reason or Closed(f"the connection to {self.address} was closed"))
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport that the event loop opened."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everything that still waits for an answer."""
        self._fail(ConnectionLost(f"{self.address} closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Cut the stream into frames and hand each to the request it answers."""
        buffer = self._buffer
        buffer += data
        position, end = 0, len(buffer)
        while end - position >= _SIZE.size and self.is_open:
            (size,) = _SIZE.unpack_from(buffer, position)
            if not _SIZE.size <= size <= FRAME_SIZE_MAX:
                self.close(ProtocolMismatch(f"{self.address} does not speak the Kafka protocol"))
                return
            if end - position < _SIZE.size + size:
                break
            position += _SIZE.size
            self._receive(bytes(memoryview(buffer)[position : position + size]))
            position += size
        del buffer[:position]

    async def negotiate(self) -> None:
        """Ask which versions the broker speaks; step down when it does not know ours."""
        answer = await self._ask_versions(ApiVersionsRequest.versions[-1])
        if answer.error_code == Code.UNSUPPORTED_VERSION:
            known = {row.api_key: row.max_version for row in answer.api_keys}
            answer = await self._ask_versions(known.get(ApiVersionsRequest.api_key, 0))
        check(answer.error_code, f"{self.address} refuses to name its versions")
        self._versions = {
            row.api_key: range(row.min_version, row.max_version + 1) for row in answer.api_keys
        }

    async def log_in(self) -> None:
        """Prove who we are, if there is something to prove; do so again before it runs out."""
        if not self._settings.security.sasl:
            return
        renewal_s = await log_in(self, self._settings.security)
        if renewal_s is not None and self.is_open:
            self._renewal = self._loop.call_later(renewal_s, self._renew)

    def _renew(self) -> None:
        self._renewing = self._loop.create_task(self._log_in_again())

    async def _log_in_again(self) -> None:
        """Log in while other requests wait: between its steps a broker answers nothing else."""
        self._held = []
        try:
            await self.log_in()
        except ClientError as error:
            self.close(error)
        finally:
            held, self._held = self._held, None
            if held and self.is_open and self._transport is not None:
                self._transport.writelines(held)

    def _ask_versions(self, version: int) -> asyncio.Future[ApiVersionsResponse]:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=VERSION
        )

        def read(body: memoryview) -> ApiVersionsResponse:
            # A broker that does not know the version answers in version 0 (KIP-511).
            refused = len(body) >= 2 and _ERROR_CODE.unpack_from(body)[0] != 0
            return decode(ApiVersionsResponse, 0 if refused else version, body)

        return self._send(request, version, read, self._settings.connect_timeout_s)

    def _send(
        self,
        request: Message,
        version: int,
        read: Callable[[memoryview], R],
        timeout_s: float | None,
    ) -> asyncio.Future[R]:
        future: asyncio.Future[R] = self._loop.create_future()
        number = self._write(request, version)
        patience = self._settings.request_timeout_s if timeout_s is None else timeout_s
        timer = self._loop.call_later(patience, self._expire, type(request).__name__, patience)

        def read_frame(frame: memoryview) -> R:
            tagged = request.api_key != API_VERSIONS and is_flexible(request.api_key, version)
            return read(frame[skip_tags(frame, _SIZE.size) if tagged else _SIZE.size :])

        self._waiting[number] = _Waiting(read_frame, future, timer)
        return future

    def _write(self, request: Message, version: int) -> int:
        if self._failure is not None:
            raise ConnectionLost(str(self._failure))
        assert self._transport is not None
        self._number = (self._number + 1) & 0x7FFFFFFF
        head = request_head(request.api_key, version, self._number, self._settings.client_id)
        body = encode(request, version)
        self._put((_SIZE.pack(len(head) + len(body)), head, body), request.api_key)
        return self._number

    def _put(self, buffers: Sequence[bytes | bytearray], api_key: int) -> None:
        assert self._transport is not None
        if self._held is None or api_key in LOGIN:
            self._transport.writelines(buffers)
        else:
            self._held += map(bytes, buffers)

    def _receive(self, frame: bytes) -> None:
        (number,) = _SIZE.unpack_from(frame)
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            self.close(ProtocolMismatch(f"{self.address} answers a request that was never sent"))
            return
        waiting.timer.cancel()
        try:
            answer = waiting.read(memoryview(frame))
        except DecodeError as error:
            mismatch = ProtocolMismatch(f"cannot read the answer of {self.address}: {error}")
            _refuse(waiting.future, mismatch)
            self.close(mismatch)
            return
        if not waiting.future.done():
            waiting.future.set_result(answer)

    def _expire(self, request: str, patience_s: float) -> None:
        # Answers come in order, so nothing sent after a stuck request would be answered either.
        self.close(RequestTimedOut(f"{self.address} did not answer {request} in {patience_s:g} s"))

    def _fail(self, reason: ClientError) -> None:
        if self._failure is not None:
            return
        self._failure = reason
        if self._renewal is not None:
            self._renewal.cancel()
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.timer.cancel()
            _refuse(one.future, reason)


def _refuse(future: asyncio.Future[Any], reason: ClientError) -> None:
    if not future.done():
        future.set_exception(reason)
        # An answer nobody waits for any more is not worth a warning of the event loop.
        future.exception()


def _reason(error: OSError) -> str:
    """Return the system's words; event loops put their own in their place."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or 'unknown').lower().replace('_', ' ')}"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or str(error)).lower()


async def connect(address: Address, settings: ConnectionSettings) -> Connection:
    """Open a connection, agree on versions and log in, or raise CannotConnect."""
    loop = asyncio.get_running_loop()
    try:
        context = settings.security.context()
    except OSError as error:
        raise CannotConnect(f"the files for TLS cannot be used: {_reason(error)}") from error
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            _, connection = await loop.create_connection(
                lambda: Connection(address, settings), address.host, address.port, ssl=context
            )
    except TimeoutError as error:
        raise CannotConnect(
            f"cannot connect to {address}: no answer in {settings.connect_timeout_s:g} s"
        ) from error
    except OSError as error:
        raise CannotConnect(f"cannot connect to {address}: {_reason(error)}") from error
    try:
        await connection.negotiate()
        await connection.log_in()
    except (ConnectionLost, RequestTimedOut, ProtocolMismatch) as error:
        connection.close()
        raise CannotConnect(
            f"{address} accepts connections but does not speak Kafka: {error}"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection

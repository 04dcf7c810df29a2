"""Calls etcd's JSON gateway over HTTP: the next endpoint where one fails, time limits on all."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

import h11
import msgspec

from chordmq.dataclass import dataclass
from chordmq.errors import StoreUnavailable, UnknownOutcome

IDLE_CONNECTIONS_MAX = 8
ANSWER_SIZE_MAX = 256 << 20
READ_SIZE = 1 << 16
DEFAULT_PORT = 2379


class GatewayRefused(Exception):
    """The endpoint understood the call and refused it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        """As gRPC counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Where etcd is and how it is called."""

    endpoints: tuple[str, ...]
    timeout_s: float = 1.0
    """How long one endpoint may take to answer."""
    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | None = None


class _Connection:
    """One HTTP/1.1 connection, used by one call at a time."""

    def __init__(
        self, endpoint: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=ANSWER_SIZE_MAX)

    def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        fields = [("host", urlsplit(self.endpoint).netloc), ("content-length", str(len(body)))]
        request = h11.Request(method="POST", target=path, headers=[*fields, *headers.items()])
        for event in (request, h11.Data(body), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")

    async def status(self) -> int:
        event = await self._next()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next()
        if not isinstance(event, h11.Response):
            raise ConnectionError("no answer")
        return event.status_code

    async def data(self) -> bytes | None:
        """Return the next piece of the body; None at its end."""
        event = await self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_SIZE))
        return event

    def is_reusable(self) -> bool:
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return not self._reader.at_eof()

    def is_open(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()


class Gateway:
    """Calls whichever endpoint answers, beginning with the one that answered last."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._endpoints = list(settings.endpoints)
        self._idle: list[_Connection] = []
        self._token = ""

    async def read(self, path: str, body: object) -> Any:
        """Make a call that changes nothing, at each endpoint in turn until one answers."""
        failure: Exception | None = None
        for _ in self._endpoints:
            try:
                return await self._call(path, body)
            except UnknownOutcome as error:
                failure = error
        raise StoreUnavailable(str(failure))

    async def write(self, path: str, body: object) -> Any:
        """Make a call that changes something: once, or at another endpoint if it was not sent.

        Raises UnknownOutcome if it was sent and not answered.
        """
        return await self._call(path, body)

    async def stream(self, path: str, body: object) -> AsyncGenerator[Any, None]:
        """Yield the answers to a call that goes on; ends or raises when the connection does."""
        headers = await self._headers()
        connection = await self._connected()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                connection.send(path, msgspec.json.encode(body), headers)
                status = await connection.status()
            buffer = b""
            while (piece := await connection.data()) is not None:
                *lines, buffer = (buffer + piece).split(b"\n")
                for line in filter(None, lines):
                    yield _result(status, line)
            if buffer:
                yield _result(status, buffer)
        except (TimeoutError, OSError, h11.ProtocolError) as error:
            self._pass_over(connection.endpoint)
            raise StoreUnavailable(f"{connection.endpoint} went away: {_why(error)}") from None
        finally:
            connection.close()

    def _pass_over(self, endpoint: str) -> None:
        """Ask an endpoint last from now on; several calls that failed there do so once."""
        if self._endpoints[0] == endpoint:
            self._endpoints.append(self._endpoints.pop(0))
        for connection in [one for one in self._idle if one.endpoint == endpoint]:
            self._idle.remove(connection)
            connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _headers(self) -> dict[str, str]:
        if self._settings.user and not self._token:
            body = {"name": self._settings.user, "password": self._settings.password}
            answer = await self._exchange("/v3/auth/authenticate", msgspec.json.encode(body), {})
            self._token = answer["token"]
        return {"authorization": self._token} if self._token else {}

    async def _call(self, path: str, body: object) -> Any:
        return await self._exchange(path, msgspec.json.encode(body), await self._headers())

    async def _exchange(self, path: str, data: bytes, headers: Mapping[str, str]) -> Any:
        connection = await self._connected()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                connection.send(path, data, headers)
                status = await connection.status()
                pieces = []
                while (piece := await connection.data()) is not None:
                    pieces.append(piece)
        except (TimeoutError, OSError, h11.ProtocolError) as error:
            connection.close()
            self._pass_over(connection.endpoint)
            raise UnknownOutcome(f"{connection.endpoint} did not answer: {_why(error)}") from None
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return self._checked(connection.endpoint, status, b"".join(pieces))

    def _checked(self, endpoint: str, status: int, body: bytes) -> Any:
        try:
            return _result(status, body)
        except GatewayRefused as refused:
            if refused.code in _NOT_NOW:
                self._pass_over(endpoint)
                raise UnknownOutcome(str(refused)) from None
            if refused.code == _UNAUTHENTICATED:
                self._token = ""
                raise StoreUnavailable(str(refused)) from None
            if refused.code == _EXHAUSTED:
                raise StoreUnavailable(str(refused)) from None
            raise

    def _keep(self, connection: _Connection) -> None:
        if len(self._idle) < IDLE_CONNECTIONS_MAX and connection.is_reusable():
            self._idle.append(connection)
        else:
            connection.close()

    async def _connected(self) -> _Connection:
        """Return a connection to the first endpoint that takes one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open():
                return connection
            connection.close()
        failures = []
        for _ in self._endpoints:
            endpoint = self._endpoints[0]
            try:
                return await self._connect(endpoint)
            except (OSError, TimeoutError) as error:
                failures.append(f"{endpoint}: {_why(error)}")
                self._pass_over(endpoint)
        raise StoreUnavailable(f"no endpoint of etcd can be reached: {', '.join(failures)}")

    async def _connect(self, endpoint: str) -> _Connection:
        parts = urlsplit(endpoint)
        tls = self._settings.tls if parts.scheme == "https" else None
        async with asyncio.timeout(self._settings.timeout_s):
            streams = await asyncio.open_connection(
                parts.hostname, parts.port or DEFAULT_PORT, ssl=tls
            )
        return _Connection(endpoint, *streams)


_DEADLINE, _EXHAUSTED, _UNAVAILABLE, _UNAUTHENTICATED = 4, 8, 14, 16
_NOT_NOW = (_DEADLINE, _UNAVAILABLE)
"""Codes of gRPC after which a call may or may not have had its effect."""


def _why(error: Exception) -> str:
    return str(error) or "time is up"


def _result(status: int, body: bytes) -> Any:
    """Return what an answer holds, or raise GatewayRefused."""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise UnknownOutcome(f"etcd answered {status} with no JSON") from None
    refusal = answer.get("error")
    if isinstance(refusal, dict):
        raise GatewayRefused(refusal.get("grpc_code", 2), refusal.get("message", ""))
    if refusal is not None:
        raise GatewayRefused(answer.get("code", 2), str(refusal))
    return answer.get("result", answer)

"""A small HTTP client for the event loop: one connection that stays open, one request at a time."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

BODY_BYTES_MAX = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 5.0
READ_BYTES = 256 * 1024


class Unreachable(Exception):
    """Nobody answers at an address, or not in HTTP."""


class Answer(NamedTuple):
    """What a server answered; names of headers are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytearray


class HttpClient:
    """Talks to one server; a connection that broke is opened anew with the next request."""

    def __init__(self, url: str, token: str = "", context: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self.url = url
        self._host, self._is_tls = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._context = (context or ssl.create_default_context()) if self._is_tls else None
        self._headers = {"host": parts.netloc}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._state = h11.Connection(h11.CLIENT)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Return the answer to a request, or raise Unreachable; the server may have got it then."""
        sent = {**self._headers, "content-length": str(len(body)), **(headers or {})}
        if body:
            sent.setdefault("content-type", "application/json")
        request = h11.Request(method=method, target=path, headers=list(sent.items()))
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._exchange(request, body)
        except (OSError, TimeoutError, h11.ProtocolError, EOFError) as error:
            self.close()
            raise Unreachable(f"{self.url}: {str(error) or type(error).__name__}") from None
        except asyncio.CancelledError:
            self.close()
            raise
        if self._state.our_state is h11.MUST_CLOSE or self._state.their_state is h11.MUST_CLOSE:
            self.close()
        else:
            self._state.start_next_cycle()
        return answer

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _exchange(self, request: h11.Request, body: bytes) -> Answer:
        reader, writer = await self._connected()
        state = self._state
        data = state.send(request) or b""
        if body:
            data += state.send(h11.Data(data=body)) or b""
        writer.write(data + (state.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        status, headers, received = 0, {}, bytearray()
        while True:
            event = state.next_event()
            if event is h11.NEED_DATA:
                state.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
            elif isinstance(event, h11.Data):
                received += event.data
                if len(received) > BODY_BYTES_MAX:
                    raise EOFError("the answer is too long")
            elif isinstance(event, h11.EndOfMessage):
                return Answer(status, headers, received)
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError("the server hung up")

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._streams = await asyncio.open_connection(
                    self._host, self._port, ssl=self._context
                )
            self._state = h11.Connection(h11.CLIENT)
        return self._streams

"""Sends answers piece by piece: what a slow reader has not taken is held once, and counted."""

import asyncio
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

STALL_S = 60.0
"""How long a client may read nothing while there is something for it."""
PIECE_BYTES = 64 * 1024


class Paced(Response):
    """An answer that waits for its reader; `on_sent` is called when nothing of it is held."""

    on_sent: Callable[[], None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or give up on a client that does not read."""
        send = patient(scope, send)
        head = {"type": "http.response.start", "status": self.status_code}
        try:
            await send(head | {"headers": self.raw_headers})
            body = memoryview(self.body)
            for start in range(0, len(body), PIECE_BYTES):
                await send(_piece(bytes(body[start : start + PIECE_BYTES]), has_more=True))
            await send(_piece(b"", has_more=False))
        except TimeoutError:
            pass  # the connection is gone
        finally:
            if self.on_sent is not None:
                self.on_sent()


def patient(scope: Scope, send: Send) -> Send:
    """Return a `send` that ends the connection when the client reads nothing for too long."""

    async def bounded(message: Message) -> None:
        try:
            async with asyncio.timeout(STALL_S):
                await send(message)
        except TimeoutError:
            abort: Callable[[], None] | None = scope.get("state", {}).get("abort")
            if abort is not None:
                abort()
            raise

    return bounded


def _piece(body: bytes, *, has_more: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": has_more}

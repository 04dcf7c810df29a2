"""Drives one Cap'n Proto client in the front's process."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import capnp

if TYPE_CHECKING:
    from chordmq.fronts.capnp.worker import Worker

WORD = 8

T = TypeVar("T")


class CapnpConnection:
    """One connection: what is under way for its client, and whom to ask."""

    def __init__(self, worker: "Worker", number: str, theirs: socket.socket) -> None:
        self.window_bytes = worker.window_bytes
        self._worker = worker
        self._number = number
        self._socket = theirs
        self._numbers = itertools.count()
        self._calls = 0
        self._deliveries: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup
        self._rest = asyncio.Event()
        """Set when a call or a delivery has ended."""
        self._is_finishing = asyncio.Event()

    async def serve(self) -> None:
        """Answer calls until the client leaves, or all is answered that must be."""
        # Here, for what clients can call needs to know what a connection is.
        from chordmq.fronts.capnp.handlers import Door

        limit = 4 * self._worker.frame_size_max // WORD
        stream = await capnp.AsyncIoStream.create_connection(sock=self._socket)
        server = capnp.TwoPartyServer(stream, bootstrap=Door(self), traversal_limit_in_words=limit)
        async with asyncio.TaskGroup() as self._tasks:
            finishing = self._tasks.create_task(self._hang_up(stream))
            await server.on_disconnect()
            for task in (finishing, *self._deliveries):
                task.cancel()

    async def ask(self, method: str, *arguments: Any, returns: type[T] | Any = None) -> Any:
        """Have the node do something for the client; return the result, or raise Failed."""
        return await self._worker.ask(self._number, method, arguments, returns)

    def tell(self, method: str, *arguments: Any) -> None:
        """Have the node do something for the client, and do not wait for it."""
        self._worker.tell(self._number, method, arguments)

    def new_number(self) -> int:
        """Return a number for one more producer or subscription."""
        return next(self._numbers)

    def begin(self, delivery: Coroutine[Any, Any, None]) -> None:
        """Deliver messages beside the calls, until the client leaves."""
        task = self._tasks.create_task(delivery)
        self._deliveries.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._deliveries.discard(task)
        self._rest.set()

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Count a call while it is under way."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._rest.set()

    def finish(self) -> None:
        """Hang up when all calls are answered and all subscribers know of their end."""
        self._is_finishing.set()

    async def _hang_up(self, stream: Any) -> None:
        await self._is_finishing.wait()
        while self._calls or self._deliveries:
            self._rest.clear()
            await self._rest.wait()
        stream.close()

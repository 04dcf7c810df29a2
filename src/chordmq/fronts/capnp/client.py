"""One Cap'n Proto client: its connection in the front's thread, its session on the node's loop."""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import capnp
import structlog

from chordmq.errors import InvalidRequest, ShuttingDown
from chordmq.fronts.capnp.thread import CapnpThread
from chordmq.fronts.rpc.front import Credentials, RpcFront
from chordmq.fronts.rpc.relay import Relay
from chordmq.fronts.rpc.session import STOPPING, Session, Who

log = structlog.get_logger(__name__)

NAME_LENGTH_MAX = 200
WORD = 8

T = TypeVar("T")


class Client:
    """One connection; `bootstrap` makes what the client can call first."""

    def __init__(
        self,
        front: RpcFront,
        thread: CapnpThread,
        relay: Relay,
        bootstrap: Callable[["Client"], Any],
    ) -> None:
        self._front = front
        self._thread = thread
        self._relay = relay
        self._bootstrap = bootstrap
        self._certified = relay.certified()
        self._session: Session | None = None
        self._number = uuid.uuid4().hex
        self._deliveries: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup
        self._stream: Any = None
        self._rest = asyncio.Event()
        """Set when a call or a delivery has ended."""
        self.now_ms = front.broker.clock.now_ms
        self.window_bytes = front.settings.window_bytes
        relay.on_drain = self._drain
        relay.on_closed = self._leave

    # On the node's loop.

    async def log_in(self, credentials: Credentials, name: str) -> Session:
        """Let the client in, once; until its token expires."""
        relay, front = self._relay, self._front
        login = await front.log_in(credentials, relay.host, self._certified)
        if self._session is not None:
            raise InvalidRequest("the client is logged in already")
        who = Who(login.principal, relay.host, name[:NAME_LENGTH_MAX], self._number)
        self._session = session = Session(front, who)
        session.on_shut_out = relay.close
        front.enter(session, login)
        relay.framing.size_max = front.settings.frame_size_max
        return session

    def _drain(self) -> None:
        if self._session is not None:
            self._session.end(ShuttingDown(STOPPING))
        self._thread.tell(lambda: self._tasks.create_task(self._finish()))

    def _leave(self) -> None:
        if self._session is not None:
            self._front.leave(self._session)

    # In the thread.

    async def serve(self, theirs: socket.socket) -> None:
        """Answer calls until the client leaves."""
        try:
            self._stream = await capnp.AsyncIoStream.create_connection(sock=theirs)
            async with asyncio.TaskGroup() as self._tasks:
                server = capnp.TwoPartyServer(
                    self._stream,
                    bootstrap=self._bootstrap(self),
                    traversal_limit_in_words=4 * self._front.settings.frame_size_max // WORD,
                )
                await server.on_disconnect()
                for task in self._deliveries:
                    task.cancel()
        except Exception:
            log.exception("connection failed", listener="capnp", address=self._relay.host)
        finally:
            theirs.close()

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work on the node's loop, and return or raise what comes of it."""
        return await self._thread.ask(work)

    def post(self, what: Callable[..., None], *arguments: Any) -> None:
        """Have something called on the node's loop."""
        self._thread.post(what, *arguments)

    def begin(self, delivery: Coroutine[Any, Any, None]) -> None:
        """Deliver messages beside the calls, until the client leaves."""
        task = self._tasks.create_task(delivery)
        self._deliveries.add(task)
        self._relay.calls += 1
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._deliveries.discard(task)
        self._relay.calls -= 1
        self._rest.set()

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Count a call while it is under way."""
        self._relay.calls += 1
        try:
            yield
        finally:
            self._relay.calls -= 1
            self._rest.set()

    async def _finish(self) -> None:
        """Hang up when all calls are answered and all subscriptions have been told of their end."""
        while self._relay.calls:
            self._rest.clear()
            await self._rest.wait()
        self._stream.close()

"""The thread that runs Cap'n Proto, and the way between it and the node's event loop.

pycapnp needs an event loop of Python's own kind; on the node's it crashes. What happens here takes
no part in the broker's state: it reads calls, hands them over and writes answers.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import capnp
import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")


class CapnpThread:
    """One thread for all clients; `start` and `stop` are called on the node's loop."""

    def __init__(self) -> None:
        self._home: asyncio.AbstractEventLoop
        self._loop: asyncio.AbstractEventLoop
        self._clients: asyncio.TaskGroup
        self._serving: asyncio.Task[None]
        self._thread = threading.Thread(target=self._run, name="capnp", daemon=True)
        self._posted: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._ready: asyncio.Future[None]

    async def start(self) -> None:
        """Start the thread, and return when it serves."""
        self._home = asyncio.get_running_loop()
        self._ready = self._home.create_future()
        self._thread.start()
        await self._ready

    async def stop(self) -> None:
        """End all clients' work and the thread."""
        self._loop.call_soon_threadsafe(self._serving.cancel)
        await asyncio.to_thread(self._thread.join)

    # Called on the node's loop.

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run work in the thread."""
        self._loop.call_soon_threadsafe(lambda: self._clients.create_task(work()))

    def tell(self, what: Callable[..., object], *arguments: Any) -> None:
        """Have something called in the thread; nothing, if it has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what, *arguments)

    # Called in the thread.

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work on the node's loop, and return or raise what comes of it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    def post(self, what: Callable[..., None], *arguments: Any) -> None:
        """Have something called on the node's loop; what is posted in one turn goes together."""
        if not self._posted:
            self._loop.call_soon(self._send)
        self._posted.append((what, arguments))

    def _send(self) -> None:
        posted, self._posted = self._posted, []
        self._home.call_soon_threadsafe(_call_all, posted)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve())
        except asyncio.CancelledError:
            return
        except Exception:
            log.exception("the Cap'n Proto thread has ended")

    async def _serve(self) -> None:
        """Serve clients until cancelled."""
        self._loop = asyncio.get_running_loop()
        async with capnp.kj_loop(), asyncio.TaskGroup() as self._clients:
            self._serving = self._clients.create_task(_for_ever())
            self._home.call_soon_threadsafe(self._ready.set_result, None)
            await self._serving


async def _for_ever() -> None:
    await asyncio.Event().wait()


def _call_all(posted: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
    for what, arguments in posted:
        what(*arguments)

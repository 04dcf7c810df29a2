"""The process that runs Cap'n Proto for the node, and the node's end of the link to it.

pycapnp crashes on the node's kind of event loop, and in a thread of the node it ends the process
whenever Python's garbage collector frees one of its objects from another thread. In a process of
its own its faults end its clients' connections and nothing else, and it has a core of its own.
"""

import asyncio
import socket
import sys
from typing import cast

from chordmq.codecs.capnp.link import (
    UNANSWERED,
    Answer,
    Ask,
    Finish,
    GiveUp,
    Message,
    Unframer,
    framed,
    packed,
)
from chordmq.errors import ChordMQError
from chordmq.fronts.capnp.visitor import DECODERS, METHODS, Visitor
from chordmq.logs import get_logger

log = get_logger(__name__)

PROGRAM = "chordmq.fronts.capnp.worker"
STOP_TIMEOUT_S = 5.0


class CapnpProcess(asyncio.Protocol):
    """One process for all clients; started with the first, and again if it fails."""

    def __init__(self, tasks: asyncio.TaskGroup, frame_size_max: int, window_bytes: int) -> None:
        """Do what clients ask among the tasks of the listener."""
        self._tasks = tasks
        self._settings = (frame_size_max, window_bytes)
        self._transport: asyncio.Transport
        self._process: asyncio.subprocess.Process
        self._sockets: socket.socket
        self._unframer = Unframer()
        self._visitors: dict[str, Visitor] = {}
        self._works: dict[int, asyncio.Task[None]] = {}
        self._out: list[bytes] = []
        self.is_running = False

    async def start(self) -> None:
        """Start the process; what is said before it listens waits for it."""
        link, its_link = socket.socketpair()
        self._sockets, its_sockets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.setblocking(False)
        with its_link, its_sockets:
            handed = (its_link.fileno(), its_sockets.fileno())
            arguments = [str(number) for number in (*handed, *self._settings)]
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", PROGRAM, *arguments, pass_fds=handed, start_new_session=True
            )
        await asyncio.get_running_loop().create_connection(lambda: self, sock=link)

    async def stop(self) -> None:
        """End the process: it does so by itself when the link ends."""
        self._transport.close()
        self._sockets.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def serve(self, visitor: Visitor) -> socket.socket:
        """Have a client served, and return the socket that leads to where it is."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            socket.send_fds(self._sockets, [visitor.number.encode()], [theirs.fileno()])
        self._visitors[visitor.number] = visitor
        return ours

    def finish(self, visitor: Visitor) -> None:
        """Hang up on a client when all its calls are answered."""
        self._send(Finish(visitor.number))

    def forget(self, visitor: Visitor) -> None:
        """Take note that a client has gone."""
        self._visitors.pop(visitor.number, None)

    # What the link tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note that the process can be spoken to."""
        self._transport = cast(asyncio.Transport, transport)
        self.is_running = True

    def data_received(self, data: bytes) -> None:
        """Do what the process asks."""
        for message in self._unframer.receive(data):
            if isinstance(message, Ask):
                self._ask(message)
            elif isinstance(message, GiveUp) and message.number in self._works:
                self._works[message.number].cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Send the clients away whose process has ended."""
        self.is_running = False
        for task in list(self._works.values()):
            task.cancel()
        if self._visitors:
            log.error("the Cap'n Proto process has ended", clients=len(self._visitors))
        for visitor in list(self._visitors.values()):
            visitor.relay.close("the Cap'n Proto process has ended")

    def _ask(self, ask: Ask) -> None:
        task = self._tasks.create_task(self._work(ask))
        if ask.number != UNANSWERED:
            self._works[ask.number] = task
            task.add_done_callback(lambda _: self._works.pop(ask.number, None))

    async def _work(self, ask: Ask) -> None:
        """Do what a client asks, and answer; one client's fault must not end the listener."""
        visitor = self._visitors.get(ask.client)
        if visitor is None:
            return  # the client has gone, and with it who waits for an answer
        visitor.relay.calls += 1
        try:
            method, _ = METHODS[ask.method]
            result = await method(visitor, *DECODERS[ask.method].decode(ask.arguments))
            answer = Answer(ask.number, packed(result))
        except ChordMQError as error:
            answer = Answer(ask.number, error=type(error).__name__, reason=str(error))
        except Exception:
            log.exception("call failed", listener="capnp", method=ask.method)
            reason = "a fault of this node; its log says more"
            answer = Answer(ask.number, error="InternalError", reason=reason)
        finally:
            visitor.relay.calls -= 1
        if ask.number != UNANSWERED:
            self._send(answer)

    def _send(self, message: Message) -> None:
        """Send a message; what is said in one turn of the event loop goes together."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(framed(message))

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self.is_running:
            self._transport.write(b"".join(out))

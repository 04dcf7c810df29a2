"""The Cap'n Proto process: takes clients' sockets from the node, and asks it on their behalf."""

import asyncio
import itertools
import signal
import socket
import sys
from typing import Any, TypeVar

import capnp
import msgspec

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
from chordmq.fronts.capnp.connection import CapnpConnection
from chordmq.fronts.capnp.errors import Failed
from chordmq.logs import LogsSettings, configure, get_logger

log = get_logger(__name__)

NUMBER_SIZE_MAX = 64
READ_SIZE = 256 * 1024

T = TypeVar("T")


class Worker:
    """All clients of the process, and its end of the link to the node."""

    def __init__(self, frame_size_max: int, window_bytes: int) -> None:
        self.frame_size_max = frame_size_max
        self.window_bytes = window_bytes
        self._connections: dict[str, CapnpConnection] = {}
        self._answers: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._numbers = itertools.count()
        self._tasks: asyncio.TaskGroup
        self._writer: asyncio.StreamWriter
        self._out: list[bytes] = []

    async def run(self, link: socket.socket, sockets: socket.socket) -> None:
        """Serve until the node ends the link."""
        reader, self._writer = await asyncio.open_connection(sock=link)
        unframer = Unframer()
        async with capnp.kj_loop(), asyncio.TaskGroup() as self._tasks:
            asyncio.get_running_loop().add_reader(sockets, self._accept, sockets)
            while data := await reader.read(READ_SIZE):
                for message in unframer.receive(data):
                    self._heard(message)
            raise SystemExit(0)

    async def ask(self, client: str, method: str, arguments: Any, kind: type[T]) -> T:
        """Have the node do something for a client; return the result, or raise Failed."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._send(Ask(number, client, method, packed(arguments)))
        try:
            return msgspec.msgpack.decode(await answer, type=kind)
        except asyncio.CancelledError:
            self._send(GiveUp(number))
            raise
        finally:
            del self._answers[number]

    def tell(self, client: str, method: str, arguments: Any) -> None:
        """Have the node do something for a client, and do not wait for it."""
        self._send(Ask(UNANSWERED, client, method, packed(arguments)))

    def _heard(self, message: Message) -> None:
        if isinstance(message, Finish) and message.client in self._connections:
            self._connections[message.client].finish()
        elif isinstance(message, Answer):
            answer = self._answers.get(message.number)
            if answer is not None and not answer.done():
                if message.error:
                    answer.set_exception(Failed(message.error, message.reason))
                else:
                    answer.set_result(msgspec.Raw(bytes(message.result)))

    def _accept(self, sockets: socket.socket) -> None:
        number, handles, _, _ = socket.recv_fds(sockets, NUMBER_SIZE_MAX, 1)
        for handle in handles:
            theirs = socket.socket(fileno=handle)
            theirs.setblocking(False)
            self._tasks.create_task(self._serve(number.decode(), theirs))

    async def _serve(self, number: str, theirs: socket.socket) -> None:
        connection = self._connections[number] = CapnpConnection(self, number, theirs)
        try:
            await connection.serve()
        except Exception:
            log.exception("connection failed", listener="capnp")
        finally:
            del self._connections[number]

    def _send(self, message: Message) -> None:
        """Send a message; what is said in one turn of the event loop goes together."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(framed(message))

    def _flush(self) -> None:
        out, self._out = self._out, []
        self._writer.write(b"".join(out))


def main() -> None:
    """Run the process with the sockets and limits that the node has named."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the node is told, and ends the link
    configure(LogsSettings())
    link, sockets, frame_size_max, window_bytes = map(int, sys.argv[1:])
    worker = Worker(frame_size_max, window_bytes)
    ours = socket.socket(fileno=link)
    ours.setblocking(False)
    asyncio.run(worker.run(ours, socket.socket(fileno=sockets)))


if __name__ == "__main__":
    main()

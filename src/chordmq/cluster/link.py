"""One connection between two nodes: both ask over it, and answers find their requests by number."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import NamedTuple, Protocol, cast

from chordmq.codecs.frames import FrameReader
from chordmq.codecs.peer.frames import (
    TRACE_SIZE,
    Body,
    Form,
    Head,
    Hello,
    Refusal,
    frame,
    read_frame,
    read_hello,
    read_refusal,
    written,
)
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError, DecodeError, StaleBrokerEpoch
from chordmq.logs import get_logger

log = get_logger(__name__)

FRAME_SIZE_MAX = 256 * 1024 * 1024
UNDER_WAY_MAX = 4096
"""Requests of one node that another works on at a time; more are refused."""


class LinkDown(Exception):
    """No connection to the node, or it broke before the answer: the outcome is unknown."""


class AnswerOverdue(LinkDown):
    """The node did not answer in time: the outcome is unknown."""


class PeerRefused(Exception):
    """The node has not done what it was asked; `name` is the error's name there."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class Caller(NamedTuple):
    """Who asks, and in which of its lives."""

    broker: int
    epoch: int


Handler = Callable[[Caller, memoryview], Awaitable[Body]]
"""Carries out a request; what it raises of our errors becomes the refusal."""
NoticeHandler = Callable[[Caller, memoryview], None]
Watcher = Callable[[int], None]


class Home(Protocol):
    """The node at this end of a link."""

    def hello(self) -> Hello:
        """Return who this node is."""
        ...

    def meet(self, link: "Link", hello: Hello) -> None:
        """Take note of who is at the other end; raise DecodeError if it is not welcome."""
        ...

    def part(self, link: "Link") -> None:
        """Take note that the link has ended."""
        ...

    def check(self, caller: Caller) -> None:
        """Raise StaleBrokerEpoch for what an earlier life of a node has sent."""
        ...

    def serve(
        self, caller: Caller, kind: int, body: memoryview, trace: str = ""
    ) -> Awaitable[Body]:
        """Carry out what a node asks; `trace` is the traceparent that it has sent along."""
        ...

    def notice(self, caller: Caller, kind: int, body: memoryview) -> None:
        """Take note of what a node tells."""
        ...

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run the work of one request."""
        ...

    def now_s(self) -> float:
        """Return seconds that never go back."""
        ...


@dataclass(slots=True)
class _Waiting:
    """A request whose answer is still to come."""

    future: asyncio.Future[memoryview]
    timer: asyncio.TimerHandle


class Link(asyncio.BufferedProtocol):
    """Used by both ends alike, whichever dialled; never reopened.

    Reading never stops for a peer that takes no answers, since two nodes that each wait for the
    other to read would wait for ever; the number of requests under way is the bound.
    """

    def __init__(
        self, home: Home, dialled: int | None = None, frame_size_max: int = FRAME_SIZE_MAX
    ) -> None:
        self._home = home
        self._dialled = dialled
        self._reader = FrameReader(frame_size_max)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, _Waiting] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._number = 0
        self._ending = ""
        self.peer: Hello | None = None
        """Who is at the other end, once it has said so."""
        self.met: asyncio.Future[None] = self._loop.create_future()
        """Done when the other end has proved to be whom it should be; fails with LinkDown."""
        self.ended = asyncio.Event()
        self.last_active_s = home.now_s()
        """When something last came."""

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return self.peer is not None and not self._ending

    @property
    def under_way(self) -> int:
        """Return how many requests of the other end this node works on."""
        return len(self._serving)

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return self._reader.is_partial

    def ask(
        self, kind: int, body: Body, timeout_s: float, trace: str = ""
    ) -> asyncio.Future[memoryview]:
        """Send a request now; the future gets its answer, PeerRefused or LinkDown."""
        future: asyncio.Future[memoryview] = self._loop.create_future()
        if not self.is_open:
            future.set_exception(LinkDown(self._ending or "not connected yet"))
            return future
        self._number += 1
        number = self._number
        timer = self._loop.call_later(timeout_s, self._overdue, number, timeout_s)
        self._waiting[number] = _Waiting(future, timer)
        if trace:
            self._send(Form.TRACED, kind, number, [trace.encode("ascii"), *body])
        else:
            self._send(Form.REQUEST, kind, number, body)
        return future

    def tell(self, kind: int, body: Body) -> None:
        """Send a notice, which nobody answers; on a link that has ended it is lost."""
        if self.is_open:
            self._send(Form.NOTICE, kind, 0, body)

    def close(self, reason: str) -> None:
        """End the link; whoever waits for an answer learns that none will come."""
        self._end(reason)
        if self._transport is not None:
            self._transport.close()

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who this node is, if it has dialled."""
        self._transport = cast(asyncio.Transport, transport)
        if self._dialled is not None:
            self._send(Form.HELLO, 0, 0, [written(self._home.hello())])

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the frames that the new bytes complete."""
        self.last_active_s = self._home.now_s()
        try:
            for data in self._reader.received(nbytes):
                if not self._ending:
                    self._take(data)
        except DecodeError as error:
            self.close(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        self._end(str(exc) if exc else "the other node hung up")
        for task in list(self._serving):
            task.cancel()
        try:
            self._home.part(self)
        finally:
            self.ended.set()  # or nobody would dial again

    def _end(self, reason: str) -> None:
        if self._ending:
            return
        self._ending = reason
        if not self.met.done():
            self.met.set_exception(LinkDown(reason))
            self.met.exception()  # nobody need have waited
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.timer.cancel()
            if not one.future.done():
                one.future.set_exception(LinkDown(reason))

    def _overdue(self, number: int, timeout_s: float) -> None:
        waiting = self._waiting.pop(number)
        if not waiting.future.done():
            waiting.future.set_exception(AnswerOverdue(f"no answer within {timeout_s:g} s"))

    def _send(self, form: Form, kind: int, number: int, body: Body) -> None:
        me = self._home.hello()
        assert self._transport is not None
        self._transport.writelines(frame(Head(form, kind, me.broker, me.epoch, number), body))

    # What the other end sends.

    def _take(self, data: memoryview) -> None:
        head, body = read_frame(data)
        if head.form == Form.HELLO:
            self._meet(body)
        elif head.form == Form.REFUSAL and self.peer is None:
            self.close(read_refusal(body).text)
        elif self.peer is None or head.broker != self.peer.broker:
            raise DecodeError("a frame of somebody who has not said hello")
        elif head.form in (Form.REQUEST, Form.TRACED):
            self._begin(head, body)
        elif head.form == Form.NOTICE:
            self._notice(head, body)
        elif head.form in (Form.ANSWER, Form.REFUSAL):
            self._answered(head, body)
        else:
            raise DecodeError(f"a frame of the unknown form {head.form}")

    def _meet(self, body: memoryview) -> None:
        hello = read_hello(body)
        try:
            if self.peer is not None:
                raise DecodeError("a second hello")
            if self._dialled not in (None, hello.broker):
                raise DecodeError(f"node {hello.broker} where node {self._dialled} should be")
            self._home.meet(self, hello)
        except DecodeError as error:
            self._send(Form.REFUSAL, 0, 0, [written(Refusal("Unwelcome", str(error)))])
            raise
        self.peer = hello
        if self._dialled is None:
            self._send(Form.HELLO, 0, 0, [written(self._home.hello())])
        if not self.met.done():
            self.met.set_result(None)

    def _begin(self, head: Head, body: memoryview) -> None:
        if len(self._serving) >= UNDER_WAY_MAX:
            self._refuse(head, "Overloaded", f"{UNDER_WAY_MAX} requests are under way")
            return
        task = self._home.start(self._serve(head, body))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, head: Head, body: memoryview) -> None:
        caller, trace = Caller(head.broker, head.epoch), ""
        if head.form == Form.TRACED:
            trace, body = bytes(body[:TRACE_SIZE]).decode("ascii", "replace"), body[TRACE_SIZE:]
        try:
            self._home.check(caller)
            answer = await self._home.serve(caller, head.kind, body, trace)
        except (ChordMQError, DecodeError) as error:
            self._refuse(head, type(error).__name__, str(error))
        except Exception as error:  # a fault of ours must neither end the link nor hang the caller
            log.exception("a request of another node failed", broker=head.broker, kind=head.kind)
            self._refuse(head, type(error).__name__, "the node has failed to answer")
        else:
            if not self._ending:
                self._send(Form.ANSWER, head.kind, head.number, answer)

    def _notice(self, head: Head, body: memoryview) -> None:
        caller = Caller(head.broker, head.epoch)
        try:
            self._home.check(caller)
            self._home.notice(caller, head.kind, body)
        except StaleBrokerEpoch:
            return
        except DecodeError:
            raise
        except Exception:
            log.exception("a notice of another node failed", broker=head.broker, kind=head.kind)

    def _refuse(self, head: Head, name: str, text: str) -> None:
        if not self._ending:
            refusal = written(Refusal(name, text))
            self._send(Form.REFUSAL, head.kind, head.number, [refusal])

    def _answered(self, head: Head, body: memoryview) -> None:
        waiting = self._waiting.pop(head.number, None)
        if waiting is None:  # given up already
            return
        waiting.timer.cancel()
        if waiting.future.done():  # cancelled by who asked
            return
        if head.form == Form.REFUSAL:
            refusal = read_refusal(body)
            waiting.future.set_exception(PeerRefused(refusal.name, refusal.text))
        else:
            waiting.future.set_result(body)

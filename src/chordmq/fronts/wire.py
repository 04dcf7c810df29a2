"""The bytes of one connection whose client is pushed to: events in, joined writes out, limits."""

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.errors import DecodeError
from chordmq.fronts.gate import Transport
from chordmq.fronts.listener import Listener
from chordmq.logs import get_logger

log = get_logger(__name__)

WRITE_BUFFER_HIGH = 64 * 1024
WRITE_BYTES_MAX = 256 * 1024
"""Bytes that are joined into one write."""
OVERHEAD = 64
"""Bytes that a message takes besides its body, about."""

E = TypeVar("E")


class Reader(Protocol[E]):
    """What turns bytes into events."""

    @property
    def is_partial(self) -> bool:
        """Return whether an event has begun and not ended."""
        ...

    @property
    def held(self) -> int:
        """Return how many bytes are kept of what has not ended."""
        ...

    def receive(self, data: bytes) -> list[E]:
        """Return the events that the bytes complete; raise DecodeError for what is none."""
        ...


class Wire(asyncio.Protocol, Generic[E]):
    """One client's transport.

    Nothing is read while events wait to be worked off. What goes out is joined over one turn of the
    event loop, and stops while the client does not take it: its place in the log is its buffer.
    """

    life_sign = b""
    """What shows the client that we are alive."""

    def __init__(self, listener: Listener, reader: Reader[E]) -> None:
        self.host = ""
        self.certified: Principal = ANONYMOUS
        self.is_closing = False
        """Whether the end was announced by either side."""
        self.is_throttled = False
        """Whether the client has to wait for what it has used beyond its quotas."""
        self.last_active_s = listener.clock.monotonic_s()
        self._listener = listener
        self._reader = reader
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._events: list[E] = []
        self._fault: DecodeError | None = None
        self._arrived = asyncio.Event()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._is_scheduled = False
        self._is_writable = True
        self._is_reading = True
        self._is_closed = False
        self._has_sent = False
        self._heartbeat: asyncio.TimerHandle | None = None
        self._held = 0

    # What each connection does in its own way.

    async def _run(self) -> None:
        """Serve the client until it leaves."""
        raise AssertionError("a connection knows how")

    def _leave(self) -> None:
        """Give back what the client had."""
        raise AssertionError("a connection knows how")

    def _thirst(self) -> None:
        """Let queues deliver to the client again."""
        raise AssertionError("a connection knows how")

    def _charge(self, sent: int) -> None:
        """Charge what was sent, and what came before, to the client's quotas."""
        raise AssertionError("a connection knows how")

    def _forced(self, reason: str) -> DecodeError:
        """Return what ends the connection from our side."""
        raise AssertionError("a connection knows how")

    @property
    def is_waiting(self) -> bool:
        """Return whether the client waits for messages."""
        raise AssertionError("a connection knows")

    # What comes in.

    async def next_event(self) -> E:
        """Return the event that comes next."""
        while not self._events:
            await self._more_events()
        return self._events.pop(0)

    async def next_events(self) -> list[E]:
        """Return what has arrived, at least one event; read on when it is done."""
        while not self._events:
            await self._more_events()
        taken, self._events = self._events, []
        return taken

    async def _more_events(self) -> None:
        if self._fault is not None:
            raise self._fault
        self._arrived.clear()
        self._read(True)
        self._account()
        await self._arrived.wait()

    def answered(self) -> None:
        """Take note that messages of the client are stored, or cannot be."""
        self._arrived.set()

    # What goes out.

    @property
    def has_room(self) -> bool:
        """Return whether the client takes what is sent to it."""
        return (
            self._is_writable
            and self._out_bytes < WRITE_BYTES_MAX
            and not self.is_throttled
            and not self.is_closing
        )

    def room_for(self, sizes: Sequence[int]) -> int:
        """Return how many messages of such sizes go into this turn's write, one at least."""
        left = WRITE_BYTES_MAX - self._out_bytes
        if sum(sizes) + len(sizes) * OVERHEAD <= left:
            return len(sizes)
        for number, size in enumerate(sizes, 1):
            left -= size + OVERHEAD
            if left <= 0:
                return number
        return len(sizes)

    def send(self, data: bytes) -> None:
        """Send bytes at the end of this turn."""
        if data:
            self._out.append(data)
            self._out_bytes += len(data)
            if not self._is_scheduled:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        was_full = self._out_bytes >= WRITE_BYTES_MAX
        if self._out and not self._is_closed:
            self._has_sent = True
            self._transport.write(b"".join(self._out))
            self._charge(self._out_bytes)
        self._out.clear()
        self._out_bytes = 0
        if was_full:
            self._thirst()
        self._account()

    def beat_later(self, interval_s: float, silence_max_s: float) -> None:
        """Show a sign of life in each interval, and end a connection that shows none."""
        loop = asyncio.get_running_loop()
        self._heartbeat = loop.call_later(interval_s, self._beat, interval_s, silence_max_s)

    def _beat(self, interval_s: float, silence_max_s: float) -> None:
        silent_s = self._listener.clock.monotonic_s() - self.last_active_s
        if silent_s > silence_max_s and self._is_reading:
            log.info("silent client", listener=self._listener.name, address=self.host)
            self._transport.abort()
            return
        if not self._has_sent and self._is_writable:
            self.send(self.life_sign)
        self._has_sent = False
        self.beat_later(interval_s, silence_max_s)

    def _hang_up(self) -> None:
        if not self._is_closed:
            self._flush()
            self._is_closed = True
            self._transport.close()

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or hang up."""
        stream = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if peer else ""
        if not self._listener.admit(self, self.host):
            self._is_closed = True
            stream.abort()
            return
        stream.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=0)
        self.begin(stream, self.host, self._listener.principal(transport))

    def succeed(self, former: "Wire[Any]", data: bytes) -> None:
        """Go on with a connection on which the client has turned out to speak our protocol."""
        self._listener.replace(former, self)
        former._transport.set_protocol(self)
        self.begin(former._transport, former.host, former.certified)
        self.data_received(data)

    def begin(self, transport: Transport, host: str, certified: Principal) -> None:
        """Serve a client that is admitted."""
        self._transport = cast(asyncio.Transport, transport)
        self.host, self.certified = host, certified
        self._task = self._listener.tasks.create_task(self._run())

    def data_received(self, data: bytes) -> None:
        """Take the events that the new bytes complete."""
        self.last_active_s = self._listener.clock.monotonic_s()
        if data and self._fault is None:
            try:
                self._events += self._reader.receive(data)
            except DecodeError as fault:
                self._fault = fault
        if self._events or self._fault is not None:
            self._read(False)
        self._arrived.set()
        self._account()

    def pause_writing(self) -> None:
        """Deliver no more while the client does not take what was sent."""
        self._is_writable = False
        self._account()

    def resume_writing(self) -> None:
        """Go on when the client has taken what was sent."""
        self._is_writable = True
        self._thirst()
        self._account()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what is left of the client's work."""
        was_admitted = self._task is not None
        self._is_closed = True
        if was_admitted:
            self._leave()
            assert self._task is not None
            self._task.cancel()
        self._listener.memory.note(self, self._held, 0)
        self._held = 0
        self._listener.forget(self, self.host)

    # What the listener asks.

    @property
    def is_busy(self) -> bool:
        """Return whether the client waits for messages, or bytes wait to be taken."""
        return bool(self._events) or self._transport.get_write_buffer_size() > 0 or self.is_waiting

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return self._reader.is_partial

    def drain(self) -> None:
        """Say goodbye: the node stops."""
        self.force("the node is shutting down")

    def force(self, reason: str) -> None:
        """End the connection from our side, and say why."""
        if self._task is not None and not self.is_closing:
            self._fault = self._forced(reason)
            self._arrived.set()

    def close(self, reason: str) -> None:
        """End the connection."""
        if not self._is_closed:
            log.debug("connection closed", address=self.host, reason=reason)
            self._hang_up()

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        self._read(not self._events)

    def _read(self, wanted: bool) -> None:
        wanted = wanted and self._fault is None
        if wanted != self._is_reading and not self._is_closed:
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _account(self) -> None:
        """Report the memory this client holds; wait for others when there is none left."""
        if self._is_closed:
            return
        unsent = 0 if self._is_writable else self._transport.get_write_buffer_size()
        held = self._reader.held + unsent
        if not self._listener.memory.note(self, self._held, held):
            self._read(False)
        self._held = held

"""One connection of a frame protocol, as a task that reads frames and writes bytes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import cast

from chordmq.broker.security.logins import Logins
from chordmq.broker.security.principal import Login, Principal
from chordmq.codecs.frames import PREFIX_SIZE, SmallFrameReader
from chordmq.errors import AuthenticationFailed, DecodeError
from chordmq.fronts.listener import Listener
from chordmq.logs import get_logger

log = get_logger(__name__)

WRITE_BUFFER_HIGH = 64 * 1024
DISMISSAL_S = 5.0
"""How long a client may be in the middle of something after its login has ended."""
PARTING_TIMEOUT_S = 2.0


class Stream(asyncio.BufferedProtocol):
    """Frames in, bytes out; nothing is read while nobody takes the frames that are there.

    `serve` runs as one task per connection and ends when `frames` returns nothing, or by
    cancellation when the client has gone.
    """

    def __init__(
        self,
        listener: Listener,
        serve: Callable[["Stream"], Coroutine[None, None, None]],
        head_size: int = PREFIX_SIZE,
    ) -> None:
        self._listener = listener
        self._serve = serve
        self._reader = SmallFrameReader(listener.settings.frame_size_max, head_size)
        self._frames: list[bytes] = []
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._is_reading = True
        self._is_draining = False
        self._is_closed = False
        self._is_parting = False
        """Whether everything is said, and what still comes is not looked at."""
        self._held = 0
        self.host = ""
        self.is_waiting = False
        """Set for a client that waits for messages, which may take longer than the idle time."""
        self._logins: Logins | None = None
        self._dismissal = ""
        self.fault = ""
        """What is wrong with the bytes that came last; nothing is read after that."""
        self.last_active_s = listener.clock.monotonic_s()

    async def frames(self) -> list[bytes]:
        """Return the frames that have arrived, at least one; none when there will be no more."""
        while not self._frames:
            if self.fault:
                raise DecodeError(self.fault)
            if self._dismissal:
                raise AuthenticationFailed(self._dismissal)
            if self._is_draining or self._is_closed:
                return []
            self._arrived.clear()
            self._read(True)
            await self._arrived.wait()
        frames, self._frames = self._frames, []
        return frames

    def write(self, data: bytes) -> None:
        """Send bytes; `room` says when there is room for more."""
        if data and not self._is_closed:
            self._transport.write(data)

    @property
    def has_room(self) -> bool:
        """Return whether the client has taken what was sent."""
        return self._room.is_set()

    async def room(self) -> None:
        """Wait until the client has taken what was sent."""
        if not self._room.is_set():
            await self._room.wait()

    def certified(self) -> Principal:
        """Return whom the client's certificate names, or ANONYMOUS."""
        return self._listener.principal(self._transport)

    def live_by(self, login: Login, logins: Logins) -> None:
        """Stay only as long as the login is good: after that, `frames` raises the reason."""
        self._logins = logins
        logins.hold(self, login, self._dismiss)

    def _dismiss(self, reason: str) -> None:
        self._dismissal = reason
        self._arrived.set()
        # One that waits for something else, such as a slow reader, does not ask for frames.
        asyncio.get_running_loop().call_later(DISMISSAL_S, self.close, reason)

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or hang up."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if peer else ""
        if not self._listener.admit(self, self.host):
            self._is_closed = True
            self._transport.pause_reading()
            self._listener.turn_away(self._transport.abort)
            return
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=0)
        self._task = self._listener.tasks.create_task(self._run())

    async def _run(self) -> None:
        """Keep one client's fault from ending the listener."""
        try:
            await self._serve(self)
        except Exception:
            log.exception("connection failed", listener=self._listener.name, address=self.host)
        finally:
            await self._part()

    async def _part(self) -> None:
        """Close when the client has got everything.

        Closing at once would reset the connection, and the last words could be lost.
        """
        if not (self._is_closed or self._is_draining) and self._transport.can_write_eof():
            self._frames.clear()
            self._is_parting = True
            self._transport.write_eof()
            self._transport.resume_reading()
            await asyncio.sleep(PARTING_TIMEOUT_S)  # ended by the client's hanging up
        self.close("served")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the frames that the new bytes complete."""
        if self._is_parting:
            return
        try:
            frames = self._reader.received(nbytes)
        except DecodeError as error:
            self.fault = str(error)
            self._read(False)
            self._arrived.set()
            return
        if frames:
            self.last_active_s = self._listener.clock.monotonic_s()
            self._frames += frames
            self._read(False)
            self._arrived.set()
        self._account()

    def eof_received(self) -> bool:
        """Finish what has come: a client that sends no more may still listen."""
        if self._is_parting or self._transport.get_extra_info("sslcontext") is not None:
            return False
        self.drain()
        return True

    def pause_writing(self) -> None:
        """Let writers wait while the client does not take what was sent."""
        self._room.clear()
        self._account()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._room.set()
        self._account()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the task of a client that has gone."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        if self._logins is not None:
            self._logins.release(self)
        self._listener.memory.note(self, self._held, 0)
        self._held = 0
        self._listener.forget(self, self.host)

    # What the listener asks.

    @property
    def is_busy(self) -> bool:
        """Return whether frames or bytes wait to be taken, or the client waits for messages."""
        return self.is_waiting or bool(self._frames) or self._transport.get_write_buffer_size() > 0

    @property
    def is_partial(self) -> bool:
        """Return whether a frame has begun and not ended."""
        return self._reader.is_partial and not self._is_parting

    def drain(self) -> None:
        """Finish what has arrived, take no more, then close."""
        self._is_draining = True
        self._read(False)
        self._arrived.set()

    def close(self, reason: str) -> None:
        """End the connection."""
        if not self._is_closed:
            log.debug("connection closed", address=self.host, reason=reason)
            self._is_closed = True
            self._transport.close()

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        self._read(not self._frames)

    def _read(self, wanted: bool) -> None:
        wanted = wanted and not (self._is_draining or self.fault)
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
        unsent = 0 if self._room.is_set() else self._transport.get_write_buffer_size()
        held = self._reader.held + unsent
        if not self._listener.memory.note(self, self._held, held):
            self._read(False)
        self._held = held

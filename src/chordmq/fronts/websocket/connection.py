"""Drives one WebSocket client: bytes to messages to handlers, and all answers of a turn as one."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import cast

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request as HttpRequest
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol as SubprotocolName

from chordmq.broker.broker import Broker
from chordmq.broker.presence import ClientFacts
from chordmq.broker.security.meter import Meter
from chordmq.broker.security.principal import Login, Principal
from chordmq.codecs.websocket import messages
from chordmq.codecs.websocket.frames import TEXT, frame
from chordmq.codecs.websocket.messages import Refused, Request, Told, Welcome
from chordmq.codecs.websocket.subprotocols import Json, Subprotocol
from chordmq.errors import AuthenticationFailed, ChordMQError, InvalidRequest, ShuttingDown
from chordmq.fronts.websocket.deliveries import Follower
from chordmq.fronts.websocket.front import WebSocketFront
from chordmq.fronts.websocket.handlers import Session, Who
from chordmq.fronts.websocket.handshake import (
    MECHANISM,
    NAME_LENGTH_MAX,
    Turned,
    asked,
    check_request,
    log_in,
    select,
)
from chordmq.fronts.websocket.pace import Pace
from chordmq.logs import get_logger

log = get_logger(__name__)

_QUIET = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.WARNING)  # each client would be worth a line otherwise

LOGIN_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
WRITE_BUFFER_HIGH = 64 * 1024
WRITE_BYTES_MAX = 256 * 1024
"""Bytes that are joined into one write."""
UNANSWERED_BYTES_MAX = 4 * 1024 * 1024
"""Of messages that are being stored, above which no more are read."""
SILENT_INTERVALS_MAX = 3
REASON_BYTES_MAX = 120
EXPIRED = "the token has expired"


class WebSocketConnection(asyncio.Protocol):
    """One client; takes over the transport of an HTTP connection that asks for it.

    websockets' parser reads frames. What goes out is framed here, joined over one turn of the event
    loop, and stops while the client does not take it: its place in the log is its buffer.
    """

    def __init__(self, front: WebSocketFront, host: str, certified: Principal) -> None:
        self.front = front
        self.number = uuid.uuid4().hex
        self._listener = front.listener
        self._host = host
        self._certified = certified
        self._name = ""
        self._protocol = ServerProtocol(
            subprotocols=[SubprotocolName(name) for name in front.subprotocols],
            select_subprotocol=select,
            max_size=front.settings.message_size_max,
            logger=_QUIET,
        )
        self._subprotocol: Subprotocol = front.subprotocols[Json.name]
        self._session: Session | None = None
        self._pace: Pace | None = None
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._message = bytearray()
        self._is_fragmented = False
        """Whether a message has begun and not ended."""
        self._messages: list[bytes] = []
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._ready: dict[Follower, None] = {}
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._is_scheduled = False
        self._is_reading = True
        self._is_closed = False
        self._heartbeat: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        """When the token expires or, after that, the client must have hung up."""
        self._held = 0
        self._connected_ms = front.listener.clock.now_ms()
        self.last_active_s = front.listener.clock.monotonic_s()

    # What one client's task does.

    async def _run(self, request: HttpRequest) -> None:
        """Keep one client's fault from ending the listener."""
        try:
            await self._serve(request)
        except TimeoutError:
            self.end(CloseCode.POLICY_VIOLATION, "the login did not come in time")
        except AuthenticationFailed as error:
            self.end(CloseCode.POLICY_VIOLATION, str(error))
        except Exception:
            log.exception("connection failed", listener="websocket", address=self._host)
            self.end(CloseCode.INTERNAL_ERROR, "a fault of this node; its log says more")

    async def _serve(self, request: HttpRequest) -> None:
        try:
            broker = self.front.broker()
            check_request(self.front, request)
            login = await log_in(self.front, request, self._host, self._certified)
        except Turned as refusal:
            self._refuse(refusal.status, str(refusal))
            return
        except ShuttingDown as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            return
        except AuthenticationFailed as error:
            self._refuse(HTTPStatus.UNAUTHORIZED, str(error))
            return
        if not self._accept(request):
            return
        if login is None:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                login = await self._first_message()
        await self._talk(broker, login)

    async def _first_message(self) -> Login:
        """Return who the client says it is, or raise AuthenticationFailed."""
        data = await self._next_messages()
        request = self._understood(data[0])
        if not isinstance(request, messages.Login):
            raise AuthenticationFailed("log in first, with a token")
        self._messages = data[1:] + self._messages
        authenticator = self.front.authenticator()
        assert authenticator is not None
        return await authenticator.check_token(request.token, self._host, MECHANISM)

    async def _talk(self, broker: Broker, login: Login) -> None:
        """Answer requests until the client leaves."""
        who = Who(login.principal, self._host, self.number)
        self._session = session = Session(self, broker, self._subprotocol, who)
        quotas, clock = broker.permissions.quotas, self._listener.clock
        meter = Meter(quotas, clock, login.principal.name, self._name)
        self._pace = pace = Pace(meter, self.tell, self._schedule)
        self.front.enter(self, broker)
        authenticator = self.front.authenticator()
        if authenticator is not None:
            end = partial(self.end, CloseCode.POLICY_VIOLATION)
            authenticator.logins.hold(self, login, end)
        if login.expires_ms is not None:
            left_s = (login.expires_ms - self._listener.clock.now_ms()) / 1000
            self._end_after(left_s, partial(self.end, CloseCode.POLICY_VIOLATION, EXPIRED))
        self._beat_later()
        self.tell(Welcome(client=self.number, user=login.principal.name))
        while True:
            for data in await self._next_messages():
                request = self._understood(data)
                if request is not None:
                    await pace.work(request, len(data), session.answer(request, len(data)))
            await pace.wait()
            while session.unanswered > UNANSWERED_BYTES_MAX:
                self._arrived.clear()
                await self._arrived.wait()
            await self._room.wait()

    async def _next_messages(self) -> list[bytes]:
        """Return the messages that have arrived, at least one; read on when they are done."""
        while not self._messages:
            self._arrived.clear()
            self._read(True)
            self._account()
            await self._arrived.wait()
        taken, self._messages = self._messages, []
        return taken

    def _understood(self, data: bytes) -> Request | None:
        try:
            return self._subprotocol.read(data)
        except InvalidRequest as error:
            self.tell(Refused(error="InvalidRequest", message=str(error)))
            return None

    def _accept(self, request: HttpRequest) -> bool:
        protocol = self._protocol
        response = protocol.accept(request)
        protocol.send_response(response)
        self._write_protocol()
        if protocol.state is not State.OPEN:
            return False
        if protocol.subprotocol is not None:
            self._subprotocol = self.front.subprotocols[protocol.subprotocol]
        self._name = asked(request, "client")[:NAME_LENGTH_MAX]
        return True

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._protocol.send_response(self._protocol.reject(status, f"{reason}\n"))
        self._write_protocol()

    # What subscriptions ask.

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        session = self._session
        assert session is not None
        return ClientFacts(
            id=self.number,
            name=self._name,
            protocol=self._subprotocol.name,
            user=session.who.principal.name,
            host=self._host,
            connected_ms=self._connected_ms,
            subscriptions=[one.wanted.topic for one in session.subscriptions.values()],
        )

    def look_again(self) -> None:
        """Follow a change of topics or permissions."""
        if self._session is not None:
            self._session.look_again()

    def ready(self, follower: Follower) -> None:
        """Have the follower's `send` called soon, when there is room for more."""
        self._ready[follower] = None
        self._schedule()

    def forget(self, follower: Follower) -> None:
        """Do not call the follower any more."""
        self._ready.pop(follower, None)

    def answered(self) -> None:
        """Take note that a message of the client is stored, or cannot be."""
        self._arrived.set()

    def tell(self, told: Told) -> None:
        """Send a message."""
        self.send((self._subprotocol.write(told),))

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send one message that is written already, at the end of this turn."""
        framed = frame(self._subprotocol.opcode, pieces)
        self._out += framed
        self._out_bytes += sum(map(len, framed))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        """Let each follower send some, then write everything at once."""
        self._is_scheduled = False
        session = self._session
        if self._is_closed:
            return
        pace = self._pace
        if session is not None and pace is not None and self._ready and not pace.is_pausing:
            began_s, before = self._listener.clock.monotonic_s(), self._out_bytes
            followers, self._ready = self._ready, {}
            for follower in followers:
                self._serve_follower(session, follower)
            worked_s = self._listener.clock.monotonic_s() - began_s
            pace.pushed(self._out_bytes - before, worked_s)
        self._flush()
        if self._ready and self._room.is_set() and not (pace and pace.is_pausing):
            self._schedule()

    def _serve_follower(self, session: Session, follower: Follower) -> None:
        is_full = not self._room.is_set()
        try:
            if is_full and follower.subscription.is_dropping:
                follower.skip()
            elif is_full or self._out_bytes > WRITE_BYTES_MAX or follower.send():
                self._ready[follower] = None
        except ChordMQError as error:
            session.lost(follower, error)

    def _flush(self) -> None:
        if self._out and self._protocol.state is State.OPEN:
            self._transport.write(b"".join(self._out))
        self._out.clear()
        self._out_bytes = 0

    def _write_protocol(self) -> None:
        """Send what the parser answers by itself: pongs, and the end."""
        self._flush()
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._hang_up()

    def _hang_up(self) -> None:
        """Close after the client has got everything; what it still sends is not looked at."""
        self._leave()
        if self._transport.can_write_eof():
            # Closing at once would reset the connection, and the last words could be lost.
            self._transport.write_eof()
            self._transport.resume_reading()
            self._end_after(CLOSE_TIMEOUT_S, self._transport.abort)
        else:
            self._transport.close()

    def _leave(self) -> None:
        """Give back what the client had."""
        self._is_closed = True
        self._cancel_timers()
        self.front.leave(self)
        if self._session is not None:
            self._session.close()
        if self._task is not None:
            self._task.cancel()

    def end(self, code: int, reason: str) -> None:
        """Say goodbye and close."""
        if self._is_closed:
            return
        log.debug("connection closed", listener="websocket", address=self._host, reason=reason)
        if self._protocol.state is State.OPEN:
            self._flush()
            self._protocol.fail(code, reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore"))
            self._write_protocol()
        else:
            self._leave()
            self._transport.close()

    def _end_after(self, delay_s: float, end: Callable[[], None]) -> None:
        self._deadline = asyncio.get_running_loop().call_later(max(delay_s, 0.0), end)

    def _cancel_timers(self) -> None:
        if self._pace is not None:
            self._pace.close()
        for timer in (self._heartbeat, self._deadline):
            if timer is not None:
                timer.cancel()

    def _beat(self) -> None:
        """Ask for a sign of life; end a connection that has given none for too long."""
        if self._is_closed:
            return
        interval_s = self.front.settings.ping_interval_s
        silent_s = self._listener.clock.monotonic_s() - self.last_active_s
        is_heard = self._is_reading or not self._room.is_set()
        if is_heard and silent_s > SILENT_INTERVALS_MAX * interval_s:
            log.info("silent client", listener="websocket", address=self._host)
            self._transport.abort()
            return
        if self._room.is_set() and self._protocol.state is State.OPEN:
            self._protocol.send_ping(b"")
            self._write_protocol()
        self._beat_later()

    def _beat_later(self) -> None:
        interval_s = self.front.settings.ping_interval_s
        self._heartbeat = asyncio.get_running_loop().call_later(interval_s, self._beat)

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over from HTTP."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=0)

    def data_received(self, data: bytes) -> None:
        """Take the messages that the new bytes complete."""
        was_partial = self.is_partial
        self._protocol.receive_data(data)
        events = self._protocol.events_received()
        if events or not was_partial:
            self.last_active_s = self._listener.clock.monotonic_s()
        for event in events:
            if isinstance(event, HttpRequest):
                self._task = self._listener.tasks.create_task(self._run(event))
            elif isinstance(event, Frame) and not self._is_closed:
                self._take(event)
        self._write_protocol()
        if self._messages:
            self._read(False)
            self._arrived.set()
        self._account()

    def _take(self, part: Frame) -> None:
        """Put a message together from its frames."""
        if part.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if part.opcode is not Opcode.CONT and part.opcode != self._subprotocol.opcode:
            kind = "text" if self._subprotocol.opcode == TEXT else "binary"
            self.end(CloseCode.UNSUPPORTED_DATA, f"{self._subprotocol.name} has {kind} messages")
            return
        self._message += part.data
        self._is_fragmented = not part.fin
        if self._is_fragmented:
            return
        data = bytes(self._message)
        self._message.clear()
        if self._subprotocol.opcode == TEXT and not _is_text(data):
            self.end(CloseCode.INVALID_DATA, "a text message is not UTF-8")
            return
        self._messages.append(data)

    def eof_received(self) -> bool:
        """Close when the client does."""
        return False

    def pause_writing(self) -> None:
        """Read neither the log nor the client while it does not take what was sent."""
        self._room.clear()
        self._read(False)
        self._account()

    def resume_writing(self) -> None:
        """Go on when the client has taken what was sent."""
        self.last_active_s = self._listener.clock.monotonic_s()
        self._room.set()
        self._read(not self._messages)
        if self._session is not None:
            self._session.has_room()
        self._schedule()
        self._account()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what is left of the client's work."""
        self._leave()
        self._cancel_timers()
        self._listener.memory.note(self, self._held, 0)
        self._held = 0
        self._listener.forget(self, self._host)

    # What the listener asks.

    @property
    def is_busy(self) -> bool:
        """Return whether the client is let in; pings tell whether it is still there."""
        return self._session is not None

    @property
    def is_partial(self) -> bool:
        """Return whether a message has begun and not ended, and that is the client's doing."""
        return self._is_reading and bool(self._is_fragmented or self._protocol.reader.buffer)

    def drain(self) -> None:
        """Close: what the client has asked is answered as far as it is done."""
        self.end(CloseCode.GOING_AWAY, "the node is shutting down")

    def close(self, reason: str) -> None:
        """End the connection."""
        self.end(CloseCode.GOING_AWAY, reason)

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        self._read(not self._messages)

    def _read(self, wanted: bool) -> None:
        wanted = wanted and self._room.is_set()
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
        arrived = len(self._message) + sum(map(len, self._messages))
        held = len(self._protocol.reader.buffer) + arrived + unsent
        if not self._listener.memory.note(self, self._held, held):
            self._read(False)
        self._held = held


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

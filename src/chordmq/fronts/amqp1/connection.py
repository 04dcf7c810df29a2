"""Drives one AMQP 1.0 client: bytes to frames to sessions, and all answers as one write."""

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, cast

from chordmq.broker.presence import ClientFacts
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.broker.security.acl import Operation
from chordmq.broker.security.principal import ANONYMOUS, Login
from chordmq.broker.topic import Topic
from chordmq.codecs.amqp1.composites import (
    SENDER,
    Attach,
    Begin,
    Close,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from chordmq.codecs.amqp1.frames import (
    AMQP_HEADER,
    EMPTY_FRAME,
    FRAME_MIN,
    SASL_HEADER,
    Event,
    Frame,
    FrameFault,
    FrameReader,
    Header,
    frame,
)
from chordmq.codecs.amqp1.values import Symbol
from chordmq.errors import AuthenticationFailed, UnknownQueue
from chordmq.fronts.amqp1 import links
from chordmq.fronts.amqp1.addresses import Address, Place
from chordmq.fronts.amqp1.errors import (
    FORCED,
    FRAMING,
    ILLEGAL_STATE,
    INTERNAL,
    LIMIT,
    NOT_FOUND,
    UNAUTHORIZED,
    ConnectionFault,
    SessionFault,
)
from chordmq.fronts.amqp1.front import Amqp1Front, Limits
from chordmq.fronts.amqp1.login import log_in, mechanisms
from chordmq.fronts.amqp1.measures import amqp1_measures
from chordmq.fronts.amqp1.reading import TopicLink
from chordmq.fronts.amqp1.receiving import Publisher
from chordmq.fronts.amqp1.session import Link, Session
from chordmq.fronts.amqp1.transactions import Transaction
from chordmq.fronts.guest import Guest
from chordmq.fronts.opening import Connect, Opening
from chordmq.logs import get_logger
from chordmq.version import VERSION

log = get_logger(__name__)

LOGIN_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
UNANSWERED_BYTES_MAX = 8 * 1024 * 1024
"""Of messages that are being stored, above which no more are read."""
VHOST = "vhost:"
"""Stands before the name of a virtual host in the host name of an open."""
BEAT_MIN_S = 0.1
AUTHENTICATED, REFUSED = 0, 1


class Gone(Exception):
    """The client has ended the connection, or does not speak our protocol."""


class Amqp1Connection(Guest[Event]):
    """One client with its sessions.

    Everything that one read brings is worked off in its order, and what it sends is appended at
    once.
    """

    life_sign = EMPTY_FRAME

    def __init__(self, front: Amqp1Front) -> None:
        self.reader = FrameReader(front.limits.frame_max)
        super().__init__(front.listener, self.reader, front.broker, front.authenticator)
        self.front = front
        self.vhost: VirtualHost
        self.container = ""
        self.login_name = ""
        self.frame_max = FRAME_MIN
        """Bytes of a frame that the client takes."""
        self.publisher = Publisher(self)
        self.thirsty: dict[Queue, None] = {}
        """Queues whose consumers have room again."""
        self.number = secrets.token_urlsafe(12)
        self.transactions: dict[bytes, Transaction] = {}
        """Those that are open, by the id that the client knows them by."""
        self._sessions: dict[int, Session] = {}
        self._is_agreed = False
        """Whether both sides know that they speak AMQP 1.0; before that there are no errors."""

    # What the client's task does.

    async def _run(self) -> None:
        """Keep one client's fault from ending the listener."""
        try:
            await self._serve()
        except Gone:
            pass
        except TimeoutError:
            self.close("the login did not come in time")
        except ConnectionFault as fault:
            await self._end(fault.error)
        except FrameFault as fault:
            await self._end(Error(condition=fault.condition, description=str(fault)))
        except Exception:
            log.exception("connection failed", listener="amqp", address=self.host)
            text = "a fault of this node; its log says more"
            await self._end(Error(condition=INTERNAL, description=text))
        finally:
            self._hang_up()

    async def _serve(self) -> None:
        async with asyncio.timeout(LOGIN_TIMEOUT_S):
            is_known = await self._greet()
            await self._open(is_known)
        self.meter.user = self.principal.name
        self.meter.client = self.container
        self.front.enter(self)
        while not self.is_closing:
            await self._work(await self.next_events())
            self._charge(0)
            while self.publisher.unanswered > UNANSWERED_BYTES_MAX or self.is_throttled:
                self._arrived.clear()
                await self._arrived.wait()

    async def _greet(self) -> bool:
        """Agree on the protocol; return whether the client has logged in."""
        is_known = False
        header = await self._header()
        if header == SASL_HEADER:
            self.send(SASL_HEADER)
            await self._log_in()
            is_known = True
            header = await self._header()
        if header != AMQP_HEADER:
            self.send(AMQP_HEADER)
            raise Gone
        self.send(AMQP_HEADER)
        self._is_agreed = True
        return is_known

    async def _header(self) -> bytes:
        event = await self.next_event()
        if not isinstance(event, Header):
            raise FrameFault(FRAMING, "a protocol header was due")
        return event.data

    async def _next(self, kind: type[Any]) -> Any:
        """Return the one performative that may come now."""
        event = await self.next_event()
        if not isinstance(event, Frame) or not isinstance(event.performative, kind):
            raise FrameFault(FRAMING, f"{kind.__name__} was due")
        return event.performative

    async def _log_in(self) -> None:
        authenticator = self.front.authenticator
        self.send(frame(0, SaslMechanisms(mechanisms=mechanisms(authenticator, self.certified))))
        init: SaslInit = await self._next(SaslInit)

        async def ask(challenge: bytes) -> bytes:
            self.send(frame(0, SaslChallenge(challenge=challenge)))
            response: SaslResponse = await self._next(SaslResponse)
            return response.response

        try:
            login, last = await log_in(authenticator, init, self.host, self.certified, ask)
        except AuthenticationFailed as error:
            log.info("login refused", listener="amqp", address=self.host, reason=str(error))
            self.send(frame(0, SaslOutcome(outcome=REFUSED)))
            raise Gone from None
        self._enter(login, init)
        self.send(frame(0, SaslOutcome(outcome=AUTHENTICATED, additional_data=last or None)))

    def _enter(self, login: Login, init: SaslInit | None) -> None:
        self.hold(login)
        self.login_name = login.principal.name
        if login.principal is ANONYMOUS and init is not None and init.mechanism == "PLAIN":
            parts = (init.initial_response or b"").split(b"\0")
            self.login_name = parts[1].decode(errors="replace") if len(parts) > 1 else ""

    async def _open(self, is_known: bool) -> None:
        """Agree on how much fits into a frame, how long silence may last, and who is who."""
        opened: Open = await self._next(Open)
        limits = self.front.limits
        self.container = opened.container_id
        self.frame_max = min(opened.max_frame_size, limits.frame_max)
        self.send(
            frame(
                0,
                Open(
                    container_id=f"chordmq-{self.front.broker.node_id}",
                    max_frame_size=limits.frame_max,
                    channel_max=min(limits.channels_max, 2**16) - 1,
                    idle_time_out=limits.heartbeat_s * 1000 or None,
                    offered_capabilities=links.capabilities(),
                    properties={Symbol("product"): "ChordMQ", Symbol("version"): VERSION},
                ),
            )
        )
        if opened.max_frame_size < FRAME_MIN:
            raise ConnectionFault(FRAMING, f"everybody takes frames of {FRAME_MIN} bytes")
        self._check_known(is_known)
        await self.front.queues.loaded.wait()
        name = (opened.hostname or "").partition(VHOST)[2] or "/"
        vhost = self.front.queues.vhost(name)
        if vhost is None:
            raise ConnectionFault(NOT_FOUND, f"there is no virtual host {name!r:.100}")
        self.vhost = vhost
        self._begin_to_beat(opened.idle_time_out)

    def _check_known(self, is_known: bool) -> None:
        authenticator = self.front.authenticator
        if not is_known:
            is_required = authenticator is not None and authenticator.is_required
            if is_required and self.certified is ANONYMOUS:
                raise ConnectionFault(UNAUTHORIZED, "everybody has to log in")
            self._enter(Login(self.certified), None)

    def _begin_to_beat(self, peer_ms: int | None) -> None:
        own_s = float(self.front.limits.heartbeat_s)
        wanted_s = peer_ms / 1000 if peer_ms else own_s
        if own_s or peer_ms:
            interval_s = max(min(wanted_s, own_s or wanted_s) / 2, BEAT_MIN_S)
            self.beat_later(interval_s, 2 * own_s if own_s else float("inf"))

    # What comes.

    async def _work(self, events: list[Event]) -> None:
        """Do what the frames of one read ask for, in their order."""
        for event in events:
            if isinstance(event, Header):
                raise FrameFault(FRAMING, "a protocol header came where none was due")
            await self._handle(event)
            if self.is_closing:
                break
        self.publisher.end_read()
        for session in self._sessions.values():
            session.widen()
        self.quench()

    async def _handle(self, event: Frame) -> None:
        channel, performative, payload = event
        session = self._sessions.get(channel)
        if isinstance(performative, Close):
            self._closed_by_client()
        elif isinstance(performative, Open):
            raise ConnectionFault(ILLEGAL_STATE, "the connection is open already")
        elif isinstance(performative, Begin):
            self._begin_session(channel, performative)
        elif session is None:
            raise ConnectionFault(ILLEGAL_STATE, f"no session is on channel {channel}")
        elif isinstance(performative, End):
            self._end_session(session)
        elif not session.is_ending:
            if not isinstance(performative, Transfer | Disposition | Flow):
                self.publisher.end_read()
            try:
                await session.handle(performative, payload)
            except SessionFault as fault:
                log.debug("session ended", address=self.host, reason=str(fault))
                self.publisher.end_read()
                session.end(fault.error)

    def _begin_session(self, channel: int, begin: Begin) -> None:
        if channel in self._sessions:
            raise ConnectionFault(ILLEGAL_STATE, f"channel {channel} has a session already")
        if channel >= self.front.limits.channels_max:
            text = f"a connection has at most {self.front.limits.channels_max} sessions"
            raise ConnectionFault(LIMIT, text)
        self._sessions[channel] = session = Session(self, channel, begin)
        session.open()

    def _end_session(self, session: Session) -> None:
        self.publisher.end_read()
        del self._sessions[session.channel]
        if not session.is_ending:
            session.close()
            session.send(End())
            session.is_ending = True

    def _closed_by_client(self) -> None:
        self.publisher.end_read()
        self._leave()
        self.send(frame(0, Close()))
        self.is_closing = True

    async def _end(self, error: Error) -> None:
        """Say why the connection ends, and wait a little for the client to agree."""
        if self._is_closed:
            return
        log.info("connection closed", listener="amqp", address=self.host, reason=error.description)
        self._leave()
        if not self._is_agreed:
            return
        if not self.container:  # the first thing that may be said is open
            self.send(frame(0, Open(container_id="chordmq")))
        self.send(frame(0, Close(error=error)))
        self._flush()
        self.is_closing = True
        self._fault = None
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._agreed()
        except (TimeoutError, FrameFault):
            return

    async def _agreed(self) -> None:
        while True:
            for event in await self.next_events():
                if isinstance(event, Frame) and isinstance(event.performative, Close):
                    return

    # What sessions and links ask.

    async def open_link(self, session: Session, attach: Attach) -> Link:
        """Return a new link; raise a LinkFault or an error of ours if it cannot be."""
        await self.publisher.settled()
        if attach.role is SENDER:
            return await links.open_incoming(session, attach)
        return await links.open_outgoing(session, attach)

    async def check_target(self, address: Address) -> None:
        """Raise unless there is something behind an address; a topic is made if need be."""
        if address.place is Place.QUEUE:
            if address.key not in self.vhost.queues:
                raise UnknownQueue(f"no queue '{address.key}' in vhost '{self.vhost.name}'")
        elif address.place is Place.NAME and address.key not in self.vhost.queues:
            await self.topic(address.key, Operation.WRITE)

    async def topic(self, name: str, operation: Operation) -> Topic:
        """Return a topic that the client may use so."""
        return await links.find_topic(self, name, operation)

    def hold_part(self, size: int) -> None:
        """Count bytes of messages of which only a part has come."""
        self.reader.parts += size

    def run(self, work: Coroutine[None, None, None]) -> None:
        """Do something that outlasts this turn, and maybe the connection."""
        self._listener.tasks.create_task(work)

    def quench(self) -> None:
        """Let queues deliver to consumers that have room again."""
        while self.thirsty and self.has_room:
            thirsty, self.thirsty = self.thirsty, {}
            for queue in thirsty:
                queue.pump()

    def _thirst(self) -> None:
        for session in self._sessions.values():
            for link in list(session.links.values()):
                link.thirst()
        self.quench()

    def _forced(self, reason: str) -> FrameFault:
        return FrameFault(FORCED, reason)

    def grow(self) -> None:
        """Follow partitions that were added to topics."""
        for link in self._links():
            if isinstance(link, TopicLink):
                link.grow()

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        return ClientFacts(
            id=self.number,
            name=self.container,
            protocol="amqp-1.0",
            user=self.principal.name,
            host=self.host,
            connected_ms=self.connected_ms,
            subscriptions=[name for link in self._links() if (name := link.queue_name)],
            channels=len(self._sessions),
        )

    def _links(self) -> list[Link]:
        return [link for session in self._sessions.values() for link in session.links.values()]

    @property
    def is_waiting(self) -> bool:
        """Return whether the client waits for messages."""
        return any(link.queue_name for link in self._links())

    def _leave(self) -> None:
        """Give back what the client had."""
        self.release()
        for session in list(self._sessions.values()):
            session.close()
        self._sessions.clear()
        self.thirsty.clear()
        self.front.queues.disown(self)
        self.front.leave(self)


def open_amqp1(opening: Opening) -> Connect:
    """Begin to serve clients, on a listener whose settings are those of AMQP."""
    limits = cast(Limits, opening.listener.settings)
    front = Amqp1Front(
        opening.broker, opening.listener, limits, opening.broker.queues, opening.authenticator
    )
    opening.metrics.add(lambda: amqp1_measures(front))
    opening.broker.topics.watchers.append(front.look_again)
    return lambda: Amqp1Connection(front)

"""Drives one MQTT client: bytes to packets to handlers, and all that goes out in a turn as one."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, cast

from chordmq.broker.presence import ClientFacts
from chordmq.broker.security.meter import Meter
from chordmq.broker.security.principal import ANONYMOUS, Login, Principal
from chordmq.codecs.mqtt import writer
from chordmq.codecs.mqtt.errors import MalformedPacket, ProtocolError
from chordmq.codecs.mqtt.packets import V5, Connect, Packet
from chordmq.codecs.mqtt.properties import NONE, Properties
from chordmq.codecs.mqtt.reader import PacketReader
from chordmq.codecs.mqtt.reasons import Reason
from chordmq.errors import ChordMQError
from chordmq.fronts.gate import Transport
from chordmq.fronts.listener import Listener
from chordmq.fronts.mqtt.answers import Answer
from chordmq.fronts.mqtt.envelopes import Envelopes
from chordmq.fronts.mqtt.errors import reason_of
from chordmq.fronts.mqtt.front import MqttFront, Route
from chordmq.fronts.mqtt.handlers import HANDLERS
from chordmq.fronts.mqtt.letters import Letter
from chordmq.fronts.mqtt.publications import Receipt, publish_alone
from chordmq.fronts.mqtt.session import Session
from chordmq.fronts.mqtt.throttle import Throttle
from chordmq.logs import get_logger

log = get_logger(__name__)

CONNECT_TIMEOUT_S = 10.0
WRITE_BUFFER_HIGH = 64 * 1024
WRITE_BYTES_MAX = 256 * 1024
"""Bytes that are joined into one write."""
PACKETS_AT_ONCE = 200
"""Packets that are handled before other clients have their turn; a run counts as one."""
UNCOUNTED_BYTES_MAX = 4 * 1024
"""Bytes that a client may hold before they count: small messages come and go in one turn."""
UNSTORED_BYTES_MAX = 4 * 1024 * 1024
"""Of messages that are being stored, above which no more are read."""
KEEP_ALIVE_GRACE = 1.5
REASON_LENGTH_MAX = 200


class MqttConnection(asyncio.Protocol):
    """One client. What takes time holds up the packets behind it, and reading as well."""

    __slots__ = (
        "_answers", "_connected_ms", "_held", "_is_closed", "_is_paused", "_is_pumping",
        "_is_reading", "_is_scheduled", "_keep_alive_s", "_limits", "_now_s", "_out", "_out_bytes",
        "_packets", "_protocol", "_reader", "_task", "_throttle", "_timer", "_transport",
        "_unstored_bytes", "aliases", "certified", "connect", "envelopes", "exchange", "front",
        "host", "is_leaving_well", "last_active_s", "listener", "login", "routes", "session",
        "unanswered", "version", "window",
    )  # fmt: skip

    def __init__(self, front: MqttFront, listener: Listener, protocol: str = "mqtt") -> None:
        self.front = front
        self.listener = listener
        self._protocol = protocol
        self._reader = PacketReader(listener.settings.frame_size_max)
        self._transport: Transport
        self.host = ""
        self.certified: Principal = ANONYMOUS
        self.version = 0
        self.session: Session | None = None
        self.login: Login | None = None
        self.connect: Connect | None = None
        self.exchange: Any = None
        """An enhanced authentication that is under way."""
        self.is_leaving_well = False
        """Whether the client has said that it goes, and wants no will."""
        self.envelopes = Envelopes(V5, listener.clock.now_ms)
        self.window = front.settings.inflight_max
        self.routes: dict[bytes, Route] = {}
        """Where this client may publish to."""
        self.aliases: dict[int, str] = {}
        """Names that the client has given to topics."""
        self.unanswered = 0
        """Messages of QoS 1 and 2 from the client that are not answered."""
        self._answers: list[Answer] = []
        self._unstored_bytes = 0
        self._packets: list[Packet] = []
        self._task: asyncio.Task[None] | None = None
        self._out: list[bytes] = []
        self._out_bytes = self._held = 0
        self._is_scheduled = self._is_pumping = self._is_paused = self._is_closed = False
        self._is_reading = True
        self._timer: asyncio.TimerHandle | None = None
        self._keep_alive_s = 0.0
        self._limits = front.broker.permissions.quotas.limits
        self._throttle: Throttle | None = None
        """There as soon as somebody has a quota."""
        self._now_s = listener.clock.monotonic_s
        self._connected_ms = listener.clock.now_ms()
        self.last_active_s = self._now_s()

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or hang up."""
        stream = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        host = peer[0] if peer else ""
        if not self.listener.admit(self, host):
            self._is_closed = True
            stream.abort()
            return
        stream.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=0)
        self.begin(stream, host, self.listener.principal(transport))

    def begin(self, transport: Transport, host: str, certified: Principal) -> None:
        """Wait for CONNECT."""
        self._transport = transport
        self.host = host
        self.certified = certified
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CONNECT_TIMEOUT_S, self._connect_too_late)

    def data_received(self, data: bytes) -> None:
        """Take the packets that the new bytes complete."""
        self.last_active_s = self._now_s()
        if self._limits:
            self._charge(produced=len(data))
        reader = self._reader
        if self._task is not None or self._packets:
            self._packets += reader.receive(data)
        else:
            message = reader.alone(data)
            try:
                if message is None or not publish_alone(self, reader.topic, message):
                    self._handle_all(reader.receive(data))
            except Exception as fault:  # noqa: BLE001  one client's fault is not the others'
                self.failed(fault)
        more = reader.held + self._unstored_bytes - self._held
        if more > UNCOUNTED_BYTES_MAX or self._packets or reader.fault or self._throttle:
            self._after_read()

    def _after_read(self) -> None:
        fault = self._reader.fault
        if fault is not None and self._task is None and not self._packets:
            self.refuse(fault)
        self._account()

    def _charge(self, *, produced: int = 0, fetched: int = 0) -> None:
        """Charge bytes to the client's quotas."""
        session = self.session
        if self._throttle is None and session is not None:
            who = (session.principal.name, session.client_id)
            quotas = self.front.broker.permissions.quotas
            self._throttle = Throttle(Meter(quotas, self.listener.clock, *who), self._go_on)
        if self._throttle is not None:
            self._throttle.count(produced=produced, fetched=fetched)

    @property
    def _is_throttled(self) -> bool:
        return self._throttle is not None and self._throttle.is_waiting

    def _handle_all(self, packets: list[Packet]) -> None:
        for at, packet in enumerate(packets):
            if self._is_closed:
                return
            if at == PACKETS_AT_ONCE:
                self._packets += packets[at:]
                asyncio.get_running_loop().call_soon(self._handle_waiting)
                return
            try:
                work = HANDLERS[type(packet)](self, packet)
            except Exception as fault:  # noqa: BLE001  one client's fault is not the others'
                self.failed(fault)
                return
            if work is not None:
                self._packets += packets[at + 1 :]
                self._task = self.listener.tasks.create_task(self._finish(work))
                self._account()
                return

    async def _finish(self, work: Coroutine[None, None, None]) -> None:
        """Do what takes time, then go on with the packets behind it."""
        try:
            await work
        except Exception as fault:  # noqa: BLE001  one client's fault is not the listener's
            self.failed(fault)
        self._task = None
        self._handle_waiting()

    def _handle_waiting(self) -> None:
        """Go on with the packets that had to wait."""
        packets, self._packets = self._packets, []
        self._handle_all(packets)
        self._after_read()

    def failed(self, fault: Exception) -> None:
        """Close, and tell the client why as far as it concerns the client."""
        if isinstance(fault, MalformedPacket):
            self.refuse(fault)
        elif isinstance(fault, ChordMQError):
            self.fail(fault)
        else:
            log.error(
                "connection failed", listener=self._protocol, address=self.host, exc_info=fault
            )
            self.end(Reason.UNSPECIFIED_ERROR, "a fault of this node; its log says more")

    def eof_received(self) -> bool:
        """Close when the client does."""
        return False

    def pause_writing(self) -> None:
        """Send no more while the client does not take what was sent."""
        self._is_paused = True
        self._account()

    def resume_writing(self) -> None:
        """Go on when the client has taken what was sent."""
        self._is_paused = False
        self._account()
        self.pump_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the session to the client's next connection."""
        self._leave()
        self.listener.memory.note(self, self._held, 0)
        self._held = 0
        self.listener.forget(self, self.host)

    # What goes out.

    @property
    def has_room(self) -> bool:
        """Return whether the client takes what was sent."""
        return not self._is_paused and not self._is_throttled

    def send(self, data: bytes) -> None:
        """Send bytes at the end of this turn, or now if they are many."""
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= WRITE_BYTES_MAX:
            self.flush()
        elif not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self.front.writes.add(self)

    def flush(self) -> None:
        """Send what there is to send."""
        self._is_scheduled = False
        out = self._out
        if not out or self._is_closed:
            return
        if self._limits:
            self._charge(fetched=self._out_bytes)
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self._out_bytes = 0
        self._transport.write(data)

    def pump_soon(self) -> None:
        """Have the outbox's `pump` called in the next turn."""
        if not self._is_pumping and not self._is_closed:
            self._is_pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        session = self.session
        if session is not None and session.outbox.connection is self:
            session.outbox.pump()

    def take(self, receipt: Receipt | Letter) -> None:
        """Count messages that are being stored, and have their receipt sent in its turn."""
        self._unstored_bytes += receipt.size
        self._answers.append(receipt)
        self.unanswered += receipt.count
        if self.version == V5:
            self._check_unanswered()

    def settled(self, receipt: Receipt | Letter) -> None:
        """Count messages that are stored, or could not be, and send the answers that are there."""
        self.unanswered -= receipt.count
        self._unstored_bytes -= receipt.size
        if not self._is_reading or self._held:
            self._account()
        if len(self._answers) > 1:
            self.answered()
            return
        self._answers.clear()
        if receipt.data:
            self.send(receipt.data)

    def expect(self, answer: Answer) -> Answer:
        """Have an answer sent when it is there, after those before it."""
        self._answers.append(answer)
        return answer

    def answered(self) -> None:
        """Send the answers that are there, up to the first that is not."""
        answers, ready = self._answers, 0
        for answer in answers:
            if answer.data is None:
                break
            ready += 1
            if answer.data:
                self.send(answer.data)
        del answers[:ready]

    def count(self, number: int) -> None:
        """Count messages that the client waits for an answer to."""
        self.unanswered += number
        if self.version == V5:
            self._check_unanswered()

    def _check_unanswered(self) -> None:
        """Raise ProtocolError if the client has sent more than it may; see MQTT-3.3.4-9."""
        if self.unanswered > self.front.settings.receive_maximum:
            raise ProtocolError(
                f"{self.unanswered} messages without an answer", Reason.RECEIVE_MAXIMUM_EXCEEDED
            )

    def storing(self, size: int) -> None:
        """Count bytes that are being stored."""
        self._unstored_bytes += size

    def stored(self, size: int) -> None:
        """Count bytes that are stored, or could not be."""
        self._unstored_bytes -= size
        if not self._is_reading or self._held:
            self._account()

    # Coming and going.

    def accepted(self, session: Session, keep_alive_s: int) -> None:
        """Take note that the client is let in."""
        self.session = session
        self._keep_alive_s = keep_alive_s * KEEP_ALIVE_GRACE  # MQTT-3.1.2-22
        self._stop_timer()
        if keep_alive_s:
            self._look_later(self._keep_alive_s)
        self.front.connected += 1
        self.front.broker.presence.enter(self)
        authenticator = self.front.authenticator
        if authenticator is not None and self.login is not None:
            authenticator.logins.hold(self, self.login, partial(self.end, Reason.NOT_AUTHORIZED))

    def _go_on(self) -> None:
        """Read and send again after the client had to wait for its quotas."""
        self._account()
        self.pump_soon()

    def _look_later(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        """End a connection whose client has been silent for too long."""
        silent_s = self.listener.clock.monotonic_s() - self.last_active_s
        left_s = self._keep_alive_s - silent_s
        if left_s > 0 or not self._is_reading:
            self._look_later(max(left_s, 0.1))
        else:
            self.end(Reason.KEEP_ALIVE_TIMEOUT, "no packet came in time")

    def _connect_too_late(self) -> None:
        self._transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def refuse(self, fault: MalformedPacket) -> None:
        """Tell a client what is wrong with its bytes, and close."""
        if self.session is None and self.version == 0 and not self.connect:
            if fault.reason is Reason.UNSUPPORTED_PROTOCOL_VERSION:
                # MQTT-3.1.2-2; who does not know version 5 understands the shorter form.
                self.send(writer.connack(4, fault.reason))
            self._hang_up()
            return
        self.end(fault.reason, str(fault))

    def fail(self, error: ChordMQError) -> None:
        """Tell a client why it cannot be served, and close."""
        self.end(reason_of(error), str(error))

    def end(self, reason: Reason, text: str) -> None:
        """Say goodbye in words of the client's version, and close."""
        if self._is_closed:
            return
        log.debug("connection closed", listener=self._protocol, address=self.host, reason=text)
        if self.connect is not None and self.session is None:
            if reason is Reason.SESSION_TAKEN_OVER:  # CONNACK has no word for it
                reason = Reason.SERVER_BUSY
            properties = self.because(text)
            self.send(writer.connack(self.connect.version, reason, properties=properties))
        elif self.version == V5:
            self.send(writer.disconnect(reason, self.because(text)))
        self._hang_up()

    def because(self, text: str) -> Properties:
        """Return a reason string, unless the client wants none."""
        wanted = self.connect.properties.request_problem if self.connect else None
        if wanted == 0 or not text or self.version == 4:
            return NONE
        return Properties(reason_string=text[:REASON_LENGTH_MAX])

    def taken_over(self) -> None:
        """Make room for a newer connection of the same client (MQTT-3.1.4-3)."""
        self.end(Reason.SESSION_TAKEN_OVER, "the client has connected anew")

    def _hang_up(self) -> None:
        if self._is_closed:
            return
        self.flush()
        self._leave()
        self._transport.close()

    def _leave(self) -> None:
        """Give back what the client had."""
        self._is_closed = True
        self._stop_timer()
        if self.front.authenticator is not None:
            self.front.authenticator.logins.release(self)
        session, self.session = self.session, None
        if session is not None:
            self.front.connected -= 1
            self.front.broker.presence.leave(self)
            self.front.register.left(session, self)

    @property
    def is_gone(self) -> bool:
        """Return whether the connection is over."""
        return self._is_closed

    def leave(self) -> None:
        """Close after the client has said that it goes."""
        self._hang_up()

    def look_again(self) -> None:
        """Ask again where the client may publish to."""
        self.routes.clear()

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        session = self.session
        assert session is not None
        return ClientFacts(
            id=session.client_id,
            name=session.client_id,
            protocol=f"{self._protocol} {'5' if self.version == V5 else '3.1.1'}",
            user=session.principal.name,
            host=self.host,
            connected_ms=self._connected_ms,
            subscriptions=[*session.subscriptions, *session.shared],
        )

    # What the listener asks.

    @property
    def is_busy(self) -> bool:
        """Return whether the client is let in; the keep-alive tells whether it is still there."""
        return self.session is not None

    @property
    def is_partial(self) -> bool:
        """Return whether a packet has begun and not ended, and that is the client's doing."""
        return self._is_reading and self._reader.held > 0

    def drain(self) -> None:
        """Close: what the client has sent is answered as far as it is stored."""
        self.end(Reason.SERVER_SHUTTING_DOWN, "the node is shutting down")

    def close(self, reason: str) -> None:
        """End the connection."""
        self.end(Reason.ADMINISTRATIVE_ACTION, reason)

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        self._account()

    def _account(self) -> None:
        """Report the memory this client holds; read only while it is not too much."""
        if self._is_closed:
            return
        unsent = self._transport.get_write_buffer_size() if self._is_paused else 0
        held = self._reader.held + unsent + self._unstored_bytes
        wanted = not (self._task or self._packets) and self._unstored_bytes < UNSTORED_BYTES_MAX
        wanted = wanted and not self._is_throttled
        if not self.listener.memory.note(self, self._held, held):
            wanted = False
        self._held = held
        self._read(wanted)

    def _read(self, wanted: bool) -> None:
        if wanted != self._is_reading and not self._is_closed:
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

"""Drives one AMQP client: bytes to events to handlers, and all answers of a turn as one write."""

import asyncio
import secrets
from collections.abc import Iterable
from typing import Any

from pamqp import base, commands

from chordmq.broker.presence import ClientFacts
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.virtual_host import VirtualHost
from chordmq.broker.security.principal import ANONYMOUS
from chordmq.codecs.amqp.frames import (
    FRAME_MIN,
    Beat,
    Event,
    FrameFault,
    Method,
    Publish,
    Settle,
    method_frame,
)
from chordmq.errors import AuthenticationFailed, ChordMQError, DiskFull, NotCoordinator
from chordmq.fronts.amqp.channel import Channel
from chordmq.fronts.amqp.errors import Fault, fault_of
from chordmq.fronts.amqp.front import FRONT, REPLY_TO, AmqpFront
from chordmq.fronts.amqp.handlers import HANDLERS
from chordmq.fronts.amqp.login import MECHANISMS, log_in, renew
from chordmq.fronts.amqp.measures import amqp_measures
from chordmq.fronts.amqp.publishing import Publisher
from chordmq.fronts.amqp.settings import AmqpSettings
from chordmq.fronts.amqp.streams import StreamConsumer
from chordmq.fronts.amqp.wire import Wire
from chordmq.fronts.gate import Gate
from chordmq.fronts.opening import Connect, Open, Opening
from chordmq.logs import get_logger
from chordmq.version import VERSION

log = get_logger(__name__)

Connection = commands.Connection

LOGIN_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
BLOCKED_INTERVAL_S = 0.5
UNANSWERED_BYTES_MAX = 8 * 1024 * 1024
"""Of messages that are being stored, above which no more are read."""
COUNTING = (
    commands.Basic.Get,
    commands.Queue.Declare,
    commands.Queue.Purge,
    commands.Queue.Delete,
)
"""Methods that see what the same client has published before them."""
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


class AmqpConnection(Wire):
    """One client with its channels.

    Everything that one read brings is worked off in its order, and what it publishes is appended at
    once.
    """

    def __init__(self, front: AmqpFront) -> None:
        super().__init__(front)
        self.front = front
        self.vhost: VirtualHost
        self.publisher = Publisher(self)
        self.thirsty: dict[Queue | StreamConsumer, None] = {}
        """Queues whose consumers have room again."""
        self.login_name = ""
        self.number = secrets.token_urlsafe(12)
        self._properties: dict[str, Any] = {}
        self._channels: dict[int, Channel] = {}
        self._channels_max = front.settings.channels_max
        self._is_blocked = False

    # What the client's task does.

    async def _run(self) -> None:
        """Keep one client's fault from ending the listener."""
        try:
            await self._serve()
        except TimeoutError:
            self.close("the login did not come in time")
        except Fault as fault:
            await self._end(fault)
        except FrameFault as fault:
            await self._end(Fault(fault.code, fault.text))
        except Exception:
            log.exception("connection failed", listener="amqp", address=self.host)
            await self._end(Fault(541, "a fault of this node; its log says more"))
        finally:
            self._hang_up()

    async def _serve(self) -> None:
        async with asyncio.timeout(LOGIN_TIMEOUT_S):
            if not await self.greeted():
                return
            await self._open()
        self.meter.user = self.principal.name
        self.meter.client = str(self._properties.get("connection_name", ""))
        self.front.enter(self)
        while not self.is_closing:
            await self._work(await self.next_events())
            self._charge(0)
            while self._must_wait:
                self._arrived.clear()
                await self._arrived.wait()

    @property
    def _must_wait(self) -> bool:
        """Return whether nothing more is to be taken from the client for now."""
        is_full = self.publisher.unanswered > UNANSWERED_BYTES_MAX
        return is_full or self._is_blocked or self.is_throttled

    async def _open(self) -> None:
        """Agree on who the client is, how much fits into a frame, and the virtual host."""
        settings = self.front.settings
        properties: dict[str, Any] = {
            "product": "ChordMQ",
            "version": VERSION,
            "platform": "Python",
            "capabilities": CAPABILITIES,
        }
        self.tell(Connection.Start(0, 9, properties, MECHANISMS, "en_US"))
        await self._log_in(await self._expect(Connection.StartOk))
        self.tell(Connection.Tune(settings.channels_max, settings.frame_max, settings.heartbeat_s))
        self._tune(await self._expect(Connection.TuneOk))
        opened = await self._expect(Connection.Open)
        await self._until_loaded()
        vhost = self.front.queues.vhost(opened.virtual_host or "/")
        if vhost is None:
            raise Fault(530, f"vhost {opened.virtual_host} not found", opened.index)
        self.vhost = vhost
        self.tell(Connection.OpenOk())

    async def _until_loaded(self) -> None:
        """Wait for the queues; refuse the client if another node looks after them."""
        queues = self.front.queues
        try:
            if await queues.home() is not None:
                raise NotCoordinator("another node looks after the queues")
        except ChordMQError as error:
            raise Fault(320, str(error)) from None
        await queues.loaded.wait()

    async def _expect(self, kind: type[base.Frame]) -> Any:
        """Return the one method that may come now."""
        event = await self.next_event()
        if isinstance(event, Beat):
            return await self._expect(kind)
        if not isinstance(event, Method) or event.channel or not isinstance(event.method, kind):
            if isinstance(event, Method) and isinstance(event.method, Connection.Close):
                self.tell(Connection.CloseOk())
                raise asyncio.CancelledError
            raise Fault(503, f"{kind.__name__} was due")
        return event.method

    async def _log_in(self, answer: commands.Connection.StartOk) -> None:
        self._properties = dict(answer.client_properties or {})
        response: Any = answer.response  # bytes if they are no UTF-8
        data = response.encode() if isinstance(response, str) else bytes(response)
        try:
            login = await log_in(
                self.front.authenticator, answer.mechanism, data, self.host, self.certified
            )
        except AuthenticationFailed as error:
            if not self.wants("authentication_failure_close"):
                raise asyncio.CancelledError from None
            raise Fault(403, f"login was refused using {answer.mechanism}: {error}") from None
        self.hold(login)
        self.login_name = self.principal.name
        if self.principal is ANONYMOUS and answer.mechanism == "PLAIN":
            self.login_name = data.split(b"\0")[1].decode(errors="replace")

    async def _renew(self, secret: Any) -> None:
        """Let a client go on with a new token."""
        text = secret if isinstance(secret, str) else bytes(secret).decode(errors="replace")
        try:
            login = await renew(self.front.authenticator, text, self.host, self.principal)
        except AuthenticationFailed as error:
            raise Fault(530, str(error)) from None
        self.hold(login)
        self.tell(Connection.UpdateSecretOk())

    def _tune(self, answer: commands.Connection.TuneOk) -> None:
        settings = self.front.settings
        wanted = answer.frame_max or settings.frame_max
        if not FRAME_MIN <= wanted <= settings.frame_max:
            raise Fault(530, f"frame_max {wanted} was not offered")
        self.frame_max = self.reader.frame_max = wanted
        self._channels_max = min(answer.channel_max or settings.channels_max, settings.channels_max)
        if answer.heartbeat:
            self.beat_twice(answer.heartbeat)

    async def _work(self, events: list[Event]) -> None:
        """Do what the events of one read ask for, in their order."""
        for event in events:
            channel = self._channels.get(event.channel)
            try:
                if channel is None or channel.is_closing:
                    await self._without_channel(event)
                elif isinstance(event, Publish) and channel.transaction is None:
                    await self.publisher.publish(channel, event)
                else:
                    await self._do(channel, event)
            except Fault as fault:
                if channel is None or not fault.is_soft:
                    self.publisher.end_read()
                    raise
                self._close_channel(channel, fault)
        self.publisher.end_read()
        self.quench()

    async def _do(self, channel: Channel, event: Event) -> None:
        """Do what one event asks for, unless it is a plain publication."""
        if isinstance(event, Settle):
            channel.settle(event)
        elif isinstance(event, Publish):
            assert channel.transaction is not None
            channel.transaction.append(event)
        elif isinstance(event, Method):
            self.publisher.end_read()
            if isinstance(event.method, COUNTING):
                await self.publisher.settled()
            await self._handle(channel, event.method)

    async def _handle(self, channel: Channel, method: base.Frame) -> None:
        if isinstance(method, commands.Channel.Close):
            channel.close()
            del self._channels[channel.number]
            self.send(method_frame(channel.number, commands.Channel.CloseOk()))
            return
        if isinstance(method, commands.Channel.Open):
            raise Fault(504, "second 'channel.open' seen", method.index)
        handler = HANDLERS.get(type(method))
        if handler is None:
            if isinstance(method, commands.Channel.FlowOk):
                return
            raise Fault(503, f"{method.name} is not for clients to send", method.index)
        try:
            await handler(channel, method)
        except Fault as fault:
            fault.method = fault.method or method.index
            raise
        except ChordMQError as error:
            raise fault_of(error, method.index) from None

    async def _without_channel(self, event: Event) -> None:
        """Do what belongs to no open channel."""
        number = event.channel
        if isinstance(event, Beat):
            return
        method = event.method if isinstance(event, Method) else None
        if number == 0:
            await self._handle_connection(method)
        elif number in self._channels:  # closed by us; the client does not know yet
            if isinstance(method, commands.Channel.CloseOk):
                del self._channels[number]
            elif isinstance(method, commands.Channel.Close):
                del self._channels[number]
                self.send(method_frame(number, commands.Channel.CloseOk()))
        elif isinstance(method, commands.Channel.Open):
            if len(self._channels) >= self._channels_max or number > self._channels_max:
                raise Fault(530, f"{self._channels_max} channels may be open", method.index)
            self._channels[number] = Channel(self, number)
            self.send(method_frame(number, commands.Channel.OpenOk()))
        elif not isinstance(method, commands.Channel.CloseOk):
            raise Fault(504, f"expected 'channel.open' on channel {number}")

    async def _handle_connection(self, method: base.Frame | None) -> None:
        if isinstance(method, Connection.Close):
            self.publisher.end_read()
            self._leave()
            self.tell(Connection.CloseOk())
            self.is_closing = True
        elif isinstance(method, Connection.UpdateSecret):
            await self._renew(method.new_secret)
        elif not isinstance(method, Connection.CloseOk):
            name = "content" if method is None else method.name
            raise Fault(503, f"{name} was not due on channel 0")

    def _close_channel(self, channel: Channel, fault: Fault) -> None:
        """Close a channel for what the client did wrong on it."""
        log.debug("channel closed", address=self.host, reason=fault.text)
        self.publisher.end_read()
        channel.close()
        self.send(method_frame(channel.number, _close(commands.Channel.Close, fault)))

    async def _end(self, fault: Fault) -> None:
        """Say why the connection ends, and wait a little for the client to agree."""
        if self._is_closed:
            return
        log.info("connection closed", listener="amqp", address=self.host, reason=fault.text)
        self._leave()
        self.tell(_close(Connection.Close, fault))
        self._flush()
        self.is_closing = True
        self._fault = None
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._closed()
        except (TimeoutError, FrameFault):
            return

    async def _closed(self) -> None:
        while True:
            for event in await self.next_events():
                if isinstance(event, Method) and isinstance(event.method, Connection.CloseOk):
                    return

    # What channels ask.

    def wants(self, capability: str) -> bool:
        """Return whether the client has said that it understands something."""
        capabilities = self._properties.get("capabilities")
        return isinstance(capabilities, dict) and bool(capabilities.get(capability))

    def reply_name(self) -> str:
        """Return the name that answers to this client are sent to; raise a Fault if it has none."""
        for channel in self._channels.values():
            if channel.reply_consumer is not None:
                return channel.reply_consumer.name
        raise Fault(406, "fast reply consumer does not exist")

    def reply_name_of(self, channel: Channel) -> str:
        """Return a new name for answers to a channel."""
        name = f"{REPLY_TO}.{self.number}.{channel.number}"
        self.front.replies[name] = channel
        return name

    def refused(self, error: ChordMQError, unconfirmed: Iterable[Channel]) -> None:
        """Take note that messages could not be stored; who hears of it no other way is told."""
        if isinstance(error, DiskFull):
            self._block(str(error))
        for channel in unconfirmed:
            if not channel.is_closing and channel.number in self._channels:
                fault = fault_of(error)
                if fault.code > 499:
                    fault = Fault(406, str(error))
                self._close_channel(channel, fault)

    def quench(self) -> None:
        """Let queues deliver to consumers that have room again."""
        while self.thirsty and self.has_room:
            thirsty, self.thirsty = self.thirsty, {}
            for queue in thirsty:
                queue.pump()

    def _block(self, reason: str) -> None:
        """Take no more messages while the disk is full; others can still read."""
        if not self._is_blocked and not self._is_closed:
            self._is_blocked = True
            if self.wants("connection.blocked"):
                self.tell(Connection.Blocked(reason=reason[:200]))
            asyncio.get_running_loop().call_later(BLOCKED_INTERVAL_S, self._unblock)

    def _unblock(self) -> None:
        if self._is_closed:
            return
        if self.front.broker.shared.full:
            asyncio.get_running_loop().call_later(BLOCKED_INTERVAL_S, self._unblock)
            return
        self._is_blocked = False
        if self.wants("connection.blocked"):
            self.tell(Connection.Unblocked())
        self._arrived.set()

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        channels = self._channels.values()
        return ClientFacts(
            id=self.number,
            name=str(self._properties.get("connection_name", "")),
            protocol="amqp-0-9-1",
            user=self.principal.name,
            host=self.host,
            connected_ms=self.connected_ms,
            subscriptions=[c.queue.name for one in channels for c in one.consumers.values()],
            channels=len(channels),
        )

    @property
    def is_waiting(self) -> bool:
        """Return whether the client waits for messages."""
        return any(channel.consumers for channel in self._channels.values())

    def _thirst(self) -> None:
        """Let all queues deliver to this client again."""
        for channel in self._channels.values():
            self.thirsty.update(dict.fromkeys(one.queue for one in channel.consumers.values()))
        self.quench()

    def _leave(self) -> None:
        """Give back what the client had."""
        self.release()
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()
        self.thirsty.clear()
        self.front.queues.disown(self)
        self.front.leave(self)


def _close(kind: Any, fault: Fault) -> base.Frame:
    """Return the method that closes a channel or a connection."""
    method: base.Frame = kind(
        reply_code=fault.code,
        reply_text=fault.text,
        class_id=fault.method >> 16,
        method_id=fault.method & 0xFFFF,
    )
    return method


def open_amqp(opening: Opening, newer: Open | None = None) -> Connect:
    """Begin to serve clients; those of AMQP 1.0 on the same listener, by `newer`."""
    settings = opening.listener.settings
    assert isinstance(settings, AmqpSettings)
    queues = opening.broker.queues
    front = AmqpFront(opening.broker, opening.listener, settings, queues, opening.authenticator)
    front.newer = None if newer is None else newer(opening)
    opening.metrics.add(lambda: amqp_measures(front))
    queues.on_unloaded.append(front.send_away)
    tunnels = opening.broker.tunnels
    if tunnels is None:
        return lambda: AmqpConnection(front)
    tunnels.serve(FRONT, lambda: AmqpConnection(front))
    return lambda: Gate(
        opening.listener, tunnels, FRONT, lambda _: queues.home, lambda: AmqpConnection(front)
    )

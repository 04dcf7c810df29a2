"""Drives one client of the provider's protocol: its frames in, messages pushed, signs of life."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any

from chordmq.broker.presence import ClientFacts, ConsumerFacts
from chordmq.broker.security.acl import Kind, Operation
from chordmq.codecs.provider.frames import (
    HEAD,
    HEAD_SIZE,
    NOBODY,
    Status,
    Type,
    accepted,
    frame,
    goodbye,
    read_acknowledgement,
    read_commits,
    refused,
)
from chordmq.codecs.provider.messages import STARTS, Login, Subscribe, positions, read
from chordmq.errors import (
    AuthenticationFailed,
    ChordMQError,
    DecodeError,
    InvalidRequest,
    PolicyViolation,
)
from chordmq.fronts.opening import Connect, Opening
from chordmq.fronts.provider.access import Access
from chordmq.fronts.provider.consumers import (
    MESSAGES_AT_ONCE,
    Consumer,
    OwnIndex,
    SharedIndex,
    write_pushes,
)
from chordmq.fronts.provider.errors import status_of
from chordmq.fronts.provider.front import ProviderFront
from chordmq.fronts.provider.measures import provider_measures
from chordmq.fronts.provider.producers import Producer
from chordmq.fronts.provider.settings import ProviderSettings
from chordmq.fronts.stream import Stream
from chordmq.logs import get_logger

log = get_logger(__name__)

LOGIN_TIMEOUT_S = 10.0
UNANSWERED_BYTES_MAX = 4 * 1024 * 1024
"""Of messages that are being stored, above which no more are read."""
NAME_LENGTH_MAX = 200
OUTCOMES = range(1, 5)


def open_provider(opening: Opening) -> Connect:
    """Begin to serve clients."""
    broker, settings = opening.broker, opening.listener.settings
    assert isinstance(settings, ProviderSettings)
    front = ProviderFront(broker, opening.listener, settings, opening.authenticator)
    opening.metrics.add(lambda: provider_measures(front))
    broker.topics.watchers.append(front.look_again)
    broker.permissions.listeners.append(front.look_again)
    return lambda: Stream(opening.listener, partial(serve, front), HEAD_SIZE)


class Leave(Exception):
    """The connection ends, and this is what the client is told last."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


async def serve(front: ProviderFront, stream: Stream) -> None:
    """Serve one client until it leaves; what is wrong with a frame is said in an ACK."""
    session = Session(front, stream)
    try:
        await session.run()
    except Leave as leave:
        stream.write(goodbye(leave.status, str(leave)))
    except (ChordMQError, DecodeError) as fault:
        stream.write(goodbye(status_of(fault), str(fault)))


class Session:
    """One client: it may publish, and hold one subscription."""

    def __init__(self, front: ProviderFront, stream: Stream) -> None:
        self._front = front
        self._stream = stream
        self._number = uuid.uuid4().hex
        self._name = ""
        self._access = Access(front, stream)
        self._producer = Producer(front, self._access, stream.write)
        self._consumer: Consumer | None = None
        self._woken = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self._helpers: list[asyncio.Task[None]] = []
        self._leave: Leave | None = None
        self._connected_ms = front.listener.clock.now_ms()

    async def run(self) -> None:
        """Read until the client leaves; raise what it is told last."""
        front = self._front
        front.sessions[self] = None
        front.broker.presence.enter(self)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._help(self._beat())
                try:
                    await self._access.meter.working(self._read())
                finally:
                    for helper in self._helpers:
                        helper.cancel()
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        finally:
            front.sessions.pop(self, None)
            front.broker.presence.leave(self)
            front.broker.presence.unsubscribe(self)
            if self._consumer is not None:
                self._consumer.close()

    def _help(self, work: Coroutine[None, None, None]) -> None:
        """Run something beside the reading, until that ends."""
        self._helpers.append(self._tasks.create_task(work))

    async def _read(self) -> None:
        while not self._access.is_open:
            await self._first_frames()
        while frames := await self._stream.frames():
            await self._take(frames)
            await self._access.meter.pause()
            await self._producer.unanswered_below(UNANSWERED_BYTES_MAX)
            await self._stream.room()
        await self._producer.unanswered_below(1)
        raise Leave(Status.UNAVAILABLE, "the node stops, or nothing more came")

    async def _first_frames(self) -> None:
        """Let nobody past who has not said who it is."""
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                frames = await self._stream.frames()
        except TimeoutError:
            raise AuthenticationFailed("the login did not come in time") from None
        if not frames:
            raise Leave(Status.OK, "goodbye")
        if frames[0][0] not in (Type.HEARTBEAT, Type.SUBSCRIBE):
            self._access.check_open()
        await self._take(frames)

    async def _take(self, frames: Sequence[bytes]) -> None:
        """Work on the frames of one read, neighbours of one type together."""
        for kind, group in itertools.groupby(frames, itemgetter(0)):
            handle = HANDLERS.get(kind)
            if handle is None:
                raise DecodeError(f"no frame has the type {kind}; types are 1 to 8")
            await handle(self, list(group))

    # What each type of frame does.

    async def _publish(self, frames: Sequence[bytes]) -> None:
        self._access.check_open()
        self._access.meter.produced += sum(map(len, frames))
        await self._producer.publish(frames)

    async def _mark(self, frames: Sequence[bytes]) -> None:
        self._access.check_open()
        for one in frames:
            with self._answering(one):
                await self._producer.mark(one)

    async def _acknowledge(self, frames: Sequence[bytes]) -> None:
        answers = [read_acknowledgement(one) for one in frames]
        if any(one.outcome not in OUTCOMES for one in answers):
            raise DecodeError("an outcome is 1 accept, 2 release, 3 reject or 4 renew")
        if self._consumer is None:
            raise DecodeError("nothing was sent that could be acknowledged")
        strange = self._consumer.acknowledge(answers)
        if strange:
            text = "this message is not with you: it was acknowledged, or its time was over"
            self._stream.write(refused(strange, Status.NOT_HELD, text))

    async def _subscribe(self, frames: Sequence[bytes]) -> None:
        for one in frames:
            with self._answering(one):
                wanted = read(Subscribe, one)
                await self._access.log_in(wanted.token)
                if self._consumer is not None:
                    raise PolicyViolation("a connection holds one subscription")
                self._call(wanted.client)
                consumer = await self._open(wanted)
                began = await consumer.open()
                self._consumer = consumer
                self._front.broker.presence.subscribe(self)
                self._stream.write(accepted(HEAD.unpack_from(one)[1], positions(began)))
                self._help(self._access.meter.working(self._push(consumer)))

    async def _open(self, wanted: Subscribe) -> Consumer:
        check_subscription(wanted, self._front.settings.credit_max)
        self._check_access(wanted)
        front = self._front
        if wanted.index == "own":
            return OwnIndex(front, wanted, self._woken)
        if front.broker.groups.has(wanted.group):
            raise PolicyViolation(f"{wanted.group} is a group whose members own partitions")
        if wanted.dead_letter:
            self._access.check(Operation.WRITE, Kind.TOPIC, wanted.dead_letter)
            await front.broker.topics.ensure(wanted.dead_letter)
        return SharedIndex(front, wanted, self._woken, self._number)

    def _check_access(self, wanted: Subscribe) -> None:
        self._access.check(Operation.READ, Kind.TOPIC, wanted.topic)
        if wanted.group:
            self._access.check(Operation.READ, Kind.GROUP, wanted.group)
        self._front.broker.topics.get(wanted.topic)

    async def _commit(self, frames: Sequence[bytes]) -> None:
        for one in frames:
            with self._answering(one):
                if self._consumer is None:
                    raise InvalidRequest("subscribe before you commit")
                await self._consumer.commit(read_commits(one))
                self._stream.write(accepted(HEAD.unpack_from(one)[1]))

    async def _heartbeat(self, frames: Sequence[bytes]) -> None:
        for one in frames:
            if len(one) > HEAD_SIZE or not self._access.is_open:
                login = read(Login, one)
                self._call(login.client)
                await self._access.log_in(login.token)
            message_id = HEAD.unpack_from(one)[1]
            if message_id != NOBODY:
                self._stream.write(frame(Type.HEARTBEAT, message_id))

    def _call(self, name: str) -> None:
        """Remember what the client calls itself, in the registry and for its quotas."""
        if name:
            self._name = self._access.meter.client = name[:NAME_LENGTH_MAX]

    async def _disconnect(self, frames: Sequence[bytes]) -> None:
        raise Leave(Status.OK, "goodbye")

    def _answering(self, one: bytes) -> "Answering":
        return Answering(self._stream, HEAD.unpack_from(one)[1])

    # What runs beside the reading.

    async def _push(self, consumer: Consumer) -> None:
        """Send what there is whenever the client has room for it."""
        loop, stream, front = asyncio.get_running_loop(), self._stream, self._front
        while True:
            self._woken.clear()
            consumer.late(loop.time())
            room = consumer.window.room
            pushes = consumer.take(min(room, MESSAGES_AT_ONCE), loop.time()) if room > 0 else []
            if pushes:
                data = write_pushes(pushes)
                stream.write(data)
                self._access.meter.fetched += len(data)
                consumer.delivered += len(pushes)
                front.messages_out += len(pushes)
                front.redelivered += sum(deliveries > 1 for _, _, deliveries in pushes)
                await self._access.meter.pause()
                await stream.room()
                await asyncio.sleep(0)  # let others have their turn
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(consumer.window.deadline_s):
                        await self._woken.wait()

    async def _beat(self) -> None:
        """Give signs of life, and end a connection that gives none."""
        settings, clock = self._front.settings, self._front.listener.clock
        while True:
            await asyncio.sleep(min(settings.heartbeat_interval_s, self._left_s()))
            if self._left_s() <= 0:
                raise Leave(Status.UNAUTHENTICATED, "the token has expired")
            silent_s = clock.monotonic_s() - self._stream.last_active_s
            if silent_s > settings.idle_timeout_s:
                raise Leave(Status.SILENT, f"nothing came for {silent_s:.0f} s, not a HEARTBEAT")
            if self._stream.has_room:
                self._stream.write(frame(Type.HEARTBEAT, NOBODY))

    def _left_s(self) -> float:
        """Return how long the client's login is still good."""
        expires_ms = self._access.expires_ms
        if expires_ms is None:
            return self._front.settings.heartbeat_interval_s
        return max((expires_ms - self._front.listener.clock.now_ms()) / 1000, 0.0)

    # What others ask.

    def look_again(self) -> None:
        """Follow a change of topics or permissions."""
        if self._consumer is not None:
            self._consumer.grow()
            try:
                self._check_access(self._consumer.wanted)
            except ChordMQError as error:
                self._help(_end(error))

    def facts(self) -> ClientFacts:
        """Return what is known of the client now."""
        consumer = self._consumer
        return ClientFacts(
            id=self._number,
            name=self._name,
            protocol="provider",
            user=self._access.principal.name,
            host=self._stream.host,
            connected_ms=self._connected_ms,
            subscriptions=[] if consumer is None else [consumer.wanted.topic],
        )

    def consumption(self) -> ConsumerFacts:
        """Return what the client consumes now, and how far it is."""
        consumer = self._consumer
        assert consumer is not None
        return ConsumerFacts(
            client=self._number,
            name=self._name,
            protocol="provider",
            user=self._access.principal.name,
            host=self._stream.host,
            topic=consumer.wanted.topic,
            group=consumer.wanted.group,
            index=consumer.wanted.index,
            credit=consumer.wanted.credit,
            unacknowledged=len(consumer.window),
            delivered=consumer.delivered,
            lag=consumer.lag(),
            offsets={str(index): offset for index, offset in consumer.place().items()},
        )


class Answering:
    """Answers a frame with what is wrong with it, if it cannot be carried out."""

    def __init__(self, stream: Stream, message_id: int) -> None:
        self._stream = stream
        self._message_id = message_id

    def __enter__(self) -> None:
        """Do nothing before the frame is looked at."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Say what is wrong; a client that is not let in has to go."""
        if isinstance(error, AuthenticationFailed):
            return False
        if isinstance(error, ChordMQError | DecodeError):
            self._stream.write(refused([self._message_id], status_of(error), str(error)))
            return True
        return False


async def _end(error: ChordMQError) -> None:
    raise error


def check_subscription(wanted: Subscribe, credit_max: int) -> None:
    """Raise InvalidRequest for what cannot be combined."""
    if isinstance(wanted.start, str) and wanted.start not in STARTS:
        raise InvalidRequest(f"`from` is {', '.join(STARTS)}, an offset, or offsets by partition")
    if not 0 <= wanted.credit <= credit_max:
        raise InvalidRequest(f"credit is between 0 and {credit_max}, not {wanted.credit}")
    if wanted.ack_timeout_ms < 1 or wanted.deliveries_max < 0:
        raise InvalidRequest("ack_timeout_ms is at least 1, deliveries_max at least 0")
    if wanted.index == "own":
        if wanted.deliveries_max or wanted.dead_letter:
            raise InvalidRequest("only a shared index gives messages up")
        return
    if not wanted.group:
        raise InvalidRequest("those who share an index name their group")
    if not wanted.credit:
        raise InvalidRequest("those who share an index acknowledge messages; credit is at least 1")
    if not isinstance(wanted.start, str):
        raise InvalidRequest("a shared index begins earliest, latest or at a time")


Handler = Callable[[Session, Sequence[bytes]], Coroutine[Any, Any, None]]

HANDLERS: dict[int, Handler] = {
    Type.DATA: Session._publish,
    Type.ACK: Session._acknowledge,
    Type.SUBSCRIBE: Session._subscribe,
    Type.COMMIT_OFFSET: Session._commit,
    Type.RESET: Session._mark,
    Type.READY: Session._mark,
    Type.DISCONNECT: Session._disconnect,
    Type.HEARTBEAT: Session._heartbeat,
}

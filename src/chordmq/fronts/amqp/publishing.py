"""What a client publishes: checked, routed, and appended with all else that came in one read."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pamqp import commands

from chordmq.broker.partition import Partition
from chordmq.broker.queues.exchanges import DEFAULT
from chordmq.broker.queues.plans import Plan, make_plan
from chordmq.codecs.amqp.content import Envelope, Properties, read_properties, with_reply_to
from chordmq.codecs.amqp.frames import (
    PUBLISH,
    Publish,
    content_frames,
    method_frame,
)
from chordmq.errors import ChordMQError, DecodeError
from chordmq.fronts.amqp.confirms import Group
from chordmq.fronts.amqp.errors import Fault, fault_of
from chordmq.fronts.amqp.front import REPLY_TO
from chordmq.records.record import Headers, RecordRun

if TYPE_CHECKING:
    from chordmq.fronts.amqp.channel import Channel
    from chordmq.fronts.amqp.connection import AmqpConnection

MESSAGE_NO_ROUTE = 312


class Batch:
    """Records for one partition, and whom to tell."""

    __slots__ = ("count", "groups", "runs", "size", "unconfirmed")

    def __init__(self) -> None:
        self.runs: list[RecordRun] = []
        self.groups: dict[Group, tuple[Channel, list[range]]] = {}
        self.unconfirmed: dict[Channel, None] = {}
        self.count = 0
        self.size = 0

    def add(self, plan: Plan, headers: Headers, bodies: Sequence[bytes | None]) -> None:
        """Append messages that go by one plan."""
        self.runs.append(RecordRun(plan.time_ms, plan.key, headers, bodies))
        self.count += len(bodies)
        self.size += sum([len(body or b"") for body in bodies])

    def confirm(self, group: Group, channel: "Channel", numbers: range) -> None:
        """Have publications confirmed when the batch is committed."""
        told = self.groups.get(group)
        if told is None:
            self.groups[group] = (channel, [numbers])
        else:
            told[1].append(numbers)


class Publisher:
    """What one connection publishes; plans and records live for one read."""

    def __init__(self, connection: "AmqpConnection") -> None:
        self._connection = connection
        self._front = connection.front
        self._publishing = connection.front.queues.publishing
        self._plans: dict[tuple[str, str, bytes], Plan] = {}
        self._batches: dict[Partition, Batch] = {}
        self._confirming: dict[Channel, None] = {}
        self.unanswered = 0
        """Bytes that are on their way into the log."""
        self._pending: set[asyncio.Future[int]] = set()
        self._elsewhere: dict[Partition, int] = {}
        """Where messages end in partitions that other nodes lead."""

    async def publish(self, channel: "Channel", event: Publish) -> None:
        """Take messages; what they say wrong raises a Fault."""
        place = (event.exchange, event.key, event.properties)
        plan = self._plans.get(place)
        if plan is None:
            plan = self._plans[place] = await self._plan(event)
        if plan.is_simple and (plan.is_routed or not event.mandatory):
            self._take_all(channel, event.bodies, plan)
        else:
            for body in event.bodies:
                self._take(channel, event, body, plan)

    def _take_all(self, channel: "Channel", bodies: Sequence[bytes], plan: Plan) -> None:
        """Put messages into the batch of their partition."""
        assert plan.partition is not None
        count = len(bodies)
        self._front.messages_in += count
        batch = self._batch(plan.partition)
        batch.add(plan, plan.headers, bodies)
        if channel.confirms is None:
            batch.unconfirmed[channel] = None
            return
        group, last = channel.confirms.next(count)
        self._confirming[channel] = None
        batch.confirm(group, channel, range(last - count + 1, last + 1))

    def _batch(self, partition: Partition) -> Batch:
        batch = self._batches.get(partition)
        if batch is None:
            batch = self._batches[partition] = Batch()
        return batch

    def _take(self, channel: "Channel", event: Publish, body: bytes, plan: Plan) -> None:
        """Put one message into the batch of its partition, unless it is returned or refused."""
        group: Group | None = None
        number = 0
        if channel.confirms is not None:
            group, number = channel.confirms.next()
            self._confirming[channel] = None
        self._front.messages_in += 1
        if not plan.is_routed and event.mandatory:
            self._return(event, body)
            return
        if plan.partition is None:
            self._reply(event, body, plan)
            return
        headers: Headers | None = plan.headers
        if plan.limited:
            headers, is_refused = plan.room(self._publishing, self._connection.vhost)
            if is_refused and group is not None:
                group.failed.append(number)
                group = None
            if headers is None:
                return
        batch = self._batch(plan.partition)
        batch.add(plan, headers or (), [None if plan.is_null and not body else body])
        if group is None:
            batch.unconfirmed[channel] = None
        else:
            batch.confirm(group, channel, range(number, number + 1))

    def end_read(self) -> None:
        """Append what was taken; confirm it when it is committed."""
        self._plans.clear()
        batches, self._batches = self._batches, {}
        for partition, batch in batches.items():
            for group in batch.groups:
                group.parts += 1
            self.unanswered += batch.size
            self._connection.meter.produced += batch.size
            appended = self._publishing.appends.append(partition, batch.runs)
            self._pending.add(appended)
            appended.add_done_callback(self._when_done(partition, batch))
        for channel in self._confirming:
            assert channel.confirms is not None
            self._connection.send(channel.confirms.end_read())
        self._confirming.clear()

    def _when_done(
        self, partition: Partition, batch: Batch
    ) -> Callable[[asyncio.Future[int]], None]:
        def done(appended: asyncio.Future[int]) -> None:
            self._pending.discard(appended)
            self.unanswered -= batch.size
            error = None if appended.cancelled() else appended.exception()
            if error is None and not appended.cancelled():
                if not partition.is_leader:
                    self._elsewhere[partition] = appended.result() + batch.count
                self._connection.audit(partition, appended.result(), batch.count)
            if isinstance(error, ChordMQError):
                self._connection.refused(error, batch.unconfirmed)
            for group, (channel, numbers) in batch.groups.items():
                if error is not None:
                    group.failed += chain.from_iterable(numbers)
                if channel.confirms is not None:
                    self._connection.send(channel.confirms.done(group))
            self._connection.answered()

        return done

    async def settled(self) -> None:
        """Wait until all that was published before is in its queues, or cannot be."""
        if self._pending:
            await asyncio.wait(self._pending)
        elsewhere, self._elsewhere = self._elsewhere, {}
        for partition, offset in elsewhere.items():
            await self._front.queues.following.reached(partition, offset)

    async def committed(self) -> None:
        """Wait until all that was published before is committed; raise what went wrong."""
        self.end_read()
        if self._pending:
            for appended in await asyncio.gather(*self._pending, return_exceptions=True):
                if isinstance(appended, BaseException):
                    raise appended

    async def _plan(self, event: Publish) -> Plan:
        connection, publishing = self._connection, self._publishing
        vhost = connection.vhost
        if event.immediate:
            raise Fault(540, "immediate=true is not there", PUBLISH)
        properties = self._checked(event)
        envelope = Envelope(vhost.name, event.exchange, event.key, properties)
        if event.exchange == DEFAULT and event.key.startswith(REPLY_TO + "."):
            return self._reply_plan(envelope)
        now_ms = self._front.listener.clock.now_ms()
        try:
            return await make_plan(publishing, vhost, envelope, connection.check_publish, now_ms)
        except ChordMQError as error:
            raise fault_of(error, PUBLISH) from None

    def _checked(self, event: Publish) -> Properties:
        """Return the properties, if they may be as they are."""
        try:
            properties = read_properties(event.properties)
        except DecodeError as error:
            raise Fault(502, str(error), PUBLISH) from None
        expiration, user = properties.expiration, properties.user_id
        if expiration is not None and not (expiration.isascii() and expiration.isdigit()):
            raise Fault(406, f"invalid expiration {expiration[:40]!r}: no whole number", PUBLISH)
        if user is not None and user != self._connection.login_name:
            name = self._connection.login_name
            raise Fault(406, f"user_id property set to {user!r} but the user was {name!r}", PUBLISH)
        if properties.reply_to == REPLY_TO:
            return with_reply_to(properties, self._connection.reply_name())
        return properties

    def _reply_plan(self, envelope: Envelope) -> Plan:
        waiting = envelope.key in self._front.replies
        return Plan(None, None, (), 0, envelope, waiting)

    def _reply(self, event: Publish, body: bytes, plan: Plan) -> None:
        """Hand an answer straight to the client that waits for it; what has no place is dropped."""
        waiting = None if event.exchange else self._front.replies.get(event.key)
        if waiting is not None:
            waiting.reply(plan.envelope, body)

    def _return(self, event: Publish, body: bytes) -> None:
        self._front.returned += 1
        method = commands.Basic.Return(
            reply_code=MESSAGE_NO_ROUTE,
            reply_text="NO_ROUTE",
            exchange=event.exchange,
            routing_key=event.key,
        )
        connection = self._connection
        connection.send(
            method_frame(event.channel, method)
            + content_frames(event.channel, event.properties, body, connection.frame_max)
        )

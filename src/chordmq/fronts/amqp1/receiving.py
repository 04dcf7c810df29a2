"""Links on which clients send: messages are put together, planned and appended with their read."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chordmq.broker.partition import Partition
from chordmq.broker.queues.places import KEY_HEADER, TIME_HEADER, TRANSIENT
from chordmq.broker.queues.plans import Plan, make_plan
from chordmq.broker.queues.queue import Queue
from chordmq.broker.queues.translation import properties_of
from chordmq.codecs.amqp.content import Envelope
from chordmq.codecs.amqp1.composites import (
    Accepted,
    Composite,
    Error,
    Flow,
    Rejected,
    Released,
    TransactionalState,
    Transfer,
)
from chordmq.codecs.amqp1.sections import (
    BodyKind,
    Message,
    MessageHeader,
    MessageProperties,
    read_head,
    read_header,
    split_message,
    write_kept,
)
from chordmq.errors import ChordMQError, DecodeError
from chordmq.fronts.amqp1.addresses import Address, Place, read_address
from chordmq.fronts.amqp1.errors import (
    CREDIT,
    DECODE,
    LIMIT,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    TOO_LARGE,
    UNAUTHORIZED,
    Fault,
    LinkFault,
    error_of,
)
from chordmq.records.record import NewRecord

if TYPE_CHECKING:
    from chordmq.fronts.amqp1.connection import Amqp1Connection
    from chordmq.fronts.amqp1.session import Session

LINK_CREDIT = 1000
"""Messages that a client may send on a link before the first of them are stored."""
MASK = 2**32 - 1
OWN_NAMES = (KEY_HEADER, TIME_HEADER)
"""Application properties that stand for a record's key and time."""
ACCEPTED, RELEASED = Accepted(), Released()
FULL = Rejected(error=Error(condition=LIMIT, description="a queue is full"))


class Incoming:
    """A link on which the client sends."""

    def __init__(self, session: "Session", handle: int, address: Address | None) -> None:
        self.session = session
        self.handle = handle
        self.address = address
        """None if each message says where it goes."""
        self.unstored = 0
        """Messages that have come and are not stored yet."""
        self._credit = 0
        self._count = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._size_max = session.connection.front.limits.message_size_max
        self._delivery_id = 0
        self._settled = False
        self._transaction: bytes | None = None
        """That which the message belongs to of which parts have come."""

    @property
    def queue_name(self) -> str | None:
        """Return nothing: the client consumes nothing here."""
        return None

    async def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Take a message, or a part of one."""
        if not self._parts:
            self._begin(transfer)
        if transfer.settled:
            self._settled = True
        if transfer.aborted:
            self._forget()
            return
        self._parts.append(payload)
        self._size += len(payload)
        self.session.connection.hold_part(len(payload))
        if self._size > self._size_max:
            self._forget()
            raise LinkFault(TOO_LARGE, f"a message has at most {self._size_max} bytes")
        if transfer.more:
            return
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._forget()
        if self._transaction is not None:
            self._send_in(self._transaction, data)
            return
        self.unstored += 1
        delivery = Delivery(self, self._delivery_id, self._settled)
        await self.session.connection.publisher.take(delivery, data)

    def _send_in(self, number: bytes, data: bytes) -> None:
        """Put a message off to the end of its transaction, and say so."""
        self.session.transaction(number).send(self, data)
        if not self._settled:
            state = TransactionalState(txn_id=number, outcome=ACCEPTED)
            self.session.answer((self._delivery_id,), state)
        self.refill()

    def _begin(self, transfer: Transfer) -> None:
        if transfer.delivery_id is None:
            raise LinkFault(DECODE, "the first transfer of a message needs a delivery-id")
        if transfer.message_format:
            raise LinkFault(NOT_IMPLEMENTED, f"message format {transfer.message_format}")
        if self._credit <= 0:
            raise LinkFault(CREDIT, "more messages came than the link has credit for")
        self._credit -= 1
        self._count = (self._count + 1) & MASK
        self._delivery_id = transfer.delivery_id
        self._settled = False
        state = transfer.state
        self._transaction = state.txn_id if isinstance(state, TransactionalState) else None

    def _forget(self) -> None:
        self.session.connection.hold_part(-self._size)
        self._parts = []
        self._size = 0

    def flow(self, flow: Flow) -> None:
        """Say how much may come, if the client asks."""
        if flow.echo:
            self._grant()

    def refill(self) -> None:
        """Let the client send more, when half of its messages are stored."""
        free = LINK_CREDIT - self.unstored
        if free - self._credit >= LINK_CREDIT // 2:
            self._credit = free
            self._grant()

    def _grant(self) -> None:
        flow = self.session.flow_state()
        flow.handle, flow.delivery_count, flow.link_credit = self.handle, self._count, self._credit
        self.session.send(flow)

    def settle(self, settled: list[tuple[int, Any]], state: Any) -> None:
        """Take note of nothing: the client has got no messages here."""

    def thirst(self) -> None:
        """Deliver nothing."""

    def close(self, unsettled: list[Any]) -> None:
        """End; what has come is stored."""
        self._forget()


class Delivery(NamedTuple):
    """A message on its way in."""

    link: Incoming
    number: int
    settled: bool


class Batch:
    """Records for one partition, and whom to tell."""

    __slots__ = ("deliveries", "records", "size")

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.deliveries: list[Delivery] = []
        self.size = 0


class Publisher:
    """What one connection sends; plans and records live for one read."""

    def __init__(self, connection: "Amqp1Connection") -> None:
        self._connection = connection
        self._publishing = connection.front.queues.publishing
        self._plans: dict[tuple[Address | None, bytes, bytes, BodyKind], Plan] = {}
        self._batches: dict[Partition, Batch] = {}
        self.unanswered = 0
        """Bytes that are on their way into the log."""
        self._pending: set[asyncio.Future[int]] = set()

    async def take(self, delivery: Delivery, data: bytes) -> None:
        """Take a message; what is wrong with it ends the link, or is its outcome."""
        self._connection.front.messages_in += 1
        try:
            message = split_message(data)
            plan = await self._plan(delivery.link, message)
        except DecodeError as error:
            raise LinkFault(DECODE, str(error)) from None
        except (ChordMQError, Fault) as error:
            told = error.error if isinstance(error, Fault) else error_of(error)
            self._refuse(delivery, Rejected(error=told))
            return
        headers = plan.headers
        if plan.partition is None or (not plan.is_routed and plan.partition.topic == TRANSIENT):
            self._connection.front.released += 1
            self._refuse(delivery, RELEASED)
            return
        if plan.limited:
            room, is_refused = plan.room(self._publishing, self._connection.vhost)
            if room is None:
                self._refuse(delivery, FULL)
                return
            if is_refused and not delivery.settled:
                delivery.link.session.answer((delivery.number,), FULL)
                delivery = delivery._replace(settled=True)
            headers = room
        batch = self._batches.get(plan.partition)
        if batch is None:
            batch = self._batches[plan.partition] = Batch()
        body = None if plan.is_null else message.body
        batch.records.append(NewRecord(plan.time_ms, plan.key, body, headers))
        batch.deliveries.append(delivery)
        batch.size += len(data)

    async def store(self, sent: Sequence[tuple[Incoming, bytes]]) -> None:
        """Publish messages together, and return when all are committed; raise why they are not."""
        connection, batches = self._connection, dict[Partition, list[NewRecord]]()
        announced: list[Queue] = []
        try:
            for link, data in sent:
                message = split_message(data)
                plan = await self._new_plan(link, message)
                if plan.partition is None:
                    raise Fault(NOT_FOUND, "there is nowhere for a message to go")
                self._announce(plan, announced)
                body = None if plan.is_null else message.body
                record = NewRecord(plan.time_ms, plan.key, body, plan.headers)
                batches.setdefault(plan.partition, []).append(record)
                connection.meter.produced += len(data)
            appends = self._publishing.appends
            await asyncio.gather(*(appends.append(*batch) for batch in batches.items()))
        except (ChordMQError, DecodeError, Fault):
            for queue in announced:
                queue.announced -= 1
            raise
        connection.front.messages_in += len(sent)

    def _announce(self, plan: Plan, announced: list[Queue]) -> None:
        """Count a message in with the queues that refuse some; raise a Fault if one is full."""
        for queue in plan.limited:
            if queue.is_full:
                raise Fault(LIMIT, f"the queue {queue.name!r} is full")
            queue.announced += 1
            announced.append(queue)

    def _refuse(self, delivery: Delivery, state: Composite) -> None:
        """Tell the client at once that a message is not taken."""
        if not delivery.settled:
            delivery.link.session.answer((delivery.number,), state)
        delivery.link.unstored -= 1
        delivery.link.refill()

    async def _plan(self, link: Incoming, message: Message) -> Plan:
        place = (link.address, message.header, message.head, message.kind)
        plan = self._plans.get(place) if not message.footer else None
        if plan is None:
            plan = self._plans[place] = await self._new_plan(link, message)
        return plan

    async def _new_plan(self, link: Incoming, message: Message) -> Plan:
        connection = self._connection
        said = read_head(message.head).properties
        if said.user_id is not None and said.user_id != connection.login_name.encode():
            raise Fault(UNAUTHORIZED, "the user-id is not that of the user who is logged in")
        address = link.address or read_address(said.to)
        await connection.check_target(address)
        is_topic = address.place is Place.NAME and address.key not in connection.vhost.queues
        key = said.subject if is_topic else None
        envelope = Envelope(
            connection.vhost.name,
            address.exchange,
            address.key,
            properties_of(message.header, message.head, message.kind, key),
            b"" if is_simple(message, is_topic=is_topic) else write_kept(message),
        )
        now_ms = connection.front.listener.clock.now_ms()
        publishing, check = self._publishing, connection.check_publish
        return await make_plan(publishing, connection.vhost, envelope, check, now_ms)

    def end_read(self) -> None:
        """Append what was taken; tell the client when it is committed."""
        self._plans.clear()
        batches, self._batches = self._batches, {}
        for partition, batch in batches.items():
            self.unanswered += batch.size
            self._connection.meter.produced += batch.size
            appended = self._publishing.appends.append(partition, batch.records)
            self._pending.add(appended)
            appended.add_done_callback(self._when_done(partition, batch))

    def _when_done(
        self, partition: Partition, batch: Batch
    ) -> Callable[[asyncio.Future[int]], None]:
        def done(appended: asyncio.Future[int]) -> None:
            self._pending.discard(appended)
            self.unanswered -= batch.size
            state: Composite = ACCEPTED
            error = None if appended.cancelled() else appended.exception()
            if isinstance(error, ChordMQError):
                state = Rejected(error=error_of(error))
            elif error is None and not appended.cancelled():
                self._connection.audit(partition, appended.result(), len(batch.records))
            self._tell(batch.deliveries, state)
            self._connection.answered()

        return done

    def _tell(self, deliveries: list[Delivery], state: Composite) -> None:
        by_session: dict[Session, list[int]] = {}
        links: dict[Incoming, None] = {}
        for link, number, settled in deliveries:
            link.unstored -= 1
            links[link] = None
            if not settled:
                by_session.setdefault(link.session, []).append(number)
        for session, numbers in by_session.items():
            session.answer(numbers, state)
        for link in links:
            if not self._connection.is_closing and link.session.links.get(link.handle) is link:
                link.refill()

    async def settled(self) -> None:
        """Wait until all that was sent before is committed, or cannot be."""
        if self._pending:
            await asyncio.wait(self._pending)


_TREATMENTS = (MessageHeader(), MessageHeader(durable=True))


def is_simple(message: Message, *, is_topic: bool) -> bool:
    """Return whether a record can say all that a message does, to its own kind of clients, too.

    In a topic that is no queue, subject, time and texts have places in the record itself.
    """
    if message.kind not in (BodyKind.DATA, BodyKind.NULL) or message.footer:
        return False
    if message.header and read_header(message.header) not in _TREATMENTS:
        return False
    annotations, said, application = read_head(message.head)
    if is_topic:
        said = replace(said, subject=None, creation_time=None)
    elif application:
        return False
    return (
        not annotations
        and said == MessageProperties()
        and all(name in OWN_NAMES or _is_text(value) for name, value in application.items())
    )


def _is_text(value: Any) -> bool:
    """Return whether a value is the same after it was the bytes of a record's header."""
    if isinstance(value, list):
        return len(value) > 1 and all(_is_text(one) for one in value)
    if isinstance(value, bytes):
        try:
            value.decode()
        except UnicodeDecodeError:
            return True
        return False
    return value is None or type(value) is str

"""One session of a connection: its links, its windows, and what is on its way."""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from chordmq.codecs.amqp1.composites import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Composite,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Received,
    TransactionalState,
    Transfer,
)
from chordmq.codecs.amqp1.frames import (
    TRANSFER_OVERHEAD,
    frame,
    message_frames,
    transfer_frame,
)
from chordmq.codecs.amqp1.values import uint
from chordmq.errors import ChordMQError
from chordmq.fronts.amqp1.errors import (
    IN_USE,
    LIMIT,
    UNATTACHED,
    UNKNOWN_ID,
    WINDOW,
    LinkFault,
    SessionFault,
    error_of,
)
from chordmq.fronts.amqp1.reading import KeptPlace
from chordmq.fronts.amqp1.transactions import Settled, Transaction

if TYPE_CHECKING:
    from chordmq.fronts.amqp1.connection import Amqp1Connection

HANDLES_MAX = 1024
INCOMING_WINDOW = 8192
"""Transfers that a client may send before it hears of the session again."""
OUTGOING_WINDOW = 2**31 - 1
MASK = 2**32 - 1
"""Counters begin anew behind it."""


class Link(Protocol):
    """One way for messages, in one direction."""

    async def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Take a message, or a part of one."""
        ...

    def flow(self, flow: Flow) -> None:
        """Take note of how much may be sent, or is there."""
        ...

    def settle(self, settled: list[tuple[int, Any]], state: Any) -> None:
        """Take note of what has become of messages."""
        ...

    def close(self, unsettled: list[Any]) -> None:
        """End, and give back what is not settled."""
        ...

    @property
    def queue_name(self) -> str | None:
        """Return what the client consumes here; None if nothing."""
        ...

    def thirst(self) -> None:
        """Let the link deliver again."""
        ...


class Session:
    """What a client does on one channel."""

    def __init__(self, connection: "Amqp1Connection", channel: int, begin: Begin) -> None:
        self.connection = connection
        self.channel = channel
        self.is_ending = False
        """Whether the client was told that it has ended, and has not agreed yet."""
        self.links: dict[int, Link] = {}
        self.unsettled: dict[int, tuple[Link, Any]] = {}
        """Messages that the client has and has not settled, by delivery."""
        self._ending_links: set[int] = set()
        self._next_incoming_id = begin.next_outgoing_id
        self._incoming_window = INCOMING_WINDOW
        self._remote_window = begin.incoming_window
        self._next_outgoing_id = 0
        self._next_delivery_id = 0
        self._waiting: dict[Link, None] = {}
        """Links that the client's window has stopped."""
        self._unsent: deque[tuple[Link, bytes]] = deque()
        """Transfers that wait for the window."""

    def open(self) -> None:
        """Agree to the session."""
        self.send(
            Begin(
                remote_channel=self.channel,
                next_outgoing_id=self._next_outgoing_id,
                incoming_window=self._incoming_window,
                outgoing_window=OUTGOING_WINDOW,
                handle_max=HANDLES_MAX - 1,
            )
        )

    def send(self, performative: Composite) -> None:
        """Send a performative on this session."""
        self.connection.send(frame(self.channel, performative))

    # What the client says.

    async def handle(self, performative: Any, payload: bytes) -> None:
        """Do what a frame asks for; raise a SessionFault or worse if it cannot be done."""
        if isinstance(performative, Transfer):
            self._count_transfer()
            await self._on_link(performative.handle, performative, payload)
        elif isinstance(performative, Disposition):
            self._settle(performative)
        elif isinstance(performative, Flow):
            self._flow(performative)
        elif isinstance(performative, Attach):
            await self._attach(performative)
        elif isinstance(performative, Detach):
            await self._detach(performative)

    async def _on_link(self, handle: int, transfer: Transfer, payload: bytes) -> None:
        link = self.links.get(handle)
        if link is None:
            if handle not in self._ending_links:
                raise SessionFault(UNATTACHED, f"no link has the handle {handle}")
            return
        try:
            await link.transfer(transfer, payload)
        except LinkFault as fault:
            self.end_link(handle, fault.error)

    def _count_transfer(self) -> None:
        self._next_incoming_id = (self._next_incoming_id + 1) & MASK
        self._incoming_window -= 1
        if self._incoming_window < 0:
            raise SessionFault(WINDOW, f"the incoming window is {INCOMING_WINDOW}")

    def widen(self) -> None:
        """Let the client send more, when half of what it might send has come."""
        if self._incoming_window < INCOMING_WINDOW // 2 and not self.is_ending:
            self._incoming_window = INCOMING_WINDOW
            self.send(self.flow_state())

    def _flow(self, flow: Flow) -> None:
        # Before it has seen our begin, the client does not know where we began: at zero.
        seen = flow.next_incoming_id or 0
        window = (seen + flow.incoming_window - self._next_outgoing_id) & MASK
        self._remote_window = window if window <= flow.incoming_window else 0
        self._send_more()
        if self._remote_window and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for link in waiting:
                link.thirst()
        if flow.handle is not None:
            link_there = self.links.get(flow.handle)
            if link_there is not None:
                link_there.flow(flow)
            elif flow.handle not in self._ending_links:
                raise SessionFault(UNATTACHED, f"no link has the handle {flow.handle}")
        elif flow.echo:
            self.send(self.flow_state())

    def flow_state(self) -> Flow:
        """Return how things stand, as a flow to which a link may add."""
        return Flow(
            next_incoming_id=self._next_incoming_id,
            incoming_window=self._incoming_window,
            next_outgoing_id=self._next_outgoing_id,
            outgoing_window=OUTGOING_WINDOW,
        )

    async def _attach(self, attach: Attach) -> None:
        handle = attach.handle
        if handle >= HANDLES_MAX:
            raise SessionFault(LIMIT, f"a session has at most {HANDLES_MAX} links")
        if handle in self.links or handle in self._ending_links:
            raise SessionFault(IN_USE, f"the handle {handle} is in use")
        self._ending_links.add(handle)  # until it is open
        try:
            link = await self.connection.open_link(self, attach)
        except ChordMQError as error:
            self._refuse(attach, error_of(error))
        except LinkFault as fault:
            self._refuse(attach, fault.error)
        else:
            self._ending_links.discard(handle)
            self.links[handle] = link

    def _refuse(self, attach: Attach, error: Error) -> None:
        """Answer an attach that cannot be: without source or target, and then it ends."""
        answer = Attach(link_name=attach.link_name, handle=attach.handle, role=not attach.role)
        if answer.role is SENDER:
            answer.initial_delivery_count = 0
        self.send(answer)
        self.send(Detach(handle=attach.handle, closed=True, error=error))

    async def _detach(self, detach: Detach) -> None:
        handle = detach.handle
        if handle in self._ending_links:
            self._ending_links.discard(handle)
            return
        if handle not in self.links:
            raise SessionFault(UNATTACHED, f"no link has the handle {handle}")
        link = self.links[handle]
        self._drop(handle)
        error = None
        if detach.closed and isinstance(link, KeptPlace):
            try:
                await link.let_go()
            except ChordMQError as fault:
                error = error_of(fault)
        self.send(Detach(handle=handle, closed=detach.closed, error=error))

    def end_link(self, handle: int, error: Error) -> None:
        """End a link from our side, and say why."""
        if handle in self.links:
            self._drop(handle)
            self._ending_links.add(handle)
            self.send(Detach(handle=handle, closed=True, error=error))

    def _drop(self, handle: int) -> None:
        link = self.links.pop(handle)
        self._waiting.pop(link, None)
        if self._unsent:
            self._unsent = deque(one for one in self._unsent if one[0] is not link)
        own = [number for number, (one, _) in self.unsettled.items() if one is link]
        link.close([self.unsettled.pop(number)[1] for number in own])

    def end(self, error: Error | None = None) -> None:
        """End the session from our side."""
        self.close()
        self.is_ending = True
        self.send(End(error=error))

    def close(self) -> None:
        """Give everything back."""
        for handle in list(self.links):
            self._drop(handle)
        self.unsettled.clear()

    # What goes out.

    @property
    def has_room(self) -> bool:
        """Return whether the client takes one more message."""
        connection = self.connection
        return (
            self._remote_window > 0
            and not self._unsent
            and connection.has_room
            and not self.is_ending
            and len(self.unsettled) < connection.front.limits.unacknowledged_max
        )

    def wait_for_window(self, link: Link) -> None:
        """Let a link deliver again when the client has widened its window."""
        if self._remote_window <= 0:
            self._waiting[link] = None

    def deliver(self, link: Link, handle: int, message: bytes, held: Any) -> None:
        """Send a message; `held` is what stands for it until it is settled, None if it is."""
        number = self._next_delivery_id
        self._next_delivery_id = (number + 1) & MASK
        delivery = (number, number.to_bytes(4, "big"))
        frame_max = self.connection.frame_max
        if len(message) <= frame_max - TRANSFER_OVERHEAD:
            whole = transfer_frame(self.channel, uint(handle), delivery, held is None, message)
            self._unsent.append((link, whole))
        else:
            settled = held is None
            frames = message_frames(self.channel, handle, delivery, settled, message, frame_max)
            self._unsent.extend((link, one) for one in frames)
        self._send_more()
        self.connection.front.messages_out += 1
        if held is not None:
            self.unsettled[number] = (link, held)

    def _send_more(self) -> None:
        """Send transfers as far as the client's window goes."""
        while self._unsent and self._remote_window > 0:
            self._next_outgoing_id = (self._next_outgoing_id + 1) & MASK
            self._remote_window -= 1
            self.connection.send(self._unsent.popleft()[1])

    # What has become of messages.

    def _settle(self, disposition: Disposition) -> None:
        """Apply what the client says of messages that it has got."""
        if disposition.role is not RECEIVER or isinstance(disposition.state, Received):
            return
        if disposition.state is None and not disposition.settled:
            return
        state = disposition.state
        within = self.transaction(state.txn_id) if isinstance(state, TransactionalState) else None
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        found: dict[Link, list[tuple[int, Any]]] = {}
        for number in self._between(first, last):
            link, held = self.unsettled.pop(number)
            found.setdefault(link, []).append((number, held))
        for link, settled in found.items():
            if within is None:
                link.settle(settled, state)
            else:
                within.settled.append(Settled(link, settled, state.outcome))
        if found and not disposition.settled:
            self.send(Disposition(role=SENDER, first=first, last=last, settled=True, state=state))

    def transaction(self, number: bytes) -> Transaction:
        """Return a transaction that is open."""
        found = self.connection.transactions.get(number)
        if found is None:
            raise SessionFault(UNKNOWN_ID, "there is no such transaction, or it has ended")
        return found

    def _between(self, first: int, last: int) -> list[int]:
        if first == last:
            return [first] if first in self.unsettled else []
        span = (last - first) & MASK
        return [number for number in self.unsettled if (number - first) & MASK <= span]

    def answer(self, numbers: Iterable[int], state: Composite) -> None:
        """Tell the client what has become of messages that it has sent."""
        first = last = -2
        for number in sorted(numbers):
            if number == last + 1:
                last = number
                continue
            self._dispose(first, last, state)
            first = last = number
        self._dispose(first, last, state)

    def _dispose(self, first: int, last: int, state: Composite) -> None:
        if first >= 0 and not self.is_ending:
            self.send(Disposition(role=RECEIVER, first=first, last=last, settled=True, state=state))

"""Local transactions: what a client sends and settles in one counts together, or not at all."""

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from chordmq.codecs.amqp1.composites import (
    Accepted,
    Composite,
    Declare,
    Declared,
    Discharge,
    Error,
    Flow,
    Modified,
    Rejected,
    Transfer,
    to_composite,
)
from chordmq.codecs.amqp1.sections import split_message
from chordmq.codecs.amqp1.values import Described, read_value
from chordmq.errors import ChordMQError, DecodeError
from chordmq.fronts.amqp1.errors import (
    DECODE,
    LIMIT,
    NOT_IMPLEMENTED,
    ROLLBACK,
    UNKNOWN_ID,
    Fault,
    LinkFault,
)

if TYPE_CHECKING:
    from chordmq.fronts.amqp1.receiving import Incoming
    from chordmq.fronts.amqp1.session import Link, Session

CONTROL_CREDIT = 100
TRANSACTIONS_MAX = 100
"""That a link may have open."""
TRANSACTION_BYTES_MAX = 64 * 1024 * 1024
ID_BYTES = 8
UNDONE = Modified(delivery_failed=True)
"""The outcome of messages whose transaction never happened: they come again, and that counts."""


class Sent(NamedTuple):
    """A message that is to be published, and the link that it came on."""

    link: "Incoming"
    data: bytes


class Settled(NamedTuple):
    """Messages that are to have an outcome."""

    link: "Link"
    settled: list[tuple[int, Any]]
    outcome: Any


class Transaction:
    """What was done in a transaction so far."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.size = 0
        self.settled: list[Settled] = []

    def send(self, link: "Incoming", data: bytes) -> None:
        """Put a message off until the transaction ends."""
        if self.size + len(data) > TRANSACTION_BYTES_MAX:
            text = f"a transaction has at most {TRANSACTION_BYTES_MAX} bytes"
            raise LinkFault(LIMIT, text)
        self.sent.append(Sent(link, data))
        self.size += len(data)
        link.session.connection.hold_part(len(data))

    def undo(self) -> None:
        """Give back what was settled."""
        for link, settled, _ in self.settled:
            link.settle(settled, UNDONE)


class Controller:
    """A link on which a client begins and ends transactions."""

    queue_name = None

    def __init__(self, session: "Session", handle: int) -> None:
        self._session = session
        self._handle = handle
        self._count = 0
        self._own: set[bytes] = set()

    def grant(self) -> None:
        """Let the client go on."""
        flow = self._session.flow_state()
        flow.handle, flow.delivery_count = self._handle, self._count
        flow.link_credit = CONTROL_CREDIT
        self._session.send(flow)

    async def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Begin or end a transaction, and say how that went."""
        if transfer.delivery_id is None or transfer.more:
            raise LinkFault(NOT_IMPLEMENTED, "what controls a transaction fits into one frame")
        self._count += 1
        wish = _wish(payload)
        if isinstance(wish, Declare):
            state: Composite = self._declare()
        else:
            try:
                await self._discharge(wish)
                state = Accepted()
            except Fault as fault:
                state = Rejected(error=fault.error)
        self._session.answer((transfer.delivery_id,), state)
        self.grant()

    def _declare(self) -> Composite:
        if len(self._own) >= TRANSACTIONS_MAX:
            text = f"a link has at most {TRANSACTIONS_MAX} transactions open"
            return Rejected(error=Error(condition=LIMIT, description=text))
        number = secrets.token_bytes(ID_BYTES)
        self._own.add(number)
        self._session.connection.transactions[number] = Transaction()
        return Declared(txn_id=number)

    async def _discharge(self, wish: Discharge) -> None:
        if wish.txn_id not in self._own:
            raise Fault(UNKNOWN_ID, "there is no such transaction, or it has ended")
        transaction = self._end(wish.txn_id)
        if wish.fail:
            transaction.undo()
            return
        try:
            await self._session.connection.publisher.store(transaction.sent)
        except (ChordMQError, DecodeError, Fault) as error:
            transaction.undo()
            raise Fault(ROLLBACK, str(error)) from None
        for link, settled, outcome in transaction.settled:
            link.settle(settled, outcome)

    def _end(self, number: bytes) -> Transaction:
        self._own.discard(number)
        connection = self._session.connection
        transaction = connection.transactions.pop(number)
        connection.hold_part(-transaction.size)
        return transaction

    def flow(self, flow: Flow) -> None:
        """Say how much may come, if the client asks."""
        if flow.echo:
            self.grant()

    def settle(self, settled: list[tuple[int, Any]], state: Any) -> None:
        """Take note of nothing: the client has got no messages here."""

    def thirst(self) -> None:
        """Deliver nothing."""

    def close(self, unsettled: list[Any]) -> None:
        """Undo what was not ended."""
        for number in list(self._own):
            self._end(number).undo()


def _wish(payload: bytes) -> Declare | Discharge:
    """Return what the client wants; raise a LinkFault if that is nothing."""
    try:
        section, _ = read_value(split_message(payload).body, 0)
        wish = to_composite(section.value) if isinstance(section, Described) else None
    except DecodeError as error:
        raise LinkFault(DECODE, str(error)) from None
    if isinstance(wish, Declare) and wish.global_id is not None:
        raise LinkFault(NOT_IMPLEMENTED, "there are local transactions only")
    if not isinstance(wish, Declare | Discharge):
        raise LinkFault(DECODE, "a transaction is declared or discharged")
    return wish

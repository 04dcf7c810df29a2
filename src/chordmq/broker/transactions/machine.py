"""The machine of one transactional id: decides what to log, and applies what the log holds.

It knows neither clock nor log nor partitions' contents. Every operation returns the snapshot to be
logged, or None if there is nothing to do; only `replay` changes the state.

Two protocols meet here. Clients of the first add each partition before they write to it, and keep
their epoch as long as they live. Those of the second (KIP-890) add partitions by writing, and get a
new epoch with the end of each transaction, so that no late batch can join the next one.
"""

from collections.abc import Collection
from dataclasses import replace
from enum import Enum, IntEnum, auto

from chordmq.broker.groups.offsets import Place
from chordmq.broker.producers import Incarnation
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    ProducerFenced,
    ProducerIdMismatch,
)

EPOCH_MAX = 0x7FFF
NO_ID = -1
NO_EPOCH = -1


class State(IntEnum):
    """Where a transactional id stands; the numbers are those of Kafka's log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6


class Event(Enum):
    """What may happen to a transactional id."""

    INIT = auto()
    """A producer begins, or begins anew."""
    ADD = auto()
    """A partition joins the transaction."""
    COMMIT = auto()
    ABORT = auto()
    RENEW = auto()
    """A producer of the second protocol aborts what it never began, for a new epoch."""
    FENCE = auto()
    """A new producer takes over, or the time is up."""
    COMPLETE = auto()
    """All markers are written."""
    EXPIRE = auto()


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.INIT): State.EMPTY,
    (State.EMPTY, Event.ADD): State.ONGOING,
    (State.EMPTY, Event.RENEW): State.PREPARE_ABORT,
    (State.EMPTY, Event.EXPIRE): State.DEAD,
    (State.ONGOING, Event.ADD): State.ONGOING,
    (State.ONGOING, Event.COMMIT): State.PREPARE_COMMIT,
    (State.ONGOING, Event.ABORT): State.PREPARE_ABORT,
    (State.ONGOING, Event.FENCE): State.PREPARE_ABORT,
    (State.PREPARE_COMMIT, Event.COMPLETE): State.COMPLETE_COMMIT,
    (State.PREPARE_ABORT, Event.COMPLETE): State.COMPLETE_ABORT,
    (State.COMPLETE_COMMIT, Event.INIT): State.EMPTY,
    (State.COMPLETE_COMMIT, Event.ADD): State.ONGOING,
    (State.COMPLETE_COMMIT, Event.RENEW): State.PREPARE_ABORT,
    (State.COMPLETE_COMMIT, Event.EXPIRE): State.DEAD,
    (State.COMPLETE_ABORT, Event.INIT): State.EMPTY,
    (State.COMPLETE_ABORT, Event.ADD): State.ONGOING,
    (State.COMPLETE_ABORT, Event.RENEW): State.PREPARE_ABORT,
    (State.COMPLETE_ABORT, Event.EXPIRE): State.DEAD,
}
PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
ENDED = {
    True: (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
    False: (State.PREPARE_ABORT, State.COMPLETE_ABORT),
}
"""The states after a transaction was committed (True) or aborted (False)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSnapshot:
    """All that is known of a transactional id; the log's newest one is the truth."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[Place] = frozenset()
    updated_ms: int
    started_ms: int = -1
    """When the transaction began, or -1 before the first."""
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    """The id that takes over when the transaction is complete, because the epochs are used up."""
    has_epoch_per_transaction: bool = False
    """Whether the last transaction was of the second protocol."""
    last_epoch: int = NO_EPOCH
    """The epoch before a producer asked for a new one. Not stored: as with Kafka, a producer that
    asks again after a restart of the coordinator is fenced."""

    @property
    def producer(self) -> Incarnation:
        """Return the producer as the client knows it from here on."""
        if self.next_producer_id != NO_ID:
            return Incarnation(self.next_producer_id, 0)
        return Incarnation(self.producer_id, self.epoch)


def first_snapshot(
    transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int
) -> TransactionSnapshot:
    """Return what is logged for an id that is new."""
    return TransactionSnapshot(
        transactional_id=transactional_id,
        producer_id=producer_id,
        epoch=0,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


class Transaction:
    """One transactional id and its transactions, one at a time."""

    def __init__(self, snapshot: TransactionSnapshot) -> None:
        self.current = snapshot

    @property
    def state(self) -> State:
        """Return where the id stands."""
        return self.current.state

    @property
    def is_exhausted(self) -> bool:
        """Return whether the producer id has no epochs left, so that a new id is needed."""
        return _is_exhausted(self.current.epoch)

    @property
    def deadline_ms(self) -> int | None:
        """Return when the transaction's time is up, or None if there is none."""
        if self.state is not State.ONGOING:
            return None
        return self.current.started_ms + self.current.timeout_ms

    def init(
        self, expected: Incarnation | None, timeout_ms: int, new_id: int, now_ms: int
    ) -> TransactionSnapshot | None:
        """Let a producer begin with a new epoch, or with `new_id` when the epochs are used up.

        `expected` is what a producer that lives already believes to be (KIP-360).
        """
        current = self.current
        self.check_expected(expected)
        if expected is not None and expected.epoch == current.last_epoch != current.epoch:
            return None  # the answer to the first try was lost
        changed = replace(
            current,
            state=self._next(Event.INIT),
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=-1,
            updated_ms=now_ms,
            last_epoch=NO_EPOCH if expected is None else current.epoch,
        )
        if self.is_exhausted:
            return replace(
                changed,
                producer_id=new_id,
                epoch=0,
                previous_producer_id=current.producer_id,
                last_epoch=NO_EPOCH,
            )
        return replace(changed, epoch=current.epoch + 1)

    def check_expected(self, expected: Incarnation | None) -> None:
        """Refuse a producer that believes to be one that it is not any more."""
        current = self.current
        if expected is None:
            return
        if expected.producer_id == current.previous_producer_id and _is_exhausted(expected.epoch):
            return
        if expected.producer_id != current.producer_id or expected.epoch not in (
            current.epoch,
            current.last_epoch,
        ):
            raise ProducerFenced(
                f"{current.transactional_id} is {current.producer} by now, not {expected}"
            )

    def fence(self, now_ms: int) -> TransactionSnapshot:
        """Abort the transaction with a new epoch, so that its producer can do no more."""
        current = self.current
        return replace(
            current,
            state=self._next(Event.FENCE),
            epoch=min(current.epoch + 1, EPOCH_MAX),
            updated_ms=now_ms,
            last_epoch=NO_EPOCH,
        )

    def add(
        self, producer: Incarnation, places: Collection[Place], now_ms: int
    ) -> TransactionSnapshot | None:
        """Let partitions join the transaction; the first ones begin it."""
        self._check(producer)
        state = self._next(Event.ADD)
        current = self.current
        if self.state is State.ONGOING:
            if current.partitions.issuperset(places):
                return None
            return replace(current, partitions=current.partitions.union(places), updated_ms=now_ms)
        return replace(
            current,
            state=state,
            partitions=frozenset(places),
            started_ms=now_ms,
            updated_ms=now_ms,
            last_epoch=NO_EPOCH,
        )

    def check_member(self, producer: Incarnation, place: Place) -> None:
        """Refuse unless the partition is part of the producer's open transaction."""
        self._check(producer)
        if self.state is not State.ONGOING or place not in self.current.partitions:
            raise InvalidTransactionState(
                f"{place[0]}-{place[1]} is not part of the transaction of "
                f"{self.current.transactional_id}"
            )

    def end(
        self, producer: Incarnation, *, is_commit: bool, new_id: int | None, now_ms: int
    ) -> TransactionSnapshot | None:
        """Decide the transaction; None if that was done before, as the same client asked.

        `new_id` is given for the second protocol, in case the epochs are used up.
        """
        current, has_ended = self.current, self.state in ENDED[is_commit]
        if new_id is None:
            self._check(producer)
            if has_ended:
                self._check_complete()
                return None
            state = self._next(Event.COMMIT if is_commit else Event.ABORT)
            return replace(current, state=state, updated_ms=now_ms, has_epoch_per_transaction=False)
        if self._is_repeated(producer):
            if has_ended:
                self._check_complete()
                return None
            raise InvalidTransactionState(f"{current.transactional_id} has ended otherwise")
        self._check(producer)
        state = self._next(self._wanted(is_commit))
        partitions = current.partitions if self.state is State.ONGOING else frozenset()
        return replace(
            current,
            state=state,
            epoch=current.epoch + 1,
            partitions=partitions,
            updated_ms=now_ms,
            has_epoch_per_transaction=True,
            next_producer_id=new_id if self.is_exhausted else NO_ID,
        )

    def complete(self, now_ms: int) -> TransactionSnapshot:
        """Say that every partition knows how the transaction ended."""
        current = self.current
        changed = replace(
            current, state=self._next(Event.COMPLETE), partitions=frozenset(), updated_ms=now_ms
        )
        if current.next_producer_id == NO_ID:
            return changed
        return replace(
            changed,
            producer_id=current.next_producer_id,
            epoch=0,
            previous_producer_id=current.producer_id,
            next_producer_id=NO_ID,
        )

    def may_expire(self, before_ms: int) -> bool:
        """Return whether the id is idle and was last used before a time."""
        return (self.state, Event.EXPIRE) in TRANSITIONS and self.current.updated_ms < before_ms

    def replay(self, snapshot: TransactionSnapshot) -> None:
        """Take over what the log holds by now."""
        self.current = snapshot

    def _next(self, event: Event) -> State:
        if self.state in PREPARED and event is not Event.COMPLETE:
            raise ConcurrentTransactions(
                f"the last transaction of {self.current.transactional_id} is being completed"
            )
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise InvalidTransactionState(
                f"{self.current.transactional_id} is {self.state.name}: no {event.name} now"
            )
        return state

    def _wanted(self, is_commit: bool) -> Event:
        if is_commit:
            return Event.COMMIT
        return Event.ABORT if self.state is State.ONGOING else Event.RENEW

    def _check_complete(self) -> None:
        if self.state in PREPARED:
            raise ConcurrentTransactions(f"{self.current.transactional_id} is being completed")

    def _check(self, producer: Incarnation) -> None:
        current = self.current
        if producer.producer_id != current.producer_id:
            raise ProducerIdMismatch(
                f"{current.transactional_id} belongs to producer {current.producer_id}, "
                f"not {producer.producer_id}"
            )
        if producer.epoch != current.epoch:
            raise ProducerFenced(
                f"{current.transactional_id} has epoch {current.epoch} by now, not {producer.epoch}"
            )

    def _is_repeated(self, producer: Incarnation) -> bool:
        """Return whether the producer ended this transaction and did not hear of its new epoch."""
        current = self.current
        if self.state not in (*ENDED[True], *ENDED[False]):
            return False
        if producer.producer_id == current.producer_id:
            return producer.epoch + 1 == current.epoch
        return producer.producer_id == current.previous_producer_id and _is_exhausted(
            producer.epoch
        )


def _is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1

"""The machine of one transactional id: every pair of state and event, and what clients rely on."""

import itertools
from dataclasses import replace

import pytest

from chordmq.broker.producers import Incarnation
from chordmq.broker.transactions.machine import (
    EPOCH_MAX,
    NO_ID,
    PREPARED,
    TRANSITIONS,
    Event,
    State,
    Transaction,
    TransactionSnapshot,
    first_snapshot,
)
from chordmq.errors import (
    ChordMQError,
    ConcurrentTransactions,
    InvalidTransactionState,
    ProducerFenced,
    ProducerIdMismatch,
)

PLACE = ("t", 0)
OTHER = ("t", 1)
FRESH_ID = 99


def in_state(state: State, epoch: int = 5) -> Transaction:
    """Return a transactional id in a state, as its log would tell it."""
    has_begun = state not in (State.EMPTY, State.DEAD)
    is_over = state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    return Transaction(
        TransactionSnapshot(
            transactional_id="x",
            producer_id=7,
            epoch=epoch,
            timeout_ms=1000,
            state=state,
            partitions=frozenset({PLACE} if has_begun and not is_over else ()),
            started_ms=10 if has_begun else -1,
            updated_ms=20,
        )
    )


def current(transaction: Transaction) -> Incarnation:
    return transaction.current.producer


def happen(transaction: Transaction, event: Event) -> TransactionSnapshot | None:
    """Let an event happen as the coordinator would."""
    producer = current(transaction)
    match event:
        case Event.INIT:
            return transaction.init(None, 1000, FRESH_ID, 30)
        case Event.ADD:
            return transaction.add(producer, [OTHER], 30)
        case Event.COMMIT | Event.ABORT:
            is_commit = event is Event.COMMIT
            return transaction.end(producer, is_commit=is_commit, new_id=None, now_ms=30)
        case Event.RENEW:
            return transaction.end(producer, is_commit=False, new_id=FRESH_ID, now_ms=30)
        case Event.FENCE:
            return transaction.fence(30)
        case Event.COMPLETE:
            return transaction.complete(30)
        case Event.EXPIRE:
            if not transaction.may_expire(21):
                raise InvalidTransactionState("not idle")
            return replace(transaction.current, state=State.DEAD)


REPEATED = {
    (State.COMPLETE_COMMIT, Event.COMMIT),
    (State.COMPLETE_ABORT, Event.ABORT),
}
"""A client that asks for the end again gets the same answer; nothing is logged."""
ABORTED = (State.ONGOING, Event.RENEW)
"""With the second protocol, this is an ordinary abort."""


@pytest.mark.parametrize(("state", "event"), [*itertools.product(State, Event)])
def test_every_event_in_every_state_moves_or_is_refused(state: State, event: Event) -> None:
    transaction = in_state(state)
    expected = TRANSITIONS.get((state, event))
    if (state, event) == ABORTED:
        expected = State.PREPARE_ABORT
    if expected is not None:
        changed = happen(transaction, event)
        assert changed is not None
        assert changed.state is expected
    elif (state, event) in REPEATED:
        assert happen(transaction, event) is None
    else:
        refused: type[ChordMQError] = InvalidTransactionState
        if state in PREPARED and event is not Event.EXPIRE:
            refused = ConcurrentTransactions
        with pytest.raises(refused):
            happen(transaction, event)
    assert transaction.state is state, "only replay changes the state"


def test_a_new_id_begins_with_epoch_0() -> None:
    snapshot = first_snapshot("x", 7, 1000, 30)
    assert snapshot.producer == (7, 0)
    assert snapshot.state is State.EMPTY


def test_each_new_producer_gets_the_next_epoch_and_fences_the_one_before() -> None:
    transaction = in_state(State.EMPTY)
    zombie = current(transaction)
    changed = transaction.init(None, 2000, NO_ID, 30)
    assert changed is not None
    assert (changed.producer, changed.timeout_ms) == ((7, 6), 2000)
    transaction.replay(changed)
    with pytest.raises(ProducerFenced):
        transaction.add(zombie, [PLACE], 30)
    with pytest.raises(ProducerFenced):
        transaction.end(zombie, is_commit=True, new_id=None, now_ms=30)
    with pytest.raises(ProducerFenced):
        transaction.init(zombie, 1000, NO_ID, 30)


@pytest.mark.parametrize("epoch", [EPOCH_MAX - 1, EPOCH_MAX])
def test_a_producer_whose_epochs_are_used_up_gets_a_new_id(epoch: int) -> None:
    changed = in_state(State.COMPLETE_ABORT, epoch).init(None, 1000, FRESH_ID, 30)
    assert changed is not None
    assert changed.producer == (FRESH_ID, 0)
    assert changed.previous_producer_id == 7


def test_a_living_producer_may_ask_for_a_new_epoch_and_ask_again() -> None:
    """KIP-360: a lost answer must not fence the producer that asked."""
    transaction = in_state(State.COMPLETE_ABORT)
    before = current(transaction)
    changed = transaction.init(before, 1000, NO_ID, 30)
    assert changed is not None
    transaction.replay(changed)
    assert transaction.init(before, 1000, NO_ID, 40) is None
    assert current(transaction) == (7, 6)


def test_a_producer_that_was_replaced_may_not_ask_for_a_new_epoch() -> None:
    transaction = in_state(State.EMPTY)
    for believed in (Incarnation(7, 3), Incarnation(8, 5)):
        with pytest.raises(ProducerFenced):
            transaction.init(believed, 1000, NO_ID, 30)


def test_another_producer_id_is_not_taken_for_this_one() -> None:
    with pytest.raises(ProducerIdMismatch):
        in_state(State.ONGOING).add(Incarnation(8, 5), [PLACE], 30)


def test_a_partition_that_is_there_already_is_not_logged_again() -> None:
    transaction = in_state(State.ONGOING)
    assert transaction.add(current(transaction), [PLACE], 30) is None


def test_a_transaction_begins_with_its_first_partition_and_ends_with_its_time() -> None:
    transaction = in_state(State.COMPLETE_COMMIT)
    assert transaction.deadline_ms is None
    changed = transaction.add(current(transaction), [OTHER], 30)
    assert changed is not None
    assert changed.partitions == {OTHER}
    transaction.replay(changed)
    assert transaction.deadline_ms == 30 + 1000


def test_only_members_of_an_open_transaction_may_write() -> None:
    transaction = in_state(State.ONGOING)
    transaction.check_member(current(transaction), PLACE)
    with pytest.raises(InvalidTransactionState):
        transaction.check_member(current(transaction), OTHER)
    late = in_state(State.COMPLETE_COMMIT)
    with pytest.raises(InvalidTransactionState):
        late.check_member(current(late), PLACE)


def test_the_first_protocol_keeps_its_epoch_and_the_second_gets_a_new_one() -> None:
    transaction = in_state(State.ONGOING)
    producer = current(transaction)
    first = transaction.end(producer, is_commit=True, new_id=None, now_ms=30)
    second = transaction.end(producer, is_commit=True, new_id=NO_ID, now_ms=30)
    assert first is not None
    assert second is not None
    assert (first.epoch, second.epoch) == (5, 6)
    assert first.partitions == second.partitions == {PLACE}


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_may_be_asked_for_again_by_one_who_missed_the_new_epoch(is_commit: bool) -> None:
    """KIP-890: the same answer to the same question, the opposite one is refused."""
    transaction = in_state(State.ONGOING)
    producer = current(transaction)
    decided = transaction.end(producer, is_commit=is_commit, new_id=NO_ID, now_ms=30)
    assert decided is not None
    transaction.replay(decided)
    with pytest.raises(ConcurrentTransactions):
        transaction.end(producer, is_commit=is_commit, new_id=NO_ID, now_ms=30)
    transaction.replay(transaction.complete(40))
    assert transaction.end(producer, is_commit=is_commit, new_id=NO_ID, now_ms=50) is None
    assert current(transaction) == (7, 6)
    with pytest.raises(InvalidTransactionState):
        transaction.end(producer, is_commit=not is_commit, new_id=NO_ID, now_ms=50)


def test_the_second_protocol_moves_to_a_new_id_when_the_epochs_are_used_up() -> None:
    transaction = in_state(State.ONGOING, EPOCH_MAX - 1)
    producer = current(transaction)
    decided = transaction.end(producer, is_commit=True, new_id=FRESH_ID, now_ms=30)
    assert decided is not None
    assert (decided.producer_id, decided.epoch) == (7, EPOCH_MAX), "as the markers say"
    assert decided.producer == (FRESH_ID, 0), "as the client hears"
    transaction.replay(decided)
    transaction.replay(transaction.complete(40))
    assert current(transaction) == (FRESH_ID, 0)
    assert transaction.end(producer, is_commit=True, new_id=NO_ID, now_ms=50) is None


def test_a_fenced_producer_learns_it_from_its_next_request() -> None:
    transaction = in_state(State.ONGOING)
    zombie = current(transaction)
    transaction.replay(transaction.fence(30))
    assert (transaction.state, transaction.current.epoch) == (State.PREPARE_ABORT, 6)
    transaction.replay(transaction.complete(40))
    with pytest.raises(ProducerFenced):
        transaction.end(zombie, is_commit=True, new_id=None, now_ms=50)
    with pytest.raises(InvalidTransactionState):
        transaction.end(zombie, is_commit=True, new_id=NO_ID, now_ms=50)
    with pytest.raises(ProducerFenced):
        transaction.add(zombie, [PLACE], 50)

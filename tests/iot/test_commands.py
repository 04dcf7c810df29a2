"""The life cycle of a command."""

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.errors import CommandEnded, CommandExists, InvalidRequest
from chordmq.iot.commands import (
    FINAL,
    TRANSITIONS,
    Command,
    Event,
    Issue,
    Patience,
    Response,
    State,
    after,
    answered,
    cancelled,
    check_same,
    issued,
    next_ms,
    passed,
)


def command(**issue: object) -> Command:
    wanted = Issue(**issue)  # type: ignore[arg-type]
    return issued("c1", ("d7", "reboot"), wanted, Patience(), issued_by="me", order=1, now_ms=1000)


def test_every_pair_of_state_and_event_is_in_the_table_or_changes_nothing() -> None:
    """E10: the life cycle is a table."""
    for state, event in product(State, Event):
        found = after(msgspec.structs.replace(command(), state=state), event, 5)
        assert found.state is TRANSITIONS.get((state, event), state)


@given(st.lists(st.sampled_from(Event), max_size=20))
def test_what_has_ended_stays_as_it_is(events: list[Event]) -> None:
    """E10: a late or repeated answer changes nothing."""
    one = command()
    for event in events:
        before = one
        one = after(one, event, 2000)
        if before.state in FINAL:
            assert one is before


@given(st.integers(1, 5), st.integers(10, 5000), st.integers(1, 20_000))
def test_a_command_without_an_answer_is_sent_a_few_times_and_expires(
    attempts: int, retry_ms: int, timeout_ms: int
) -> None:
    """E10: retries and time-out, whatever they are set to."""
    one = command(attempts_max=attempts, retry_ms=retry_ms, timeout_ms=timeout_ms)
    one = after(one, Event.SEND, 1000)
    while not one.state.is_final:
        at_ms = next_ms(one)
        assert passed(one, at_ms - 1) is one
        one = passed(one, at_ms)
    assert one.state is State.EXPIRED
    assert one.changed_ms == 1000 + timeout_ms
    assert one.attempts == min(attempts, 1 + (timeout_ms - 1) // retry_ms)


def test_an_answer_brings_the_result() -> None:
    one = after(command(), Event.SEND, 1000)
    one = answered(one, Response(status="acknowledged"), 1001)
    assert one.state is State.ACKNOWLEDGED
    one = answered(one, Response(status="failed", result={"code": 3}, reason="no power"), 1002)
    assert (one.state, one.result, one.reason) == (State.FAILED, {"code": 3}, "no power")
    with pytest.raises(InvalidRequest):
        answered(one, Response(status="expire"), 1003)


def test_a_command_is_idempotent_by_its_id() -> None:
    """E10: the same words again are the same command; others are refused."""
    one = command(parameters={"delay": 1})
    check_same(one, "reboot", Issue(parameters={"delay": 1}))
    with pytest.raises(CommandExists):
        check_same(one, "reboot", Issue(parameters={"delay": 2}))


def test_only_an_open_command_can_be_cancelled() -> None:
    """E10: cancellation."""
    gone = cancelled(command(), 2000)
    assert gone.state is State.CANCELLED
    assert cancelled(gone, 3000) is gone
    done = answered(after(command(), Event.SEND, 1000), Response(), 2000)
    with pytest.raises(CommandEnded):
        cancelled(done, 3000)

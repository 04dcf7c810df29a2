"""Guessing gets slower, for the guesser and nobody else."""

from chordmq.broker.security.failed_logins import (
    FORGIVEN_AFTER_S,
    FREE_PER_ADDRESS,
    FREE_PER_USER,
    REMEMBERED_MAX,
    WAIT_MAX_S,
    FailedLogins,
)
from chordmq.clock import ManualClock

HERE, THERE = "10.0.0.1", "10.0.0.2"


def test_some_slips_are_free_and_then_each_costs_twice_the_wait() -> None:
    """C10: back-off per user and address."""
    clock = ManualClock()
    logins = FailedLogins(clock)
    for _ in range(FREE_PER_USER):
        logins.failed("alice", HERE)
    assert logins.wait_s("alice", HERE) == 0
    waits = []
    for _ in range(9):
        logins.failed("alice", HERE)
        waits.append(logins.wait_s("alice", HERE))
        clock.advance(round(waits[-1] * 1000))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, WAIT_MAX_S]
    assert logins.wait_s("alice", HERE) == 0


def test_the_user_gets_in_from_elsewhere() -> None:
    """C10: nobody can lock another out."""
    logins = FailedLogins(ManualClock())
    for _ in range(20):
        logins.failed("alice", HERE)
    assert logins.wait_s("alice", HERE) > 0
    assert logins.wait_s("alice", THERE) == 0
    assert logins.wait_s("bob", HERE) == 0


def test_an_address_that_tries_many_names_is_slowed_down_for_all() -> None:
    logins = FailedLogins(ManualClock())
    for number in range(FREE_PER_ADDRESS + 1):
        logins.failed(f"user-{number}", HERE)
    assert logins.wait_s("somebody else", HERE) > 0
    assert logins.wait_s("somebody else", THERE) == 0


def test_success_and_time_wipe_the_slate() -> None:
    clock = ManualClock()
    logins = FailedLogins(clock)
    for _ in range(FREE_PER_USER + 1):
        logins.failed("alice", HERE)
    logins.succeeded("alice", HERE)
    assert logins.wait_s("alice", HERE) == 0
    for _ in range(FREE_PER_USER):
        logins.failed("bob", HERE)
    clock.advance(round(FORGIVEN_AFTER_S * 1000))
    logins.failed("bob", HERE)
    assert logins.wait_s("bob", HERE) == 0


def test_a_program_with_an_old_password_slows_down_only_itself() -> None:
    """C10: it tries every second for a day, and the others at its address do not notice."""
    clock = ManualClock()
    logins = FailedLogins(clock)
    for _ in range(24 * 3600):
        if logins.wait_s("old", HERE) == 0:
            logins.failed("old", HERE)
        clock.advance(1000)
    assert logins.wait_s("old", HERE) > 0
    assert logins.wait_s("alice", HERE) == 0


def test_memory_is_bounded() -> None:
    """C11: names are free to invent."""
    logins = FailedLogins(ManualClock())
    for number in range(REMEMBERED_MAX + 100):
        logins.failed(f"user-{number}", HERE)
    assert len(logins._failures) == REMEMBERED_MAX

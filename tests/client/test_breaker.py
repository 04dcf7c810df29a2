"""The circuit breaker: when calls pass, when they are refused, and how it recovers."""

import random
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from chordmq.client.breaker import (
    NEXT,
    Breaker,
    BreakerSettings,
    Event,
    State,
    breaker_measures,
)

SETTINGS = BreakerSettings(failures_max=3, rest_first_s=1.0, rest_most_s=8.0)


def breaker() -> Breaker:
    return Breaker("ldap", random.Random(1), SETTINGS)


def opened() -> Breaker:
    one = breaker()
    for _ in range(3):
        one.failed(10.0)
    return one


def test_the_table_knows_every_event_in_every_state() -> None:
    assert set(NEXT) == set(product(State, Event)) - {(State.CLOSED, Event.RESTED)}


def test_failures_in_a_row_open_it_and_a_success_between_them_does_not() -> None:
    """C14: a circuit breaker."""
    one = breaker()
    for _ in range(10):
        one.failed(10.0)
        one.failed(10.0)
        one.succeeded()
    assert one.allows(10.0)
    for _ in range(3):
        one.failed(10.0)
    assert one.state is State.OPEN
    assert not one.allows(10.1)


def test_after_a_rest_one_call_may_try() -> None:
    one = opened()
    after_s = 10.0 + one.wait_s(10.0)
    assert one.allows(after_s)
    assert one.state.name == "HALF_OPEN"
    assert not one.allows(after_s)
    one.succeeded()
    assert one.state.name == "CLOSED"
    assert one.allows(after_s)


def test_rests_grow_with_jitter_while_the_peer_stays_away() -> None:
    """C14: exponential back-off with jitter."""
    one, now_s, rests = opened(), 10.0, []
    for _ in range(8):
        rests.append(one.wait_s(now_s))
        now_s += one.wait_s(now_s)
        assert one.allows(now_s)
        one.failed(now_s)
    for number, rest in enumerate(rests):
        # Each trial rests once for itself and once for its failure.
        assert rest <= min(8.0, 2.0 ** (2 * number)) * 1.2
    assert rests[-1] >= 8.0 * 0.8
    assert len(set(rests)) == len(rests)


def test_a_trial_that_never_ends_does_not_keep_it_half_open_for_ever() -> None:
    one = opened()
    now_s = 10.0 + one.wait_s(10.0)
    assert one.allows(now_s)
    now_s += one.wait_s(now_s)
    assert one.allows(now_s)


def test_late_answers_of_old_calls_do_not_close_it() -> None:
    one = opened()
    one.succeeded()
    assert one.state is State.OPEN


@given(st.lists(st.tuples(st.sampled_from(["ok", "fail", "ask"]), st.floats(0, 5)), max_size=60))
def test_it_never_stays_shut_for_longer_than_its_longest_rest(
    steps: list[tuple[str, float]],
) -> None:
    one, now_s = breaker(), 0.0
    for what, passed_s in steps:
        now_s += passed_s
        if what == "ok":
            one.succeeded()
        elif what == "fail":
            one.failed(now_s)
        else:
            one.allows(now_s)
        assert one.wait_s(now_s) <= SETTINGS.rest_most_s * 1.2
    assert one.allows(now_s + SETTINGS.rest_most_s * 1.2)


def test_its_state_is_visible_in_metrics() -> None:
    """C14: visible in metrics."""
    one = opened()
    one.allows(10.0)
    values = {metric.name: metric.samples for metric in breaker_measures([one])}
    assert values["chordmq_breaker_state"] == [({"peer": "ldap"}, 2)]
    assert values["chordmq_breaker_failures"] == [({"peer": "ldap"}, 3)]
    assert values["chordmq_breaker_refused"] == [({"peer": "ldap"}, 1)]

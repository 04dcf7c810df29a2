"""Quotas: which limit counts for whom, and that rates hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.security.quotas import (
    BURST_S,
    DEFAULT,
    THROTTLE_MAX_S,
    Bucket,
    Buckets,
    Entity,
    Limit,
    Quotas,
    precedence,
)
from chordmq.errors import InvalidRequest


@given(
    st.floats(1.0, 1e9),
    st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 5.0)), min_size=1, max_size=50),
)
def test_who_waits_as_told_never_exceeds_the_rate(
    rate: float, uses: list[tuple[float, float]]
) -> None:
    """C2: whatever the sizes and pauses, the rate holds over time, but for one burst and piece."""
    bucket = Bucket(rate, 0.0)
    now, total, last = 0.0, 0.0, 0.0
    for amount, pause_s in uses:
        wait_s = bucket.charge(amount, now)
        total, last = total + amount, amount
        assert total - last <= rate * (now + BURST_S) * (1 + 1e-9) or wait_s == THROTTLE_MAX_S
        if wait_s == THROTTLE_MAX_S:
            return  # the wait is cut short; the debt stays
        now += wait_s + pause_s


def test_a_client_below_its_rate_never_waits() -> None:
    """C2: no throttling without need."""
    bucket = Bucket(1000.0, 0.0)
    assert all(bucket.charge(100, now / 10) == 0 for now in range(100))


def test_a_piece_above_the_burst_is_paid_for_afterwards() -> None:
    """C2: a request is served whole, then its client waits."""
    bucket = Bucket(1000.0, 0.0)
    assert bucket.charge(3000, 0.0) == pytest.approx(2.0)
    assert bucket.charge(0, 1.0) == pytest.approx(1.0)
    assert bucket.charge(0, 2.0) == 0


def test_the_most_specific_limit_counts() -> None:
    """C2: in Kafka's order."""
    order = list(precedence("u", "c"))
    assert order == [
        Entity(user="u", client="c"),
        Entity(user="u", client=DEFAULT),
        Entity(user="u"),
        Entity(user=DEFAULT, client="c"),
        Entity(user=DEFAULT, client=DEFAULT),
        Entity(user=DEFAULT),
        Entity(client="c"),
        Entity(client=DEFAULT),
    ]
    quotas = Quotas()
    for rate, entity in enumerate(reversed(order), start=1):
        quotas.put(entity, {Limit.PRODUCE: rate})
        found = quotas.buckets("u", "c", 0.0).produce
        assert found is not None
        assert found.rate == rate


def test_limits_of_different_things_are_found_apart() -> None:
    """C2: a client id's produce limit does not hide a user's fetch limit."""
    quotas = Quotas()
    quotas.put(Entity(user="u"), {Limit.FETCH: 10})
    quotas.put(Entity(client="c"), {Limit.PRODUCE: 20, Limit.REQUEST: 50})
    found = quotas.buckets("u", "c", 0.0)
    assert found.fetch is not None
    assert found.produce is not None
    assert found.request is not None
    assert (found.fetch.rate, found.produce.rate, found.request.rate) == (10, 20, 0.5)
    assert found.mutation is None


def test_those_whom_a_limit_does_not_tell_apart_share_it() -> None:
    """C2: a user's limit is for all its clients together; a default is for each by itself."""
    quotas = Quotas()
    quotas.put(Entity(user="u"), {Limit.PRODUCE: 10})
    quotas.put(Entity(user=DEFAULT), {Limit.PRODUCE: 20})
    assert quotas.buckets("u", "a", 0.0).produce is quotas.buckets("u", "b", 0.0).produce
    assert quotas.buckets("v", "a", 0.0).produce is not quotas.buckets("w", "a", 0.0).produce


def test_a_limit_that_is_removed_counts_no_more() -> None:
    """C2: at once."""
    quotas = Quotas()
    quotas.put(Entity(client="c"), {Limit.PRODUCE: 10})
    assert quotas.buckets("u", "c", 0.0).produce is not None
    quotas.put(Entity(client="c"), {})
    assert quotas.buckets("u", "c", 0.0) == Buckets()
    assert not quotas


@pytest.mark.parametrize(
    ("entity", "limit", "value"),
    [
        (Entity(), Limit.PRODUCE, 1.0),
        (Entity(user="u"), Limit.PRODUCE, 0.0),
        (Entity(user="u"), Limit.PRODUCE, 1.5),
        (Entity(user="u"), Limit.REQUEST, -1.0),
        (Entity(user="u"), Limit.REQUEST, float("nan")),
        (Entity(user="u"), Limit.MUTATION, float("inf")),
    ],
)
def test_limits_without_sense_are_refused(entity: Entity, limit: Limit, value: float) -> None:
    """C12: nothing is stored that could not be kept."""
    with pytest.raises(InvalidRequest):
        Quotas().put(entity, {limit: value})

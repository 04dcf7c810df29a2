"""What one client uses, counted and charged."""

import asyncio

import pytest

from chordmq.broker.security.meter import Meter
from chordmq.broker.security.quotas import Entity, Limit, Quotas
from chordmq.clock import ManualClock
from chordmq.errors import QuotaExceeded


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def meter(clock: ManualClock, **limits: float) -> Meter:
    quotas = Quotas()
    if limits:
        quotas.put(
            Entity(user="alice"), {Limit[name.upper()]: rate for name, rate in limits.items()}
        )
    return Meter(quotas, clock, "alice", "phone")


def test_nothing_is_charged_where_nobody_has_a_quota(clock: ManualClock) -> None:
    counted = meter(clock)
    assert not counted.is_on
    counted.produced += 10**9
    assert counted.wait_s() == 0
    counted.refuse_debtor(*Limit)


def test_each_direction_has_its_own_limit(clock: ManualClock) -> None:
    """E13: bytes in, bytes out and time; the longest wait counts."""
    counted = meter(clock, produce=1000, fetch=100, request=50)
    counted.produced, counted.fetched, counted.worked_s = 1500, 300, 0.6
    assert counted.wait_s() == pytest.approx(2.0)
    assert counted.wait_s() == 0, "what was charged once is not charged again"


def test_who_owes_is_refused_until_the_time_is_over(clock: ManualClock) -> None:
    """E13: for protocols that answer instead of falling silent."""
    counted = meter(clock, produce=1000)
    counted.refuse_debtor(Limit.PRODUCE)
    counted.produced = 3000
    counted.wait_s()
    with pytest.raises(QuotaExceeded, match="producer_byte_rate") as refusal:
        counted.refuse_debtor(Limit.FETCH, Limit.PRODUCE)
    assert refusal.value.wait_s == pytest.approx(2.0)
    counted.refuse_debtor(Limit.FETCH)
    clock.advance(2_000)
    counted.refuse_debtor(Limit.PRODUCE)


async def test_work_counts_and_waiting_does_not(clock: ManualClock) -> None:
    """E13: request_percentage is a share of the event loop's time, whatever the work waits for."""
    counted = meter(clock, request=10)
    waits = asyncio.get_running_loop().create_future()

    async def work() -> str:
        clock.advance(300)
        await waits
        clock.advance(200)
        return "done"

    task = asyncio.ensure_future(counted.working(work()))
    await asyncio.sleep(0)
    clock.advance(60_000)
    waits.set_result(None)
    assert await task == "done"
    assert counted.worked_s == pytest.approx(0.5)


async def test_work_that_fails_or_is_given_up_ends_as_it_would_alone(clock: ManualClock) -> None:
    counted = meter(clock)
    ended: list[str] = []

    async def failing() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cleaned up")

    async def raising() -> None:
        await asyncio.sleep(0)
        raise QuotaExceeded("no", 1)

    task = asyncio.ensure_future(counted.working(failing()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"]
    with pytest.raises(QuotaExceeded):
        await counted.working(raising())

"""How pipes do and how fast they may go: health by errors and lag, limits by the time of day."""

import pytest

from chordmq.topology.pipe import Health, Pace, Vitals, read_schedule, worst

HOUR_MS = 3_600_000


def health_after(*outcomes: bool, lag: int = 0) -> Health:
    vitals = Vitals(lag=lag)
    for is_well in outcomes:
        vitals.note(is_well=is_well)
    return vitals.health


def test_health_follows_errors_and_lag() -> None:
    """D12: HEALTHY, DEGRADED, UNHEALTHY."""
    well = [True] * 20
    assert health_after() is Health.HEALTHY
    assert health_after(*well, False) is Health.DEGRADED
    assert health_after(*well, False, False, False) is Health.UNHEALTHY
    assert health_after(False, False, False, *well) is Health.HEALTHY
    assert health_after(*well, lag=200_000) is Health.DEGRADED
    assert health_after(*well, lag=20_000_000) is Health.UNHEALTHY
    assert worst([Health.HEALTHY, Health.DEGRADED]) is Health.DEGRADED
    assert worst([]) is Health.HEALTHY


def test_a_pace_makes_who_took_much_wait() -> None:
    pace = Pace(1000)
    assert pace.wait_s(500, 10.0, 0) == 0.5
    assert pace.wait_s(500, 10.0, 0) == 1.0
    assert pace.wait_s(500, 20.0, 0) == 0.5
    assert Pace(0).wait_s(10**9, 0.0, 0) == 0.0


def test_a_schedule_says_when_a_thin_link_is_used() -> None:
    """D12: nothing in the shop's hours, little in the evening, all at night."""
    schedule = read_schedule("08:00-20:00=off, 20:00-02:00=1000")
    pace = Pace(0, schedule)
    assert pace.wait_s(500, 0.0, 3 * HOUR_MS) == 0.0
    assert pace.wait_s(500, 0.0, 19 * HOUR_MS) == 3600.0
    assert pace.wait_s(500, 0.0, 20 * HOUR_MS) == 0.5
    assert pace.wait_s(500, 100.0, 25 * HOUR_MS) == 0.5
    assert pace.wait_s(500, 0.0, 26 * HOUR_MS) == 0.0


@pytest.mark.parametrize("text", ["8-20=off", "08:00-20:00", "25:00-26:00=5", "08:00-09:60=off"])
def test_a_schedule_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"08:00|time of day"):
        read_schedule(text)

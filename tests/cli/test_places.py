"""Places to start are read as people write them."""

from datetime import UTC, datetime

from chordmq.cli.places import format_time, read_time
from chordmq.clock import ManualClock

CLOCK = ManualClock(1_800_000_000_000)


def test_an_age_is_counted_back_from_now() -> None:
    for text, ms in {"250ms": 250, "10s": 10_000, "15m": 900_000, "2h": 7_200_000}.items():
        assert read_time(text, CLOCK) == 1_800_000_000_000 - ms
    assert read_time("7d", CLOCK) == 1_800_000_000_000 - 7 * 86_400_000


def test_a_time_is_read_in_its_zone_or_as_on_the_wall() -> None:
    assert read_time("2026-11-15T08:00:00Z", CLOCK) == 1_794_729_600_000
    local = datetime(2026, 11, 15, 8).astimezone()
    assert read_time("2026-11-15T08:00", CLOCK) == int(local.timestamp() * 1000)


def test_what_is_no_time_is_none() -> None:
    assert read_time("yesterday", CLOCK) is None
    assert read_time("10", CLOCK) is None


def test_times_are_written_in_utc() -> None:
    moment = datetime(2026, 11, 15, 8, 0, 0, 123_000, tzinfo=UTC)
    assert format_time(int(moment.timestamp() * 1000)) == "2026-11-15T08:00:00.123Z"
    assert format_time(-1) == "-"

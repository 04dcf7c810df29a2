"""When a partition is popular, and when no more."""

import pytest

from chordmq.broker.popularity import FALL_S, RISE_S, Limits, Popularity

LIMITS = Limits(bytes_s=1_000, readers=10)


class Read:
    """A partition that is read at a pace, second by second."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.popularity = Popularity(limits, 0, 0.0)
        self.bytes = 0
        self.now_s = 0.0
        self.changes: list[tuple[float, bool]] = []

    def go_on(self, seconds: int, *, rate: int = 0, readers: int = 0) -> bool:
        for _ in range(seconds):
            self.now_s += 1
            self.bytes += rate
            if self.popularity.measure(self.bytes, readers, self.now_s):
                self.changes.append((self.now_s, self.popularity.is_popular))
        return self.popularity.is_popular


@pytest.mark.parametrize("load", [{"rate": 2_000}, {"readers": 20}])
def test_who_is_much_read_for_some_time_is_popular(load: dict[str, int]) -> None:
    read = Read()
    assert not read.go_on(int(RISE_S), **load)
    assert read.go_on(20, **load)


def test_a_short_rush_changes_nothing() -> None:
    read = Read()
    read.go_on(1, rate=3_000)
    assert not read.go_on(60, rate=100)
    assert read.changes == []


def test_a_load_about_the_limit_does_not_make_it_come_and_go() -> None:
    read = Read()
    read.go_on(30, rate=1_300)
    for _ in range(20):
        read.go_on(15, rate=700)
        read.go_on(15, rate=1_300)
    assert [popular for _, popular in read.changes] == [True]


def test_it_is_popular_no_more_when_it_was_quiet_for_long() -> None:
    read = Read()
    read.go_on(30, readers=30)
    assert read.go_on(int(FALL_S) - 5)
    assert not read.go_on(30)


def test_limits_of_zero_are_never_reached() -> None:
    read = Read(Limits(0, 0))
    assert not read.go_on(100, rate=10**9, readers=10**6)


def test_the_same_moment_is_measured_once() -> None:
    popularity = Popularity(LIMITS, 0, 5.0)
    assert not popularity.measure(10**9, 10**6, 5.0)
    assert popularity.rate == 0

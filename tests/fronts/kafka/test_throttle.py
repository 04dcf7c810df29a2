"""What one connection uses, counted against its client's quotas."""

from dataclasses import dataclass

import pytest

from chordmq.broker.security.principal import Principal
from chordmq.broker.security.quotas import Entity, Limit, Quotas
from chordmq.codecs.kafka.header import RequestHeader
from chordmq.fronts.kafka.call import Client
from chordmq.fronts.kafka.throttle import FETCH, PRODUCE, Throttle

METADATA = 3


@dataclass
class StillClock:
    """A clock that stands until it is moved."""

    now_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


def header(api_key: int, client_id: str | None = "c") -> RequestHeader:
    return RequestHeader(api_key, 0, 0, client_id, 0)


def throttle(limit: Limit, value: float) -> tuple[Throttle, StillClock]:
    quotas, clock = Quotas(), StillClock()
    quotas.put(Entity(user="alice"), {limit: value})
    return Throttle(quotas, Client("h", Principal("alice")), clock), clock


def test_produce_requests_are_counted_by_what_came() -> None:
    """C2: producer_byte_rate; other requests do not count."""
    counted, clock = throttle(Limit.PRODUCE, 1000)
    counted.began(header(METADATA), 50_000, 0.0)
    assert counted.wait_s() == 0
    counted.began(header(PRODUCE), 1000, 0.0)
    counted.began(header(PRODUCE), 500, 0.0)
    assert counted.wait_s() == pytest.approx(0.5)
    assert counted.wait_s() == 0  # nothing new
    clock.now_s = 0.5
    counted.began(header(PRODUCE), 100, 0.0)
    assert counted.wait_s() == pytest.approx(0.1)


def test_fetches_are_counted_by_what_is_sent() -> None:
    """C2: consumer_byte_rate."""
    counted, _ = throttle(Limit.FETCH, 1000)
    counted.began(header(FETCH), 5000, 0.0)
    counted.answered(header(METADATA), 5000)
    assert counted.wait_s() == 0
    counted.answered(header(FETCH), 3000)
    assert counted.wait_s() == pytest.approx(2.0)


def test_time_is_counted_whatever_is_asked() -> None:
    """C2: request_percentage of the event loop's time."""
    counted, _ = throttle(Limit.REQUEST, 50)
    counted.began(header(METADATA), 10, 0.5)
    assert counted.wait_s() == 0
    counted.began(header(METADATA), 10, 0.25)
    assert counted.wait_s() == pytest.approx(0.5)


def test_without_quotas_there_is_nothing_to_count() -> None:
    """C2: and it costs nothing."""
    assert not Throttle(Quotas(), Client("h"), StillClock()).is_on

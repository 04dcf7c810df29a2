"""Waits between attempts grow, vary and end at a limit."""

import random

from chordmq.client.backoff import FIRST_S, JITTER, MOST_S, Backoff


def test_waits_double_with_jitter_up_to_a_limit() -> None:
    """Retries back off exponentially, with jitter."""
    backoff = Backoff(random.Random(7))
    waits = [backoff.next_s() for _ in range(40)]
    for number, wait in enumerate(waits):
        expected = min(MOST_S, FIRST_S * 2**number)
        assert expected * (1 - JITTER) <= wait <= expected * (1 + JITTER)
    assert len(set(waits)) == len(waits)


def test_a_success_starts_from_the_shortest_wait_again() -> None:
    backoff = Backoff(random.Random(7))
    for _ in range(10):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() <= FIRST_S * (1 + JITTER)

"""Refusals in the audit trail: the first is told, the rest of a flood is counted."""

from chordmq.broker.audit.chain import Event
from chordmq.broker.audit.repeats import KINDS_MAX, KINDS_PER_HOST_MAX, Repeats


def refusal(obj: str = "topic secret", host: str = "10.0.0.1") -> Event:
    return Event(who="User:eve", host=host, act="read", obj=obj, result="denied")


def test_the_first_refusal_is_told_at_once_and_its_repetitions_are_counted() -> None:
    repeats = Repeats()
    told = [repeats.admit(refusal(), now_s=10.0 + i / 1000) for i in range(500)]
    assert told == [refusal()] + [None] * 499
    assert repeats.take(10.9) == []
    (counted,) = repeats.take(11.0)
    assert counted.result == "denied; 499 more like it within a second"
    assert (counted.who, counted.obj) == ("User:eve", "topic secret")


def test_a_single_refusal_is_told_once() -> None:
    repeats = Repeats()
    repeats.admit(refusal(), 10.0)
    assert repeats.wait_s(10.5) == 0.5
    assert repeats.take(11.0) == []
    assert repeats.wait_s(11.0) is None


def test_the_next_second_begins_anew() -> None:
    repeats = Repeats()
    repeats.admit(refusal(), 10.0)
    repeats.take(11.0)
    assert repeats.admit(refusal(), 11.0) == refusal()


def test_ever_new_refusals_of_one_host_do_not_hide_those_of_another() -> None:
    repeats = Repeats()
    told = [repeats.admit(refusal(f"topic {i}"), 10.0) for i in range(10_000)]
    assert len([one for one in told if one is not None]) == KINDS_PER_HOST_MAX + 1
    assert repeats.admit(refusal("topic x", host="10.0.0.2"), 10.0) is not None
    (counted,) = repeats.take(11.0)
    assert (counted.host, counted.obj) == ("10.0.0.1", "*")
    assert f"{10_000 - KINDS_PER_HOST_MAX - 1} more" in counted.result


def test_ever_new_hosts_are_counted_together_beyond_a_limit() -> None:
    repeats = Repeats()
    told = [repeats.admit(refusal(host=f"h{i}"), 10.0) for i in range(10_000)]
    assert len([one for one in told if one is not None]) == KINDS_MAX + 1
    assert len(repeats.take(11.0)) == 1

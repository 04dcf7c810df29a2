"""What dead letters say of their deaths."""

from typing import Any, cast

from chordmq.broker.queues.arguments import read_rules
from chordmq.broker.queues.dead_letters import dead_letter, deaths, goes_in_circles
from chordmq.broker.queues.entries import Entry
from chordmq.broker.queues.queue import Queue, QueueFacts
from chordmq.codecs.amqp.content import Envelope, new_properties

RULES = {"x-dead-letter-exchange": "graves"}
NOW_MS = 1_700_000_000_000


def queue(name: str = "q", **arguments: str) -> Queue:
    """Return a queue with dead letters."""
    given = RULES | {
        f"x-dead-letter-{key.replace('_', '-')}": one for key, one in arguments.items()
    }
    return Queue(QueueFacts(vhost="/", name=name), read_rules(given), cast(Any, None))


def entry(envelope: Envelope) -> Entry:
    """Return a message."""
    return Entry(cast(Any, None), 0, envelope, b"")


def test_deaths_are_counted_and_the_newest_comes_first() -> None:
    first = Envelope("/", "e", "k", new_properties({"own": 1}, 0))
    once = dead_letter(queue(), entry(first), "rejected", NOW_MS)
    twice = dead_letter(queue(), entry(once), "rejected", NOW_MS)
    other = dead_letter(queue("other"), entry(twice), "expired", NOW_MS)
    assert (other.exchange, other.key) == ("graves", "k")
    found = [(d["queue"], d["reason"], d["count"], d["exchange"]) for d in deaths(entry(other))]
    assert found == [("other", "expired", 1, "graves"), ("q", "rejected", 2, "e")]
    headers = other.properties.headers
    assert headers["own"] == 1
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == ("q", "rejected")


def test_a_routing_key_of_its_own_replaces_the_sender_s() -> None:
    sent = Envelope("/", "e", "k", new_properties({"CC": ["c"]}, 0))
    found = dead_letter(queue(routing_key="grave"), entry(sent), "expired", NOW_MS)
    assert found.key == "grave"
    assert "CC" not in found.properties.headers
    assert deaths(entry(found))[0]["routing-keys"] == ["k", "c"]


def test_what_nobody_refuses_does_not_go_round_for_ever() -> None:
    first = Envelope("/", "", "q", new_properties({}, 0))
    expired = entry(dead_letter(queue(), entry(first), "expired", NOW_MS))
    assert goes_in_circles(expired, "expired", ["q", "r"]) == {"q"}
    assert goes_in_circles(expired, "rejected", ["q"]) == set()

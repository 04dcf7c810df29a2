"""What a queue can be told, and what it cannot."""

from typing import Any

import pytest

from chordmq.broker.queues.arguments import QUORUM_DELIVERY_LIMIT, QueueRules, read_rules
from chordmq.errors import InvalidRequest


def test_a_plain_queue_has_no_limits() -> None:
    assert read_rules({"x-unknown": "let be"}) == QueueRules()


def test_arguments_are_read() -> None:
    rules = read_rules(
        {
            "x-message-ttl": 0,
            "x-expires": 1,
            "x-max-length": 0,
            "x-max-length-bytes": 5,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-max-priority": 255,
            "x-single-active-consumer": True,
            "x-stream-offset": "first",
        }
    )
    assert (rules.message_ttl_ms, rules.expires_ms, rules.length_max) == (0, 1, 0)
    assert (rules.dead_letter_exchange, rules.dead_letter_key) == ("", "k")
    assert (rules.priority_max, rules.single_active, rules.start) == (255, True, "first")


def test_a_quorum_queue_gives_up_after_some_deliveries_unless_told_otherwise() -> None:
    assert read_rules({"x-queue-type": "quorum"}).delivery_limit == QUORUM_DELIVERY_LIMIT
    assert read_rules({"x-queue-type": "quorum", "x-delivery-limit": -1}).delivery_limit is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", "1"),
        ("x-message-ttl", True),
        ("x-expires", 0),
        ("x-max-length", -1),
        ("x-max-priority", 256),
        ("x-overflow", "explode"),
        ("x-queue-type", "other"),
        ("x-single-active-consumer", 1),
        ("x-dead-letter-exchange", 5),
        ("x-dead-letter-routing-key", "without an exchange"),
        ("x-stream-offset", "somewhere"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=name):
        read_rules({name: value})

"""Functions that become consumers, and the decision about a failure."""

from typing import Any

import pytest

from chordmq.client.consumer import Message
from chordmq.client.handlers import Decision, Failure, MessageHandler, Reject, by_policy, consumer
from chordmq.client.retries import RetryPolicy

MESSAGE = Message("orders", 0, 7, 1, b"k", b"v", ())


def test_a_decorated_function_is_still_the_function() -> None:
    """D10: tests of a consumer need no broker."""

    @consumer("orders", group="billing", concurrency=4)
    def bill(message: Message) -> bytes | None:
        return message.value

    assert bill(MESSAGE) == b"v"
    assert (bill.topic, bill.group, bill.concurrency) == ("orders", "billing", 4)
    assert bill.dead_letter == "orders.dlq"
    assert not bill.is_async


def test_async_functions_and_objects_are_recognised() -> None:
    class Bill:
        async def __call__(self, message: Message) -> None: ...

    async def bill(message: Message) -> None: ...

    for function in (bill, Bill()):
        assert consumer("orders", "billing")(function).is_async


@pytest.mark.parametrize(
    ("attempt", "error", "dead_letter", "decision"),
    [
        (1, ValueError("x"), None, Decision.RETRY),
        (2, ValueError("x"), None, Decision.DEAD_LETTER),
        (2, ValueError("x"), "", Decision.STOP),
        (1, Reject("never"), None, Decision.DEAD_LETTER),
        (1, Reject("never"), "", Decision.STOP),
    ],
)
def test_a_failure_is_tried_again_and_then_put_aside_and_never_passed_over(
    attempt: int, error: Exception, dead_letter: str | None, decision: Decision
) -> None:
    """D10: where there is no dead-letter topic the consumer stops."""
    policy = RetryPolicy(attempts=2)
    handler = consumer("orders", "billing", retry=policy, dead_letter=dead_letter)(print)
    assert by_policy(Failure(handler, MESSAGE, error, attempt)) is decision


@pytest.mark.parametrize(
    "wrong",
    [{"topic": ""}, {"group": ""}, {"concurrency": 0}, {"dead_letter": "orders"}],
)
def test_a_consumer_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"function": print, "topic": "orders", "group": "billing", **wrong}
    with pytest.raises(ValueError, match=r"needs|is 1 to|cannot"):
        MessageHandler(**fields)

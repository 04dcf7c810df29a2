"""Functions that process messages, and what happens when one of them fails."""

from collections.abc import Awaitable, Callable
from dataclasses import field
from enum import Enum
from inspect import iscoroutinefunction
from typing import Any, Literal, Protocol

from chordmq.client.consumer import Message
from chordmq.client.retries import RetryPolicy
from chordmq.dataclass import dataclass

DEAD_LETTER_SUFFIX = ".dlq"
CONCURRENCY_MAX = 1_000

MessageFunction = Callable[[Message], Any]
"""A plain function, which runs in a thread, or an async one, which runs on the event loop."""


class Reject(Exception):
    """Raised by a function for a message that no attempt will ever get through."""


class Decision(Enum):
    """What becomes of a message that could not be processed."""

    RETRY = "retry"
    """It is tried again after the wait; the messages behind it with the same key wait with it."""
    DEAD_LETTER = "dead letter"
    """It goes to the dead-letter topic with the reason, and counts as done."""
    SKIP = "skip"
    """It counts as done."""
    STOP = "stop"
    """The consumer ends with the error; the message comes again to whoever goes on."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed."""

    handler: "MessageHandler"
    message: Message
    error: Exception
    attempt: int
    """Which attempt it was, the first being 1."""

    @property
    def reason(self) -> str:
        """Return the fault in one line."""
        return f"{type(self.error).__name__}: {self.error}"


class ErrorHandler(Protocol):
    """Decides about a failure; a plain function or an async one."""

    def __call__(self, failure: Failure, /) -> Decision | Awaitable[Decision]:
        """Return what becomes of the message."""
        ...


def by_policy(failure: Failure) -> Decision:
    """Try again as often as the policy says; then a dead letter, or the end where there is none."""
    is_hopeless = isinstance(failure.error, Reject)
    if not is_hopeless and failure.attempt < failure.handler.retry.attempts:
        return Decision.RETRY
    return Decision.DEAD_LETTER if failure.handler.dead_letter else Decision.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHandler:
    """A function with the topic that it reads, its group, and what to do when it fails.

    Called, it is the function itself, so that tests need no broker.
    """

    function: MessageFunction
    topic: str
    group: str
    concurrency: int = 1
    """Messages that are processed at the same time by this process."""
    order: Literal["key", "partition"] = "key"
    """What is processed one after the other: messages with the same key, or of one partition."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_error: ErrorHandler = by_policy
    dead_letter: str = ""
    """The topic for messages that could not be processed; empty stops the consumer instead."""
    session_timeout_ms: int = 10_000
    """After how long others go on with the messages of a process that has died."""

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be."""
        if not self.topic or not self.group:
            raise ValueError("a consumer needs a topic and a group")
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency is 1 to {CONCURRENCY_MAX}")
        if self.dead_letter == self.topic:
            raise ValueError("the dead letters of a topic cannot go to the topic itself")

    def __call__(self, message: Message) -> Any:
        """Call the function."""
        return self.function(message)

    @property
    def name(self) -> str:
        """Return how the function is called."""
        return getattr(self.function, "__qualname__", repr(self.function))

    @property
    def is_async(self) -> bool:
        """Return whether the function runs on the event loop."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 (an object may be async, too)
        return iscoroutinefunction(self.function) or iscoroutinefunction(call)


def consumer(
    topic: str, group: str, *, dead_letter: str | None = None, **more: Any
) -> Callable[[MessageFunction], MessageHandler]:
    """Have a function process the messages of a topic, as a member of a group.

    `concurrency`, `order`, `retry`, `on_error` and the rest are those of MessageHandler. Messages
    that could not be processed go to `<topic>.dlq` unless another `dead_letter` is named; with an
    empty one the consumer stops instead, since nothing is ever skipped by itself.
    """
    letters = topic + DEAD_LETTER_SUFFIX if dead_letter is None else dead_letter

    def decorate(function: MessageFunction) -> MessageHandler:
        return MessageHandler(
            function=function, topic=topic, group=group, dead_letter=letters, **more
        )

    return decorate

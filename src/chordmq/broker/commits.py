"""Who waits for a partition to commit what was appended, in the order of their offsets."""

from asyncio import Future
from collections import deque
from typing import Protocol


class Waiter(Protocol):
    """A future, or what is told like one: at once, and not in the loop's next turn."""

    def done(self) -> bool:
        """Return whether nobody waits any more."""
        ...

    def set_result(self, result: None, /) -> None:
        """Say that all is committed."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Say why it never will be, as far as this node knows."""
        ...

    def cancel(self) -> bool:
        """Say that the partition has ended."""
        ...


class Commits:
    """What has been appended and not yet committed, and whom to tell."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Waiter]] = deque()

    def add(self, next_offset: int, waiter: Waiter) -> None:
        """Have a waiter told when all before the offset is committed; it is the last so far."""
        self._waiting.append((next_offset, waiter))

    def reached(self, high_watermark: int) -> None:
        """Tell those whose offset it is, or lies before it."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            waiter = waiting.popleft()[1]
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Tell all why they wait in vain."""
        waiting, self._waiting = self._waiting, deque()
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
                if isinstance(waiter, Future):
                    waiter.exception()  # whoever waited may be gone

    def end(self) -> None:
        """Tell all that the partition has ended."""
        waiting, self._waiting = self._waiting, deque()
        for _, waiter in waiting:
            waiter.cancel()

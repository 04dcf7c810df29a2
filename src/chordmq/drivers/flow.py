"""Flow control between a broker and a slow reader: room, pause, and what gives way."""

import asyncio
from collections import deque
from collections.abc import Sequence
from enum import StrEnum

from chordmq.drivers.adapter import Message

WAITING_MAX = 1_000


class SlowReader(StrEnum):
    """What happens when a reader has no room for one more message."""

    WAIT = "wait"
    """The broker keeps it: nothing more is read until there is room."""
    DROP_OLDEST = "drop_oldest"
    """The message that has waited longest is left out, and counted."""


class FlowControl:
    """Messages that wait for a reader: as many as there is room for, none while it pauses."""

    def __init__(
        self, waiting_max: int = WAITING_MAX, policy: SlowReader = SlowReader.WAIT
    ) -> None:
        self._waiting_max = waiting_max
        self._policy = policy
        self._waiting: deque[Message] = deque()
        self._changed = asyncio.Condition()
        self._is_paused = False
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def offer(self, messages: Sequence[Message]) -> None:
        """Put messages in the queue; wait for room, or make some, as the policy says."""
        async with self._changed:
            for message in messages:
                if self._policy is SlowReader.WAIT:
                    await self._changed.wait_for(lambda: len(self._waiting) < self._waiting_max)
                elif len(self._waiting) >= self._waiting_max:
                    self._waiting.popleft()
                    self.dropped += 1
                self._waiting.append(message)
                self._changed.notify_all()

    async def take(self, credit: int) -> list[Message]:
        """Return the next messages, as many as the reader has credit for; wait for one."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting and not self._is_paused)
            count = min(credit, len(self._waiting))
            taken = [self._waiting.popleft() for _ in range(count)]
            self._changed.notify_all()
            return taken

    async def pause(self) -> None:
        """Hand out nothing until `resume`."""
        async with self._changed:
            self._is_paused = True

    async def resume(self) -> None:
        """Go on where `pause` stopped."""
        async with self._changed:
            self._is_paused = False
            self._changed.notify_all()

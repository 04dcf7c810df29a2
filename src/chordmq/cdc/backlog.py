"""What is read and not yet written: bounded in records and bytes, so that reading waits."""

import asyncio
from collections import deque
from typing import NamedTuple

from chordmq.cdc.change import Position
from chordmq.cdc.rendering import Rendered
from chordmq.cdc.settings import Pace


class Step(NamedTuple):
    """Records that are written together, and how far the source is after them."""

    records: Rendered
    position: Position
    changes: int
    read_s: float
    """When it was read, by the monotonic clock."""


class Backlog:
    """Holds steps between the task that reads and the one that writes."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._steps: deque[Step] = deque()
        self.records = 0
        self.size = 0
        self._changed = asyncio.Event()

    async def put(self, step: Step) -> None:
        """Add a step, after waiting until there is room."""
        while self._steps and (
            self.records >= self._pace.queue_events_max or self.size >= self._pace.queue_bytes_max
        ):
            await self._change()
        self._steps.append(step)
        self.records += len(step.records)
        self.size += step.records.size
        self._changed.set()

    async def take(self) -> list[Step]:
        """Return all steps that fit into one transaction, at least one."""
        while not self._steps:
            await self._change()
        taken = [self._steps.popleft()]
        count = len(taken[0].records)
        while self._steps and count + len(self._steps[0].records) <= self._pace.step_events_max:
            taken.append(self._steps.popleft())
            count += len(taken[-1].records)
        self.records -= count
        self.size -= sum(step.records.size for step in taken)
        self._changed.set()
        return taken

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

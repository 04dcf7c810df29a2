"""Appends for clients that wait: what a change of leader gets in the way of is appended again.

Batches of a partition keep their order. One whose leader went away before it had answered may be in
the log twice, unless its producer's sequence says that it is the same: this is for clients that
would send it again themselves.
"""

import asyncio
from collections import deque
from functools import partial
from weakref import WeakSet

from chordmq.broker.partition import Partition
from chordmq.clock import Clock
from chordmq.errors import (
    ChordMQError,
    NotCommittedInTime,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
)

ANOTHER_TIME = (NotLeader, NotEnoughReplicas, NotEnoughReplicasAfterAppend, NotCommittedInTime)
"""Why a batch may not have been stored that can be, soon."""
AGAIN_FOR_S = 30.0
AGAIN_INTERVAL_S = 0.1


class Patience:
    """Hands batches to whoever leads their partitions, as often as it takes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held_up: dict[Partition, deque[tuple[memoryview, asyncio.Future[int]]]] = {}
        """Batches whose partition has changed its leader, and those that came after them."""
        self._proven: WeakSet[Partition] = WeakSet()
        """Partitions whose leader has taken a batch: the next ones need not wait for each other."""
        self._tasks: set[asyncio.Task[None]] = set()

    def holds_up(self, partition: Partition) -> bool:
        """Return whether new batches have to wait for earlier ones."""
        return partition in self._held_up

    def append(self, partition: Partition, batch: memoryview) -> asyncio.Future[int]:
        """Return a future for the first offset of a batch, done when it is committed."""
        offset: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        held_up = self._held_up.get(partition)
        if held_up is not None:
            held_up.append((batch, offset))
        elif partition not in self._proven:
            # Who begins to lead may refuse this one, and take those that follow it at once.
            self._hold_up(partition, batch, offset)
        else:
            appended = partition.forward(batch)
            appended.add_done_callback(partial(self._appended, partition, batch, offset))
        return offset

    def append_again(self, partition: Partition, batch: memoryview) -> asyncio.Future[int]:
        """Do the same with a batch that this node has appended, and can commit no more."""
        offset: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._hold_up(partition, batch, offset)
        return offset

    def _appended(
        self,
        partition: Partition,
        batch: memoryview,
        offset: asyncio.Future[int],
        appended: asyncio.Future[int],
    ) -> None:
        if isinstance(_fault(appended), ANOTHER_TIME):
            self._proven.discard(partition)
            self._hold_up(partition, batch, offset)
        else:
            _tell(offset, appended)

    def _hold_up(
        self, partition: Partition, batch: memoryview, offset: asyncio.Future[int]
    ) -> None:
        held_up = self._held_up.get(partition)
        if held_up is None:
            held_up = self._held_up[partition] = deque()
            task = asyncio.get_running_loop().create_task(self._work_off(partition))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        held_up.append((batch, offset))

    async def _work_off(self, partition: Partition) -> None:
        """Append what had to wait, in its order, when somebody leads the partition."""
        held_up = self._held_up[partition]
        try:
            while held_up:
                batch, offset = held_up[0]
                appended = await self._forwarded(partition, batch)
                held_up.popleft()
                if _fault(appended) is None:
                    self._proven.add(partition)
                _tell(offset, appended)
        finally:
            del self._held_up[partition]
            for _, offset in held_up:
                if not offset.done():
                    offset.set_exception(NotLeader("the node stops"))

    async def _forwarded(self, partition: Partition, batch: memoryview) -> asyncio.Future[int]:
        until_s = self._clock.monotonic_s() + AGAIN_FOR_S
        while True:
            appended = partition.forward(batch)
            await asyncio.wait([appended])
            is_over = self._clock.monotonic_s() > until_s
            if is_over or not isinstance(_fault(appended), ANOTHER_TIME):
                return appended
            await asyncio.sleep(AGAIN_INTERVAL_S)


def _fault(appended: asyncio.Future[int]) -> BaseException | None:
    return NotLeader("the node stops") if appended.cancelled() else appended.exception()


def _tell(offset: asyncio.Future[int], appended: asyncio.Future[int]) -> None:
    if offset.done():
        return
    fault = _fault(appended)
    if fault is None:
        offset.set_result(appended.result())
    else:
        offset.set_exception(fault)
        if isinstance(fault, ChordMQError):
            offset.exception()  # whoever asked may be gone

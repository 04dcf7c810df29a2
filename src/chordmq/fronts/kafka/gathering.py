"""Produce requests of one turn of the event loop, which share a write and a pass of sending.

Fifty clients that wait for each answer send fifty requests in a turn. Written one by one they cost
a system call each, and each answer that leaves at once wakes its client by itself. Large requests
share no more than the write of what one read has brought: their memory is wanted for the next.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, Protocol

from chordmq.broker.partition import Partition
from chordmq.broker.shared import Appended
from chordmq.clock import Clock
from chordmq.errors import ChordMQError
from chordmq.fronts.kafka.usage import Usage
from chordmq.logs import get_logger

log = get_logger(__name__)

PRODUCE: Final = 0
SMALL: Final = 16 * 1024
"""Bytes of a request that waits for the end of the turn; a larger one would have to be copied."""
GATHERED_MAX: Final = 1 << 20
"""Bytes that wait at most; they are written before what comes then."""


class Asker(Protocol):
    """The connection that a request came by."""

    @property
    def is_last(self) -> bool:
        """Return whether nothing has come with a request that is to be served together with it."""
        ...

    def proceed(self) -> None:
        """Send what is answered, and begin what has arrived."""
        ...

    def fill(self, place: Any, result: Any) -> None:
        """Put an answer, or a future for it, into the place that the request has in the order."""
        ...

    def close(self, reason: str) -> None:
        """Hang up."""
        ...


class Request(Protocol):
    """A Produce request that waits for its batches to be appended."""

    @property
    def asker(self) -> Asker:
        """Return who asked."""
        ...

    def took(self, number: int, result: Appended | ChordMQError) -> None:
        """Take note of what became of one of the batches."""
        ...

    def end(self) -> None:
        """Answer, after the last batch."""
        ...


class Gathering:
    """What the clients of one listener have sent in this turn."""

    def __init__(self, usage: defaultdict[int, Usage], clock: Clock) -> None:
        self._usage = usage
        self._clock = clock
        self._batches: dict[Partition, tuple[list[memoryview], list[tuple[Request, int]]]] = {}
        self._requests: list[Request] = []
        self._askers: dict[Asker, None] = {}
        self._is_quorum_needed = False
        self._size = 0
        self._is_due = False

    def add_all(
        self,
        request: Request,
        batches: Sequence[tuple[Partition, memoryview]],
        *,
        is_quorum_needed: bool,
    ) -> None:
        """Have batches appended at the end of the turn, behind those that came before."""
        self._prepare(is_quorum_needed)
        self._requests.append(request)
        for number, (partition, batch) in enumerate(batches):
            self._put(request, number, partition, batch)

    def add(
        self, request: Request, partition: Partition, batch: memoryview, *, is_quorum_needed: bool
    ) -> None:
        """Have the one batch of a request appended so."""
        self._prepare(is_quorum_needed)
        self._requests.append(request)
        self._put(request, 0, partition, batch)

    def _prepare(self, is_quorum_needed: bool) -> None:
        if is_quorum_needed != self._is_quorum_needed or self._size > GATHERED_MAX:
            self.write()
            self._is_quorum_needed = is_quorum_needed
        if not self._is_due:
            self._schedule()

    def let_proceed(self, asker: Asker) -> None:
        """Let a client go on at the end of the turn, because more of its answers may come in it."""
        self._askers[asker] = None
        if not self._is_due:
            self._schedule()

    def _schedule(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _put(self, request: Request, number: int, partition: Partition, batch: memoryview) -> None:
        self._size += len(batch)
        gathered = self._batches.get(partition)
        if gathered is None:
            gathered = self._batches[partition] = ([], [])
        gathered[0].append(batch)
        gathered[1].append((request, number))

    def write(self) -> None:
        """Append what has been gathered, because something else must come behind it."""
        if not self._requests:
            return
        gathered, self._batches = self._batches, {}
        requests, self._requests = self._requests, []
        self._size = 0
        try:
            for partition, (batches, askers) in gathered.items():
                results = partition.append_together(
                    batches, is_quorum_needed=self._is_quorum_needed
                )
                for (request, number), result in zip(askers, results, strict=True):
                    request.took(number, result)
            for request in requests:
                request.end()
                self._askers[request.asker] = None
        except Exception:
            log.exception("requests failed", count=len(requests))
            for request in requests:
                request.asker.close("a fault of this node; its log says more")

    def write_now(self) -> None:
        """Append what has been gathered, and count the time, which is nobody else's."""
        started = self._clock.monotonic_s()
        self.write()
        self._usage[PRODUCE].busy_s += self._clock.monotonic_s() - started

    def _end_turn(self) -> None:
        """Append what is left, and let the clients go on, all in one pass."""
        self._is_due = False
        self.write_now()
        askers, self._askers = self._askers, {}
        for asker in askers:
            asker.proceed()

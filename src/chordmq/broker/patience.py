"""Appends for clients that wait: what a change of leader gets in the way of is appended again.

Batches of a partition keep their order, whoever leads it: they follow each other to its leader, and
when another leads, or the link to it has ended, what comes then waits until it is known what became
of them. One whose leader went away before it had answered may be in the log twice, unless its
producer's sequence says that it is the same: this is for clients that would send it again
themselves. What waits here is bounded by the fronts, which read no more from a client with too much
that is not stored.
"""

import asyncio
from collections import deque
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from chordmq.broker.partition import Partition
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ChordMQError,
    NotCommittedInTime,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    UnknownTopic,
)

ANOTHER_TIME = (NotLeader, NotEnoughReplicas, NotEnoughReplicasAfterAppend, NotCommittedInTime)
"""Why a batch may not have been stored that can be, soon."""
AGAIN_FOR_S = 30.0
AGAIN_INTERVAL_S = 0.1

Place = tuple[str, int]


@dataclass(slots=True, eq=False)
class Entry:
    """A batch that nobody knows yet what becomes of, and the future for its first offset."""

    partition: Partition
    batch: memoryview
    offset: asyncio.Future[int]
    appended: asyncio.Future[Any] | None = None
    """Done when it is committed, or refused; None if nobody has been asked yet."""
    base_offset: int | None = None
    """Where it lies in the log of this node, if that has appended it and waits for the others."""
    until_s: float = 0.0
    """How long it is tried, once it has to wait."""

    @property
    def is_answered(self) -> bool:
        """Return whether somebody was asked, and has answered."""
        return self.appended is not None and self.appended.done()

    @property
    def fault(self) -> BaseException | None:
        """Return why it was refused."""
        assert self.appended is not None
        if not self.appended.cancelled():
            return self.appended.exception()
        if self.base_offset is not None or _standing(self.partition).is_closed:
            return UnknownTopic("the topic was deleted meanwhile")
        return NotLeader("the node stops")

    @property
    def is_to_be_repeated(self) -> bool:
        """Return whether it was refused by somebody who may take it soon."""
        if not self.is_answered:
            return False
        assert self.appended is not None
        return not self.appended.cancelled() and isinstance(self.fault, ANOTHER_TIME)

    def renew(self, until_s: float) -> None:
        """Make ready for another try, in other memory: a log still reads what it has appended."""
        self.batch = memoryview(bytearray(self.batch))
        self.base_offset = None
        self.until_s = until_s

    def tell(self) -> None:
        """Tell who waits what became of it."""
        assert self.appended is not None
        fault = self.fault
        if fault is not None:
            self.refuse(fault)
        elif not self.offset.done():
            base = self.base_offset
            self.offset.set_result(self.appended.result() if base is None else base)

    def refuse(self, fault: BaseException) -> None:
        """Tell who waits that it is not stored, as far as is known."""
        if not self.offset.done():
            self.offset.set_exception(fault)
            if isinstance(fault, ChordMQError):
                self.offset.exception()  # whoever asked may be gone


class Line:
    """What is not decided of one partition, in the order in which it came."""

    def __init__(self, place: Place, way: object) -> None:
        self.place = place
        self.way = way
        """On which all under way were handed to the leader: this node, or another."""
        self.under_way: deque[Entry] = deque()
        self.waiting: deque[Entry] = deque()
        """Those that came after them, and are handed to nobody yet."""
        self.is_held_up = False
        """Whether all that comes has to wait."""

    def shorten(self) -> None:
        """Let go of those that are decided, unless they are behind one that is not."""
        under_way = self.under_way
        while under_way and under_way[0].is_answered and not under_way[0].is_to_be_repeated:
            under_way.popleft()

    def unanswered(self) -> list[asyncio.Future[Any]]:
        """Return what comes of those whose leader has not answered."""
        asked = [entry.appended for entry in self.under_way]
        return [appended for appended in asked if appended is not None and not appended.done()]

    def put_back(self, until_s: float) -> None:
        """Have those wait that were refused, before all that came after them."""
        failed = [entry for entry in self.under_way if entry.is_to_be_repeated]
        self.under_way.clear()
        for entry in failed:
            entry.renew(until_s)
        self.waiting.extendleft(reversed(failed))

    def refuse_overdue(self, fault: BaseException, now_s: float) -> None:
        """Refuse those that wait and whose time is over."""
        waiting, self.waiting = self.waiting, deque()
        for entry in waiting:
            if entry.until_s <= now_s:
                entry.refuse(fault)
            else:
                self.waiting.append(entry)


class Patience:
    """Hands batches to whoever leads their partitions, as often as it takes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[Place, Line] = {}
        """By name: another object stands for a partition when a copy has come here, or gone."""
        self._proven: WeakKeyDictionary[Partition, object] = WeakKeyDictionary()
        """The way on which a leader has taken a batch: the next need not wait for each other."""
        self._tasks: set[asyncio.Task[None]] = set()

    def holds_up(self, partition: Partition) -> bool:
        """Return whether new batches have to wait for earlier ones, also where this node leads."""
        if partition.replica is None:  # it leads for ever
            return False
        line = self._lines.get((partition.topic, partition.index))
        return line is not None and (line.is_held_up or line.way is not partition.replica.way)

    def append(self, partition: Partition, batch: memoryview) -> asyncio.Future[int]:
        """Return a future for the first offset of a batch, done when it is committed."""
        line, entry = self._line(partition), _entry(partition, batch)
        if not partition.is_leader and self._is_open(line, partition):
            self._hand_over(line, entry)
        else:
            # Who begins to lead may refuse this one, and take those that follow it at once.
            entry.until_s = self._clock.monotonic_s() + AGAIN_FOR_S
            line.waiting.append(entry)
            self._hold_up(line)
        return entry.offset

    def see_through(
        self,
        partition: Partition,
        batch: memoryview,
        base_offset: int,
        committed: asyncio.Future[None],
    ) -> asyncio.Future[int]:
        """Do the same with a batch that this node has appended, and may be unable to commit."""
        assert not self.holds_up(partition)
        line, entry = self._line(partition), _entry(partition, batch)
        entry.base_offset = base_offset
        self._follow(line, entry, committed)
        return entry.offset

    def _line(self, partition: Partition) -> Line:
        place = (partition.topic, partition.index)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = Line(place, _way(partition))
        return line

    def _is_open(self, line: Line, partition: Partition) -> bool:
        """Return whether the leader takes one batch after the other, and of all in the line."""
        way = _way(partition)
        is_proven = partition.is_leader or self._proven.get(partition) is way
        return is_proven and line.way is way and not line.is_held_up

    def _hand_over(self, line: Line, entry: Entry) -> None:
        self._follow(line, entry, _forward(entry))

    def _follow(self, line: Line, entry: Entry, appended: asyncio.Future[Any]) -> None:
        entry.appended = appended
        line.under_way.append(entry)
        if appended.done():  # it was refused at once, so that the next one must wait already
            self._settled(line, entry, appended)
        else:
            appended.add_done_callback(partial(self._settled, line, entry))

    def _settled(self, line: Line, entry: Entry, appended: asyncio.Future[Any]) -> None:
        if entry.appended is not appended:  # it is tried again already
            return
        if entry.is_to_be_repeated:
            self._hold_up(line)
            return
        entry.tell()
        line.shorten()
        self._leave(line)

    def _leave(self, line: Line) -> None:
        is_over = not (line.under_way or line.waiting or line.is_held_up)
        if is_over and self._lines.get(line.place) is line:
            del self._lines[line.place]

    def _hold_up(self, line: Line) -> None:
        if not line.is_held_up:
            line.is_held_up = True
            task = asyncio.get_running_loop().create_task(self._work_off(line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work_off(self, line: Line) -> None:
        """Append what had to wait, in its order, until a leader takes one after the other."""
        try:
            await self._see_what_became_of_those_under_way(line)
            while line.waiting and not await self._append_first(line):
                pass
            line.is_held_up = False
        finally:
            if line.is_held_up:
                self._give_up(line)
        while line.waiting and self._is_open(line, _standing(line.waiting[0].partition)):
            self._hand_over(line, line.waiting.popleft())
        if line.waiting:
            self._hold_up(line)
        self._leave(line)

    async def _see_what_became_of_those_under_way(self, line: Line) -> None:
        while pending := line.unanswered():
            await asyncio.wait(pending, timeout=AGAIN_FOR_S)
            fault = NotCommittedInTime("what came before is not committed")
            line.refuse_overdue(fault, self._clock.monotonic_s())
        line.put_back(self._clock.monotonic_s() + AGAIN_FOR_S)

    async def _append_first(self, line: Line) -> bool:
        """Append the first that waits; return whether a leader has taken it."""
        entry = line.waiting[0]
        while True:
            partition = _standing(entry.partition)
            way = _way(partition)
            entry.appended = _forward(entry)
            await asyncio.wait([entry.appended])
            now_s = self._clock.monotonic_s()
            if now_s > entry.until_s or not entry.is_to_be_repeated:
                break
            entry.renew(entry.until_s)
            await asyncio.sleep(AGAIN_INTERVAL_S)
        line.waiting.popleft()
        entry.tell()
        fault = entry.fault
        if fault is None:
            self._proven[partition] = line.way = way
        elif entry.is_to_be_repeated:
            line.refuse_overdue(fault, now_s)  # or each would be tried in vain, one after the other
        return fault is None

    def _give_up(self, line: Line) -> None:
        """Tell all who wait that nobody looks after them any more."""
        del self._lines[line.place]
        for entry in (*line.under_way, *line.waiting):
            entry.refuse(NotLeader("the node stops"))


def _entry(partition: Partition, batch: memoryview) -> Entry:
    return Entry(partition, batch, asyncio.get_running_loop().create_future())


def _standing(partition: Partition) -> Partition:
    """Return what stands for a partition now."""
    while partition.moved_to is not None:
        partition = partition.moved_to
    return partition


def _way(partition: Partition) -> object:
    assert partition.replica is not None, "a node alone leads everything"
    return partition.replica.way


def _forward(entry: Entry) -> asyncio.Future[int]:
    partition = _standing(entry.partition)
    if not partition.is_closed:
        return partition.forward(entry.batch)
    refused: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    refused.set_exception(UnknownTopic("the topic was deleted meanwhile"))
    return refused

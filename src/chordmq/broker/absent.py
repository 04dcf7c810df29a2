"""A partition that other nodes hold: known by name and leader, and read over the links."""

import asyncio
import math
from pathlib import Path
from typing import Protocol

from chordmq.broker.audience import Reader
from chordmq.broker.chunks import Chunk, Chunks
from chordmq.broker.log_settings import log_settings
from chordmq.broker.partition import Partition
from chordmq.broker.settings import TopicSettings
from chordmq.broker.shared import Shared
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.reading import Answer, Outcome
from chordmq.errors import NotLeader
from chordmq.records.batch import walk
from chordmq.storage.absent import AbsentLog

RETRY_S = 0.1
"""Until a reader asks again after nobody could be asked, or nobody had what it wants."""
REFUSED_S = 1.0
"""How long it counts that no log holds an offset: it may be written soon."""


class Reads(Protocol):
    """Asks nodes that have a copy."""

    chunks: Chunks

    def ask(self, partition: "AbsentPartition", offset: int) -> int | None:
        """Ask a node with a copy; return the question's number, or None if nobody can be asked."""
        ...

    def cancel(self, number: int) -> None:
        """Want no answer any more."""
        ...

    def answered(self, number: int) -> None:
        """Take note that the leader has pushed what was asked for."""
        ...

    def repeat(self, number: int) -> None:
        """Ask again."""
        ...


class AbsentPartition(Partition):
    """Has nothing of its own: reads give what has come from a copy, and ask for what has not.

    Whoever finds nothing waits, and is woken when something has come, or when another node leads.
    Only records whose transactions are decided come. Where nobody reads, nothing is asked.
    """

    is_absent = True

    def __init__(self, topic: str, index: int, settings: TopicSettings, shared: Shared) -> None:
        log = AbsentLog(Path(f"{topic}-{index}"), log_settings(settings))
        self._asked: dict[int, int] = {}
        """The numbers of questions under way, by offset."""
        self._refused: dict[int, int] = {}
        """Where to go on instead of offsets that no log holds."""
        self._is_retrying = False
        self._woken = 0
        """How many were woken last."""
        self.pushed_s = -math.inf
        """When the leader has last pushed something that was wanted here."""
        self.asked_s = -math.inf
        """When another node was last asked."""
        super().__init__(topic, index, log, settings, shared)

    @property
    def _reads(self) -> Reads | None:
        return self._shared.reads

    @property
    def place(self) -> tuple[bytes, int]:
        """Return the partition as nodes name it."""
        assert self.replica is not None
        return self.replica.place

    @property
    def source(self) -> int:
        """Return the node to ask: the leader, or a copy that may lead next."""
        state = self.replica.state if self.replica is not None else None
        if state is None:
            return NO_LEADER
        return state.leader if state.leader != NO_LEADER or not state.isr else state.isr[0]

    def read(self, offset: int, max_bytes: int, *, only_stable: bool = False) -> list[memoryview]:
        """Return what has come from the offset on; ask for it if nothing has."""
        if self._reads is None:
            raise self._elsewhere()
        found: list[memoryview] = []
        while max_bytes > 0 and (chunk := self._reads.chunks.find(self, offset)) is not None:
            batches, offset = chunk.read(offset, max_bytes)
            found.append(batches)
            max_bytes -= len(batches)
        if max_bytes > 0 and (not found or offset < self.high_watermark):
            self._ask(offset)  # ahead of the reader, if it has got something
        self.bytes_out += sum(map(len, found))
        return found

    def aborted_in(self, offset: int, buffers: list[memoryview]) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of each aborted transaction in what was read."""
        found: dict[tuple[int, int], None] = {}
        at = offset
        end = max(header.next_offset for _, header in walk(buffers[-1])) if buffers else offset
        while at < end and self._reads and (chunk := self._reads.chunks.find(self, at)):
            for one in chunk.aborted:
                if one.last_offset >= offset and one.first_offset < end:
                    found[one.producer_id, one.first_offset] = None
            at = chunk.next
        return list(found)

    def nearest(self, offset: int) -> int:
        """Return where a reader goes on who wants this offset."""
        if offset < self.log.start_offset:
            return self.log.start_offset
        return self._refused.get(offset, offset)

    def readable(self, offset: int) -> bool:
        """Return whether a reader finds something at the offset now; if not, ask for it."""
        if self._reads is None or self.is_closed:
            return False
        if self.nearest(offset) != offset or self._reads.chunks.find(self, offset) is not None:
            return True
        self._ask(offset)
        return False

    def awaits_disk(self, offset: int, max_bytes: int) -> bool:
        """Return False: what has come is in memory."""
        return False

    @property
    def readers(self) -> int:
        """Return how many wait for more, or look just now at what has come."""
        return max(len(self._readers), self._woken)

    def wake(self) -> None:
        """Wake all who wait."""
        self._woken = len(self._readers)
        super().wake()

    def forget(self, reader: Reader) -> None:
        """Do not wake `reader` any more; where nobody waits, nothing is asked."""
        super().forget(reader)
        if not self._readers:
            self._cancel()

    def begin_epoch(self) -> None:
        """Ask whoever leads now; what an earlier leader has told may not be so."""
        self._let_go()
        super().begin_epoch()

    def on_answer(self, offset: int, answer: Answer) -> None:
        """Take what a copy has sent."""
        self._asked.pop(offset, None)
        if answer.outcome is Outcome.NOT_HERE or self._reads is None:
            self._retry()
            return
        self.learn(answer.start_offset, answer.end_offset)
        if answer.outcome is Outcome.OUT_OF_RANGE:
            self._refuse(offset, answer)
        elif answer.records:
            self._reads.chunks.add(self, Chunk(offset, answer.records[0], answer.aborted))
        self.wake()

    def on_push(self, start: int, answer: Answer) -> bool:
        """Take what the leader has pushed; return whether somebody here wants it."""
        if self._reads is None or not answer.records or not (self._readers or self._asked):
            return False
        self.learn(answer.start_offset, answer.end_offset)
        chunk = Chunk(start, answer.records[0], answer.aborted)
        self._reads.chunks.add(self, chunk)
        for offset, number in list(self._asked.items()):
            if start <= offset < chunk.next:
                self._reads.answered(self._asked.pop(offset))
            elif offset < start:  # a push before this one was lost
                self._reads.repeat(number)
        self.wake()
        return True

    def learn(self, start: int, end: int) -> None:
        """Take note of where the log begins and ends, as far as readers may see it."""
        log = self.log
        log.start_offset = max(log.start_offset, start)
        log.end_offset = self.high_watermark = max(self.high_watermark, end)

    def on_lost(self, offset: int) -> None:
        """Ask again: the node that was asked cannot be reached."""
        self._asked.pop(offset, None)
        self._retry()

    async def delete_records(self, before: int) -> int:
        """Refuse."""
        raise self._elsewhere()

    async def discard(self) -> None:
        """Tell all who wait that nothing comes; there are no files."""
        self._end()
        self._let_go()

    def _refuse(self, offset: int, answer: Answer) -> None:
        """Have who wants an offset that the leader does not have go on elsewhere, for now."""
        self._refused[offset] = min(max(offset, answer.start_offset), answer.end_offset)
        loop = asyncio.get_running_loop()
        loop.call_later(REFUSED_S, self._refused.pop, offset, None)

    def _ask(self, offset: int) -> None:
        if self._reads is None or self.is_closed or offset in self._asked:
            return
        number = self._reads.ask(self, offset)
        if number is None:
            self._retry()
        else:
            self._asked[offset] = number

    def _retry(self) -> None:
        """Have readers look again in a moment, who then ask again."""
        if not self._is_retrying and not self.is_closed:
            self._is_retrying = True
            asyncio.get_running_loop().call_later(RETRY_S, self._look_again)

    def _look_again(self) -> None:
        self._is_retrying = False
        self.wake()

    def _cancel(self) -> None:
        asked, self._asked = self._asked, {}
        for number in asked.values():
            if self._reads is not None:
                self._reads.cancel(number)

    def _let_go(self) -> None:
        self._cancel()
        self._refused.clear()
        if self._reads is not None:
            self._reads.chunks.forget(self)

    def _elsewhere(self) -> NotLeader:
        leader = self.replica.leader_hint[0] if self.replica is not None else NO_LEADER
        return NotLeader(f"{self.topic}-{self.index} is on other nodes", leader)

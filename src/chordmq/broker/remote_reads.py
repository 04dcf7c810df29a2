"""Reading partitions of other nodes: asks those who have copies, and answers those who have none.

Questions and answers are notices in the order of a link. A question waits at the other node until
there is something to answer, so that nobody polls; a link that ends takes all its questions along.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from chordmq.broker.absent import AbsentPartition
from chordmq.broker.chunks import Chunks
from chordmq.broker.partition import Partition
from chordmq.broker.topics import Topics
from chordmq.cluster.link import Caller
from chordmq.cluster.links import NoticeHandler, Watcher
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.codecs.peer.reading import (
    Aborted,
    Answer,
    Outcome,
    Read,
    read_answer,
    read_cancel,
    read_read,
    write_answer,
    write_cancel,
    write_read,
)
from chordmq.errors import ChordMQError
from chordmq.records.batch import walk

FETCH_BYTES = 1024 * 1024


class Nodes(Protocol):
    """The links to the other nodes."""

    on_lost: list[Watcher]

    def on(self, kind: int, handler: NoticeHandler) -> None:
        """Have notices of this kind taken by a handler."""
        ...

    def send(self, broker: int, kind: int, body: Body) -> bool:
        """Send a notice; False if there is no link to the node now."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of this node that is not answered."""

    partition: AbsentPartition
    offset: int
    broker: int


class Waiting:
    """A question of another node; waits at the partition until there is something."""

    __slots__ = ("_reads", "broker", "partition", "read")

    def __init__(self, reads: "RemoteReads", broker: int, read: Read, partition: Partition) -> None:
        self._reads = reads
        self.broker = broker
        self.read = read
        self.partition = partition

    def wake(self) -> None:
        """Take note that there is more to read."""
        self._reads.serve_soon(self)


class RemoteReads:
    """What this node reads elsewhere, and what others read here."""

    def __init__(self, nodes: Nodes, topics: Topics, source_of: Callable[[Partition], int]) -> None:
        self._nodes = nodes
        self._topics = topics
        self._source_of = source_of
        self._numbers = count(1)
        self._asked: dict[int, Asked] = {}
        self._waiting: dict[tuple[int, int], Waiting] = {}
        """What others wait for, by node and number."""
        self._woken: dict[Waiting, None] = {}
        self.chunks = Chunks()
        nodes.on(Kind.READ, self._on_read)
        nodes.on(Kind.READ_CANCEL, self._on_cancel)
        nodes.on(Kind.READ_ANSWER, self._on_answer)
        nodes.on_lost.append(self._on_lost)

    # What this node reads elsewhere.

    def ask(self, partition: AbsentPartition, offset: int) -> int | None:
        """Ask a node with a copy; return the question's number, or None if nobody can be asked."""
        number, broker = next(self._numbers), self._source_of(partition)
        place = partition.place
        read = Read(number, *place, offset, FETCH_BYTES, partition.readers)
        if not self._nodes.send(broker, Kind.READ, [write_read(read)]):
            return None
        self._asked[number] = Asked(partition, offset, broker)
        return number

    def cancel(self, number: int) -> None:
        """Want no answer any more."""
        asked = self._asked.pop(number, None)
        if asked is not None:
            self._nodes.send(asked.broker, Kind.READ_CANCEL, [write_cancel(number)])

    def _on_answer(self, caller: Caller, body: memoryview) -> None:
        answer = read_answer(body)
        asked = self._asked.pop(answer.number, None)
        if asked is not None:
            asked.partition.on_answer(asked.offset, answer)

    def _on_lost(self, broker: int) -> None:
        """Have everybody ask again who has asked this node; let go of what it has asked."""
        for number, asked in list(self._asked.items()):
            if asked.broker == broker:
                del self._asked[number]
                asked.partition.on_lost(asked.offset)
        for key, waiting in list(self._waiting.items()):
            if key[0] == broker:
                self._forget(waiting)

    # What others read here.

    def _on_read(self, caller: Caller, body: memoryview) -> None:
        read = read_read(body)
        partition = self._topics.partition(read.topic_id, read.partition)
        if partition is None or partition.is_absent:
            self._refuse(caller.broker, read.number)
            return
        waiting = Waiting(self, caller.broker, read, partition)
        self._waiting[caller.broker, read.number] = waiting
        self.serve_soon(waiting)

    def _on_cancel(self, caller: Caller, body: memoryview) -> None:
        waiting = self._waiting.get((caller.broker, read_cancel(body)))
        if waiting is not None:
            self._forget(waiting)

    def serve_soon(self, waiting: Waiting) -> None:
        """Answer at the end of this turn of the loop, if there is something."""
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._serve_woken)
        self._woken[waiting] = None

    def _serve_woken(self) -> None:
        woken, self._woken = self._woken, {}
        for waiting in woken:
            if (waiting.broker, waiting.read.number) in self._waiting:
                self._serve(waiting)

    def _serve(self, waiting: Waiting) -> None:
        partition, read = waiting.partition, waiting.read
        if partition.is_closed:
            self._forget(waiting)
            self._refuse(waiting.broker, read.number)
            return
        if not partition.readable(read.offset):
            partition.wait(waiting)
            return
        self._forget(waiting)
        try:
            answer = _answer(partition, read)
        except ChordMQError:  # the disk, perhaps; another copy may do better
            self._refuse(waiting.broker, read.number)
        else:
            self._nodes.send(waiting.broker, Kind.READ_ANSWER, write_answer(answer))

    def _forget(self, waiting: Waiting) -> None:
        del self._waiting[waiting.broker, waiting.read.number]
        waiting.partition.forget(waiting)

    def _refuse(self, broker: int, number: int) -> None:
        answer = Answer(number, Outcome.NOT_HERE)
        self._nodes.send(broker, Kind.READ_ANSWER, write_answer(answer))


def _answer(partition: Partition, read: Read) -> Answer:
    """Return what a partition has to say to a reader that need not wait."""
    start, end = partition.log.start_offset, partition.stable_offset
    if partition.nearest(read.offset) != read.offset:
        return Answer(read.number, Outcome.OUT_OF_RANGE, start, partition.log.end_offset)
    buffers = partition.read(read.offset, read.bytes_max, only_stable=True)
    until = max((one.next_offset for buffer in buffers[-1:] for _, one in walk(buffer)), default=0)
    found = partition.producers.transactions.aborted_between(read.offset, until)
    aborted = [Aborted(*one[:3]) for one in found]
    return Answer(read.number, Outcome.RECORDS, start, end, aborted, buffers)

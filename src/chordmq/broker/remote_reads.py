"""Reading partitions of other nodes: asks those who have copies, and answers those who have none.

Questions and answers are notices in the order of a link. A question waits at the other node until
there is something to answer, so that nobody polls; a link that ends takes all its questions along.
"""

import asyncio
from collections.abc import Callable, Collection
from itertools import count
from typing import NamedTuple, Protocol

from chordmq.broker.absent import AbsentPartition
from chordmq.broker.chunks import Chunks
from chordmq.broker.partition import Partition
from chordmq.broker.topics import Topics
from chordmq.clock import Clock
from chordmq.cluster.link import Caller, NoticeHandler, Watcher
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
from chordmq.dataclass import dataclass
from chordmq.errors import ChordMQError
from chordmq.records.batch import walk

FETCH_BYTES = 1024 * 1024
FOLLOWED_S = 20.0
"""How long a node counts as a reader after it has asked; it asks again before."""
REPEAT_S = 15.0
EXPECTED_S = 3.0
"""How long after a push the next one is waited for, without a question."""
REPAIR_S = 1.0
"""Until a question is repeated about a popular partition, whose answers are pushed."""


class Nodes(Protocol):
    """The links to the other nodes."""

    on_lost: list[Watcher]

    def on(self, kind: int, handler: NoticeHandler) -> None:
        """Have notices of this kind taken by a handler."""
        ...

    def send(self, broker: int, kind: int, body: Body) -> bool:
        """Send a notice; False if there is no link to the node now."""
        ...


@dataclass(slots=True)
class Asked:
    """A question of this node that is not answered."""

    partition: AbsentPartition
    read: Read
    broker: int
    since_s: float


class Follower(NamedTuple):
    """Another node that reads a partition here."""

    readers: int
    until_s: float
    """When it counts no more unless it asks again."""


class Waiting:
    """A question of another node; waits at the partition until there is something."""

    __slots__ = ("_reads", "broker", "has_waited", "partition", "read")

    def __init__(self, reads: "RemoteReads", broker: int, read: Read, partition: Partition) -> None:
        self._reads = reads
        self.broker = broker
        self.read = read
        self.partition = partition
        self.has_waited = False

    def wake(self) -> None:
        """Take note that there is more to read."""
        self._reads.serve_soon(self)


class RemoteReads:
    """What this node reads elsewhere, and what others read here."""

    def __init__(
        self,
        nodes: Nodes,
        topics: Topics,
        clock: Clock,
        is_popular: Callable[[Partition], bool] = lambda _: False,
    ) -> None:
        self._nodes = nodes
        self._topics = topics
        self._clock = clock
        self._is_popular = is_popular
        self._numbers = count(1)
        self._asked: dict[int, Asked] = {}
        self._waiting: dict[tuple[int, int], Waiting] = {}
        """What others wait for, by node and number."""
        self._woken: dict[Waiting, None] = {}
        self._followers: dict[Partition, dict[int, Follower]] = {}
        self.pushed: Collection[Partition] = ()
        """Partitions of this node whose new records come to all others by themselves."""
        self.chunks = Chunks()
        nodes.on(Kind.READ, self._on_read)
        nodes.on(Kind.READ_CANCEL, self._on_cancel)
        nodes.on(Kind.READ_ANSWER, self._on_answer)
        nodes.on_lost.append(self._on_lost)

    # What this node reads elsewhere.

    def ask(self, partition: AbsentPartition, offset: int) -> int | None:
        """Ask a node with a copy; return the question's number, or None if nobody can be asked."""
        number, broker = next(self._numbers), partition.source
        read = Read(number, *partition.place, offset, FETCH_BYTES, partition.readers)
        asked = Asked(partition, read, broker, self._clock.monotonic_s())
        if not self._is_expected(asked) and not self._send(asked):
            return None
        self._asked[number] = asked
        return number

    def answered(self, number: int) -> None:
        """Take note that the leader has pushed what was asked for."""
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.partition.pushed_s = self._clock.monotonic_s()

    def repeat(self, number: int) -> None:
        """Ask again."""
        asked = self._asked.get(number)
        if asked is not None:
            self._send(asked)

    def repeat_overdue(self) -> None:
        """Ask again what may never be answered: a push may have been lost on its way."""
        now_s = self._clock.monotonic_s()
        for asked in self._asked.values():
            is_pushed = now_s - asked.partition.pushed_s < REPEAT_S
            is_pushed = is_pushed or self._is_popular(asked.partition)
            if now_s - asked.since_s >= (REPAIR_S if is_pushed else REPEAT_S):
                self._send(asked)

    def _is_expected(self, asked: Asked) -> bool:
        """Return whether the leader will push this by itself, and knows that it is wanted."""
        partition, now_s = asked.partition, asked.since_s
        return (
            now_s - partition.pushed_s < EXPECTED_S
            and now_s - partition.asked_s < FOLLOWED_S / 2
            and asked.read.offset >= partition.high_watermark
        )

    def _send(self, asked: Asked) -> bool:
        asked.since_s = asked.partition.asked_s = self._clock.monotonic_s()
        asked.read = asked.read._replace(readers=asked.partition.readers)
        return self._nodes.send(asked.broker, Kind.READ, [write_read(asked.read)])

    def cancel(self, number: int) -> None:
        """Want no answer any more."""
        asked = self._asked.pop(number, None)
        if asked is not None:
            self._nodes.send(asked.broker, Kind.READ_CANCEL, [write_cancel(number)])

    def _on_answer(self, caller: Caller, body: memoryview) -> None:
        answer = read_answer(body)
        asked = self._asked.pop(answer.number, None)
        if asked is not None:
            asked.partition.on_answer(asked.read.offset, answer)

    def _on_lost(self, broker: int) -> None:
        """Have everybody ask again who has asked this node; let go of what it has asked."""
        for number, asked in list(self._asked.items()):
            if asked.broker == broker:
                del self._asked[number]
                asked.partition.on_lost(asked.read.offset)
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
        before = self._waiting.get((caller.broker, read.number))
        if before is not None:  # it has asked again
            self._forget(before)
        until_s = self._clock.monotonic_s() + FOLLOWED_S
        followers = self._followers.setdefault(partition, {})
        followers[caller.broker] = Follower(read.readers, until_s)
        waiting = Waiting(self, caller.broker, read, partition)
        self._waiting[caller.broker, read.number] = waiting
        self.serve_soon(waiting)

    def followers(self, partition: Partition) -> dict[int, Follower]:
        """Return the nodes that have read a partition here just now."""
        now_s = self._clock.monotonic_s()
        known = self._followers.get(partition, {})
        for broker in [broker for broker, one in known.items() if one.until_s < now_s]:
            del known[broker]
        if not known:
            self._followers.pop(partition, None)
        return known

    def readers_elsewhere(self, partition: Partition) -> int:
        """Return how many read a partition on other nodes, beyond one for each node."""
        return sum(max(one.readers - 1, 0) for one in self.followers(partition).values())

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
        if partition.awaits_disk(read.offset, read.bytes_max):
            partition.wait(waiting)
            return
        if not partition.readable(read.offset):
            waiting.has_waited = True
            partition.wait(waiting)
            return
        self._forget(waiting)
        if waiting.has_waited and partition in self.pushed:
            return  # the push brings it
        try:
            answer = answer_to(partition, read)
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


def answer_to(partition: Partition, read: Read) -> Answer:
    """Return what a partition has to say to a reader that need not wait."""
    start, end = partition.log.start_offset, partition.stable_offset
    if partition.nearest(read.offset) != read.offset:
        return Answer(read.number, Outcome.OUT_OF_RANGE, start, partition.log.end_offset)
    buffers = partition.read(read.offset, read.bytes_max, only_stable=True)
    until = max((one.next_offset for buffer in buffers[-1:] for _, one in walk(buffer)), default=0)
    found = partition.producers.transactions.aborted_between(read.offset, until)
    aborted = [Aborted(*one[:3]) for one in found]
    return Answer(read.number, Outcome.RECORDS, start, end, aborted, buffers)

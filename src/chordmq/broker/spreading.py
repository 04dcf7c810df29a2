"""New records of popular partitions, pushed along the ring to the nodes that have no copy of them.

Each node gets them once, n - 1 sends in all, instead of asking the leader each for itself. A push
only spares an answer: who misses one asks again soon, and is answered by the leader as ever.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from chordmq.broker.absent import AbsentPartition
from chordmq.broker.partition import Partition
from chordmq.broker.remote_reads import RemoteReads, answer_to
from chordmq.broker.topics import Topics
from chordmq.codecs.peer.reading import Read, read_answer, write_answer
from chordmq.errors import ChordMQError, DecodeError
from chordmq.metrics import Metric

INTERVAL_S = 1.0
FOLLOWERS_MIN = 2
"""Nodes that must read a popular partition from here; a single one is answered as quickly."""
PUSH_BYTES = 128 * 1024

_HEAD = struct.Struct(">B16siiq")
_MARK = 0xC1
"""Begins no other message that all nodes get."""


class Ring(Protocol):
    """Reaches every node."""

    watchers: list[Callable[[int, bytes], None]]

    def broadcast(self, payload: bytes) -> None:
        """Have every other node get a payload, once; who is away misses it."""
        ...


class Spread:
    """Follows the end of one partition, and pushes what is new."""

    def __init__(self, partition: Partition, push: Callable[["Spread"], None]) -> None:
        self.partition = partition
        self.position = partition.stable_offset
        self._push = push
        self._is_scheduled = False
        self.is_closed = False
        partition.wait(self)

    def wake(self) -> None:
        """Push at the end of this turn of the loop."""
        if not self._is_scheduled and not self.is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._is_scheduled = False
        if self.is_closed or self.partition.is_closed:
            return
        if self.partition.readable(self.position):
            self._push(self)
        if self.partition.readable(self.position):
            self.wake()
        else:
            self.partition.wait(self)

    def close(self) -> None:
        """Push no more."""
        self.is_closed = True
        self.partition.forget(self)


class Spreading:
    """Pushes what this node leads and many read, and takes what others push."""

    def __init__(self, ring: Ring, topics: Topics, reads: RemoteReads) -> None:
        self._ring = ring
        self._topics = topics
        self._reads = reads
        self._spreads: dict[Partition, Spread] = {}
        self.pushed = 0
        """Pushes begun here."""
        self.taken = 0
        """Pushes of others that readers here wanted."""
        ring.watchers.append(self.hear)

    async def run(self, popular: Callable[[], Iterable[Partition]]) -> None:
        """Push what is popular, and repeat questions that may have got lost, until cancelled."""
        try:
            while True:
                self.look(popular())
                self._reads.repeat_overdue()
                await asyncio.sleep(INTERVAL_S)
        finally:
            self.look(())

    def look(self, popular: Iterable[Partition]) -> None:
        """Begin to push what is popular and read by several nodes, and end to push the rest."""
        wanted = {one for one in popular if len(self._reads.followers(one)) >= FOLLOWERS_MIN}
        for partition in [one for one in self._spreads if one not in wanted]:
            self._spreads.pop(partition).close()
        for partition in wanted - self._spreads.keys():
            self._spreads[partition] = Spread(partition, self._push)
        self._reads.pushed = self._spreads.keys()

    def hear(self, origin: int, payload: bytes) -> None:
        """Take what another node pushes, if somebody here reads it."""
        if len(payload) < _HEAD.size or payload[0] != _MARK:
            return
        _, topic_id, index, epoch, start = _HEAD.unpack_from(payload)
        partition = self._topics.partition(topic_id, index)
        if not isinstance(partition, AbsentPartition) or partition.leader_epoch != epoch:
            return
        try:
            answer = read_answer(memoryview(payload)[_HEAD.size :])
        except DecodeError:
            return
        if partition.on_push(start, answer):
            self.taken += 1

    def _push(self, spread: Spread) -> None:
        partition = spread.partition
        if not partition.is_leader or partition.replica is None:
            return
        start = spread.position
        read = Read(0, *partition.replica.place, start, PUSH_BYTES, 0)
        try:
            answer = answer_to(partition, read)
        except ChordMQError:
            spread.position = partition.stable_offset  # readers ask for it, and are told why
            return
        head = _HEAD.pack(_MARK, *partition.replica.place, partition.leader_epoch, start)
        spread.position = answer.next_offset
        if answer.records:
            self._ring.broadcast(b"".join([head, *write_answer(answer)]))
            self.pushed += 1
            # As if every node had been answered: else it would soon seem popular no more.
            copies = len(self._reads.followers(partition)) - 1
            partition.bytes_out += max(copies, 0) * sum(map(len, answer.records))

    def measures(self) -> Iterator[Metric]:
        """Yield how many pushes have gone out, and how many have come in for readers here."""
        yield Metric(
            "chordmq_pushes_sent", "Pushes of new records along the ring.", "counter",
            [({}, self.pushed)],
        )  # fmt: skip
        yield Metric(
            "chordmq_pushes_taken", "Pushes of other nodes that readers here wanted.", "counter",
            [({}, self.taken)],
        )  # fmt: skip

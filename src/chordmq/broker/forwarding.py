"""Appends for partitions that other nodes lead: clients of most fronts may ask any node."""

import asyncio
import struct
from typing import Protocol

from chordmq import errors
from chordmq.broker.partition import Partition
from chordmq.broker.topics import Topics
from chordmq.cluster.link import Caller, Handler, LinkDown, PeerRefused
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import ChordMQError, DecodeError, NotCommittedInTime, NotLeader, UnknownTopicId

TIMEOUT_S = 10.0
ELECTION_WAIT_S = 5.0
LOOK_INTERVAL_S = 0.05
ATTEMPTS = 40

_HEAD = struct.Struct(">16si")
_OFFSET = struct.Struct(">q")


class Nodes(Protocol):
    """The links to the other nodes."""

    def answer(self, kind: int, handler: Handler) -> None:
        """Have requests of this kind answered by a handler."""
        ...

    async def ask(
        self, broker: int, kind: int, body: Body = (), timeout_s: float = TIMEOUT_S
    ) -> memoryview:
        """Return a node's answer; raise PeerRefused, or LinkDown when none has come."""
        ...


class Forwarding:
    """Hands batches to the leaders of their partitions, and says when they are committed.

    A batch whose leader goes away meanwhile may or may not be in the log; the client that is told
    so sends it again if it wants it at least once.
    """

    def __init__(self, nodes: Nodes, topics: Topics) -> None:
        self._nodes = nodes
        self._topics = topics
        self._under_way: set[asyncio.Task[int]] = set()
        nodes.answer(Kind.APPEND, self._serve)

    def append(self, partition: Partition, batch: memoryview) -> asyncio.Future[int]:
        """Return a future for the first offset of a batch, done when it is committed.

        It goes to whoever leads at this moment: of several batches, each goes where those before it
        went until this node hears of another leader.
        """
        loop = asyncio.get_running_loop()
        assert partition.replica is not None
        leader, _ = partition.replica.leader_hint
        if partition.is_leader:
            try:
                work = _when_committed(*_written(partition, batch))
            except Exception as error:  # noqa: BLE001 - a task keeps any error, too
                refused: asyncio.Future[int] = loop.create_future()
                refused.set_exception(error)
                return refused
        elif leader == NO_LEADER:
            work = self._append(partition, batch, ATTEMPTS)
        else:
            work = self._ask(leader, partition, batch, ATTEMPTS)
        task = loop.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _append(self, partition: Partition, batch: memoryview, attempts: int) -> int:
        await self._elected(partition)
        if partition.is_leader:  # it has become this node meanwhile
            return await append_here(partition, batch)
        assert partition.replica is not None
        leader, _ = partition.replica.leader_hint
        return await self._ask(leader, partition, batch, attempts)

    async def _ask(
        self, leader: int, partition: Partition, batch: memoryview, attempts: int
    ) -> int:
        head = _HEAD.pack(self._topics.get(partition.topic).id, partition.index)
        try:
            answer = await self._nodes.ask(leader, Kind.APPEND, [head, batch], TIMEOUT_S)
        except PeerRefused as refusal:
            if refusal.name == UnknownTopicId.__name__ and attempts:  # it has not heard of it yet
                await asyncio.sleep(LOOK_INTERVAL_S)
                return await self._append(partition, batch, attempts - 1)
            raise error_of(refusal) from None
        except LinkDown as fault:
            raise NotCommittedInTime(f"node {leader} does not answer: {fault}") from None
        return int(_OFFSET.unpack(answer)[0])

    async def _elected(self, partition: Partition) -> None:
        """Wait until somebody leads the partition, but not for long."""
        assert partition.replica is not None
        for _ in range(int(ELECTION_WAIT_S / LOOK_INTERVAL_S)):
            if partition.replica.leader_hint[0] != NO_LEADER:
                return
            await asyncio.sleep(LOOK_INTERVAL_S)
        raise NotLeader(f"nobody leads {partition.topic}-{partition.index} now")

    async def _serve(self, _: Caller, body: memoryview) -> Body:
        if len(body) <= _HEAD.size:
            raise DecodeError("no batch to append")
        topic_id, index = _HEAD.unpack_from(body)
        partition = self._topics.partition(topic_id, index)
        if partition is None:
            raise UnknownTopicId("no such topic or partition")
        return [_OFFSET.pack(await append_here(partition, body[_HEAD.size :]))]


async def append_here(partition: Partition, batch: memoryview) -> int:
    """Append a batch as leader; return its first offset once it is committed."""
    return await _when_committed(*_written(partition, batch))


def _written(partition: Partition, batch: memoryview) -> tuple[int, asyncio.Future[None] | None]:
    """Append a batch, and begin to wait in the same epoch: what ends that must tell us."""
    appended = partition.append(batch)
    return appended.base_offset, partition.committed(appended.next_offset)


async def _when_committed(offset: int, committed: asyncio.Future[None] | None) -> int:
    if committed is not None:
        await committed
    return offset


def error_of(refusal: PeerRefused) -> ChordMQError:
    """Return another node's refusal as our own error of the same name."""
    kind = getattr(errors, refusal.name, None)
    is_ours = isinstance(kind, type) and issubclass(kind, ChordMQError)
    return kind(refusal.text) if is_ours and kind is not None else NotLeader(str(refusal))

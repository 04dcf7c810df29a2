"""What only the leaders of partitions know or may do, asked of them wherever they are."""

import asyncio
import struct

from chordmq.broker.forwarding import ELECTION_WAIT_S, LOOK_INTERVAL_S, Nodes
from chordmq.broker.partition import Partition
from chordmq.broker.topics import Topics
from chordmq.cluster.link import Caller, LinkDown, PeerRefused
from chordmq.cluster.state import NO_LEADER
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.errors import CoordinatorNotAvailable, DecodeError, NotLeader, UnknownTopicId

TIMEOUT_S = 5.0

_QUESTION = struct.Struct(">16siq")
_ANSWER = struct.Struct(">q")


class Leaders:
    """Asks whoever leads a partition; waits for the next leader if there is none."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._nodes: Nodes | None = None

    def join(self, nodes: Nodes) -> None:
        """Be part of a cluster."""
        self._nodes = nodes
        nodes.answer(Kind.SEQUENCE, self._serve_sequence)
        nodes.answer(Kind.TRIM, self._serve_trim)

    async def last_sequence(self, partition: Partition, producer_id: int) -> int:
        """Return a producer's last number that is sure to be in the log; -1 if there is none."""
        if partition.replica is None or partition.is_leader:
            return await _last_sequence(partition, producer_id)
        return await self._ask(partition, Kind.SEQUENCE, producer_id)

    async def delete_records(self, partition: Partition, before: int) -> int:
        """Drop records before an offset; return the new first offset."""
        if partition.replica is None or partition.is_leader:
            return await partition.delete_records(before)
        return await self._ask(partition, Kind.TRIM, before)

    async def _ask(self, partition: Partition, kind: Kind, number: int) -> int:
        topic_id = self._topics.get(partition.topic).id
        question = _QUESTION.pack(topic_id, partition.index, number)
        assert self._nodes is not None
        assert partition.replica is not None
        for _ in range(int(ELECTION_WAIT_S / LOOK_INTERVAL_S)):
            leader, _ = partition.replica.leader_hint
            if leader != NO_LEADER:
                try:
                    answer = await self._nodes.ask(leader, kind, [question], TIMEOUT_S)
                except (LinkDown, PeerRefused):
                    pass  # another node may lead soon
                else:
                    return int(_ANSWER.unpack(answer)[0])
            await asyncio.sleep(LOOK_INTERVAL_S)
        raise CoordinatorNotAvailable(f"nobody leads {partition.topic}-{partition.index} now")

    async def _serve_sequence(self, _: Caller, body: memoryview) -> Body:
        partition, producer_id = self._read(body)
        return [_ANSWER.pack(await _last_sequence(partition, producer_id))]

    async def _serve_trim(self, _: Caller, body: memoryview) -> Body:
        partition, before = self._read(body)
        return [_ANSWER.pack(await partition.delete_records(before))]

    def _read(self, body: memoryview) -> tuple[Partition, int]:
        try:
            topic_id, index, number = _QUESTION.unpack(body)
        except struct.error as error:
            raise DecodeError(f"no question to a leader: {error}") from None
        partition = self._topics.partition(topic_id, index)
        if partition is None:
            raise UnknownTopicId("no such topic or partition")
        return partition, number


async def _last_sequence(partition: Partition, producer_id: int) -> int:
    """Return the last number of what this leader has, when all of that is committed."""
    partition.check_current()
    producer = partition.producers.producers.get(producer_id)
    last = producer.last_sequence if producer is not None else -1
    committed = partition.committed(partition.log.end_offset)
    if committed is not None:
        try:
            await committed
        except asyncio.CancelledError:
            if not partition.is_closed:
                raise
            raise NotLeader(f"{partition.topic} was deleted") from None
    return last

"""How far a producer's sequence in a partition has come: known to whoever leads the partition."""

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
_ANSWER = struct.Struct(">i")


class Sequences:
    """Asks the leaders of partitions for the last sequence number of a producer."""

    def __init__(self, topics: Topics, nodes: Nodes | None = None) -> None:
        self._topics = topics
        self._nodes = nodes
        if nodes is not None:
            nodes.answer(Kind.SEQUENCE, self._serve)

    async def last(self, partition: Partition, producer_id: int) -> int:
        """Return the last number that is sure to be in the log; -1 if there is none."""
        if partition.replica is None or partition.is_leader:
            return await _last_here(partition, producer_id)
        topic_id = self._topics.get(partition.topic).id
        question = _QUESTION.pack(topic_id, partition.index, producer_id)
        for _ in range(int(ELECTION_WAIT_S / LOOK_INTERVAL_S)):
            leader, _ = partition.replica.leader_hint
            if leader != NO_LEADER:
                assert self._nodes is not None
                try:
                    answer = await self._nodes.ask(leader, Kind.SEQUENCE, [question], TIMEOUT_S)
                except (LinkDown, PeerRefused):
                    pass  # another node may lead soon
                else:
                    return int(_ANSWER.unpack(answer)[0])
            await asyncio.sleep(LOOK_INTERVAL_S)
        raise CoordinatorNotAvailable(f"nobody leads {partition.topic}-{partition.index} now")

    async def _serve(self, _: Caller, body: memoryview) -> Body:
        try:
            topic_id, index, producer_id = _QUESTION.unpack(body)
        except struct.error as error:
            raise DecodeError(f"no question about a sequence: {error}") from None
        partition = self._topics.partition(topic_id, index)
        if partition is None:
            raise UnknownTopicId("no such topic or partition")
        return [_ANSWER.pack(await _last_here(partition, producer_id))]


async def _last_here(partition: Partition, producer_id: int) -> int:
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

"""Transactions of a producer: everything it appends and commits is seen together, or never."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from chordmq.client.cluster import Cluster
from chordmq.client.codes import RETRIABLE, Code
from chordmq.client.connection import Address, Connection
from chordmq.client.errors import BrokerRefused, ClientError, check
from chordmq.client.offsets import TopicPartition, by_topic
from chordmq.client.opened import Opened
from chordmq.client.outbox import SEQUENCE_MASK, size_of
from chordmq.client.partitioner import partition_for_key
from chordmq.codecs.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from chordmq.codecs.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from chordmq.codecs.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from chordmq.codecs.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from chordmq.codecs.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from chordmq.codecs.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chordmq.codecs.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from chordmq.records.batch import TRANSACTIONAL
from chordmq.records.compression import Compression
from chordmq.records.record import NewRecord, build_batch

T = TypeVar("T")

BATCH_BYTES = 512 * 1024
TIMEOUT_MS = 60_000
PATIENCE_S = 60.0
TRANSACTION_KEY = 1
ACKS_ALL = -1


class Transaction(Opened):
    """One transaction at a time under one id: `async with Transaction(cluster, "id") as one`.

    Opening it fences every older producer of the same id and ends what it left open; leaving the
    block commits, or aborts if an error ended it.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        compression: Compression = Compression.NONE,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._compression = compression
        self._timeout_ms = timeout_ms
        self._producer_id = -1
        self._epoch = -1
        self._added: set[TopicPartition] = set()
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._turns: dict[str, int] = defaultdict(int)
        self._begun = False
        self._coordinator_id: int | None = None

    async def _open(self) -> None:
        """Take over the transactional id."""
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._timeout_ms
        )

        async def take_over() -> InitProducerIdResponse:
            answer = await (await self._coordinator()).call(request, InitProducerIdResponse)
            check(answer.error_code, f"transactional id {self._id}")
            return answer

        answer = await self._retrying(take_over)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def _close(self, error: BaseException | None) -> None:
        """Commit, or abort after an error."""
        if error is None:
            await self.end(committed=True)
        elif self._begun and isinstance(error, Exception):
            await self.end(committed=False)

    async def append(
        self, topic: str, records: Iterable[NewRecord], partition: int | None = None
    ) -> None:
        """Append records and wait until the log has them; nobody sees them before the commit."""
        count = len((await self._cluster.topic(topic, create=True)).partitions)
        placed: dict[TopicPartition, list[NewRecord]] = defaultdict(list)
        for record in records:
            index = partition if partition is not None else self._choose(topic, record, count)
            placed[topic, index].append(record)
        await self.append_to(placed)

    async def append_to(self, placed: Mapping[TopicPartition, Sequence[NewRecord]]) -> None:
        """Append to chosen partitions, to all of them at the same time."""
        await self._add([place for place in placed if place not in self._added])
        await asyncio.gather(*(self._deliver(place, rows) for place, rows in placed.items()))

    async def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Commit offsets of a group with the transaction."""
        add = AddOffsetsToTxnRequest(self._id, self._producer_id, self._epoch, group)

        async def announce() -> None:
            answer = await (await self._coordinator()).call(add, AddOffsetsToTxnResponse)
            check(answer.error_code, f"group {group} in transaction {self._id}")

        self._begun = True
        await self._retrying(announce)
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offsets[topic, index],
                            committed_metadata=metadata,
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )

        async def commit() -> None:
            connection = await self._cluster.coordinator(group)
            answer = await connection.call(request, TxnOffsetCommitResponse)
            for topic in answer.topics:
                for row in topic.partitions:
                    check(row.error_code, f"offset of {topic.name} for group {group}")

        await self._retrying(commit)

    async def end(self, *, committed: bool) -> None:
        """Make everything visible, or nothing; another transaction can begin after."""
        if not self._begun:
            return
        request = EndTxnRequest(self._id, self._producer_id, self._epoch, committed)

        async def finish() -> None:
            answer = await (await self._coordinator()).call(request, EndTxnResponse)
            check(answer.error_code, f"end of transaction {self._id}")

        await self._retrying(finish)
        self._added.clear()
        self._begun = False

    async def _add(self, places: Sequence[TopicPartition]) -> None:
        if not places:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name, indexes) for name, indexes in by_topic(places).items()
            ],
        )

        async def add() -> None:
            answer = await (await self._coordinator()).call(request, AddPartitionsToTxnResponse)
            for topic in answer.results_by_topic_v3_and_below:
                for row in topic.results_by_partition:
                    check(row.partition_error_code, f"{topic.name} in transaction {self._id}")

        self._begun = True
        await self._retrying(add)
        self._added.update(places)

    async def _deliver(self, place: TopicPartition, records: Sequence[NewRecord]) -> None:
        """Send one partition's records in batches, each after the one before is stored."""
        for rows in _batches(records):
            data = build_batch(
                rows,
                compression=self._compression,
                flags=TRANSACTIONAL,
                producer_id=self._producer_id,
                epoch=self._epoch,
                sequence=self._sequences[place],
            )
            await self._produce(place, memoryview(data))
            self._sequences[place] = (self._sequences[place] + len(rows)) & SEQUENCE_MASK

    async def _produce(self, place: TopicPartition, data: memoryview) -> None:
        topic, partition = place
        request = ProduceRequest(
            transactional_id=self._id,
            acks=ACKS_ALL,
            timeout_ms=int(self._cluster.settings.request_timeout_s * 1000),
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, data)])
            ],
        )

        async def produce() -> None:
            leader = await self._cluster.leader(topic, partition)
            connection = await self._cluster.node(leader, "produce")
            answer = await connection.call(request, ProduceResponse)
            row = answer.responses[0].partition_responses[0]
            if row.error_code not in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
                self._cluster.forget(topic)
                raise BrokerRefused(
                    row.error_code, f"{topic} partition {partition}", row.error_message
                )

        await self._retrying(produce)

    def _choose(self, topic: str, record: NewRecord, partitions: int) -> int:
        if record.key is not None:
            return partition_for_key(record.key, partitions)
        self._turns[topic] += 1
        return self._turns[topic] % partitions

    async def _coordinator(self) -> Connection:
        if self._coordinator_id is not None:
            return await self._cluster.node(self._coordinator_id, "transaction")
        connection = await self._cluster.any_node()
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[self._id])
        answer = await connection.call(request, FindCoordinatorResponse)
        row = answer.coordinators[0]
        check(row.error_code, f"coordinator of transaction {self._id}", row.error_message)
        self._cluster.nodes[row.node_id] = Address(row.host, row.port)
        self._coordinator_id = row.node_id
        return await self._cluster.node(row.node_id, "transaction")

    async def _retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        async def guarded() -> T:
            try:
                return await attempt()
            except ClientError:
                self._coordinator_id = None  # it may have moved
                raise

        return await self._cluster.retrying(guarded, RETRIABLE, PATIENCE_S)


def _batches(records: Sequence[NewRecord]) -> Iterable[list[NewRecord]]:
    rows: list[NewRecord] = []
    size = 0
    for record in records:
        rows.append(record)
        size += size_of(record)
        if size >= BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows

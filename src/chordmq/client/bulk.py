"""Reads large parts of logs as batches, by blocking calls: for Spark and for the archive."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from chordmq.client.cluster import Cluster
from chordmq.client.codes import RETRIABLE, Code
from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import BrokerRefused, ClientError, check
from chordmq.client.fetcher import Visible, visible_batches
from chordmq.client.offsets import EARLIEST_TIME, TopicPartition, commit_offsets, offsets_for
from chordmq.codecs.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from chordmq.codecs.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from chordmq.codecs.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from chordmq.codecs.kafka.messages.metadata import MetadataResponseTopic
from chordmq.dataclass import dataclass
from chordmq.records.batch import BatchHeader, read_header

T = TypeVar("T")

FETCH_BYTES, FETCH_BYTES_MIN = 8 * 1024 * 1024, 64 * 1024
RECORD_BYTES_GUESSED = 1024

PATIENCE_S = 60.0
"""How long a broker may be away, or a leader unknown, before a task fails and Spark retries it."""
FETCH_WAIT_MS = 500
EMPTY_ANSWERS_MAX = 20
DELETE_TIMEOUT_MS = 30_000

_RETRIABLE = RETRIABLE - {Code.UNKNOWN_TOPIC_OR_PARTITION}


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A part of one partition: start <= offset < stop."""

    topic: str
    partition: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Return how many offsets it spans; there may be fewer records."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkSettings:
    """Which broker is read, by whom and how."""

    bootstrap: str
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    read_committed: bool = True
    fail_on_data_loss: bool = True
    open_patience_s: float = PATIENCE_S
    """People who wait for an answer want to know at once that nobody is there."""


class DataLost(Exception):
    """Records that the query has still to read are no longer in the log."""


class Fetched(NamedTuple):
    """One answer of a broker: its bytes, and which batches of it to read."""

    data: memoryview
    visible: Visible


class Bulk:
    """One client of the broker; use it in a `with` block, from one thread."""

    def __init__(self, settings: BulkSettings) -> None:
        self._settings = settings
        self._runner = asyncio.Runner()
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        """Reach a broker, or raise CannotConnect."""
        cluster = Cluster(self._settings.bootstrap, self._settings.connection)
        reach = partial(cluster.refresh, [])
        try:
            self._runner.run(cluster.retrying(reach, _RETRIABLE, self._settings.open_patience_s))
        except BaseException:
            cluster.close()
            self._runner.close()
            raise
        self._cluster = cluster
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something of the asyncio client to its end."""
        return self._runner.run(work)

    @property
    def cluster(self) -> Cluster:
        """Return the client's view of the brokers."""
        assert self._cluster is not None, "used outside of its block"
        return self._cluster

    def places_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return the partitions of topics as they are now; raise BrokerRefused if one is not."""
        rows = self._topics(topics)
        for row in rows:
            check(row.error_code, f"topic {row.name}")
        return _places(rows)

    def places_like(self, pattern: str) -> list[TopicPartition]:
        """Return the partitions of all topics whose names match, but not of internal ones."""
        known = [row for row in self._topics(None) if not (row.is_internal or row.error_code)]
        return _places(row for row in known if re.fullmatch(pattern, row.name or ""))

    def _topics(self, names: Iterable[str] | None) -> list[MetadataResponseTopic]:
        return self.run(self._retrying(lambda: self.cluster.refresh(names))).topics

    def offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset at or after each time; -1 is the end and -2 the beginning."""
        committed = self._settings.read_committed
        return self.run(offsets_for(self.cluster, times, committed=committed)) if times else {}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the broker how far a query is, for those who look at its lag."""

        async def commit() -> None:
            connection = await self.cluster.coordinator(group)
            await commit_offsets(connection, group, offsets)

        self.run(self._retrying(commit))

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Delete the records before some offsets, for good."""
        for (topic, partition), offset in offsets.items():
            self.run(self._retrying(partial(self._delete, topic, partition, offset)))

    async def _delete(self, topic: str, partition: int, offset: int) -> None:
        parts = [DeleteRecordsPartition(partition, offset)]
        request = DeleteRecordsRequest([DeleteRecordsTopic(topic, parts)], DELETE_TIMEOUT_MS)
        connection = await self.cluster.node(await self.cluster.leader(topic, partition))
        answer = await connection.call(request, DeleteRecordsResponse)
        check(answer.topics[0].partitions[0].error_code, f"{topic} partition {partition}")

    def logs_of(self, topic: str, partition: int) -> str:
        """Return the directory where the leader of a partition keeps its logs."""

        async def ask() -> DescribeLogDirsResponse:
            leader = await self.cluster.node(await self.cluster.leader(topic, partition))
            asked = [DescribableLogDirTopic(topic, [partition])]
            return await leader.call(DescribeLogDirsRequest(asked), DescribeLogDirsResponse)

        answer = self.run(ask())
        check(answer.error_code, "log directories")
        return next((row.log_dir for row in answer.results if row.topics), "")

    def batch_at(self, topic: str, partition: int, offset: int) -> bytes:
        """Return the batch with an offset, be it a marker's; nothing if there is none to read."""
        part = OffsetRange(topic, partition, offset, offset + 1)

        async def ask() -> PartitionData:
            return await self._answer(await self._ask(part, offset, room=1, wait_ms=0))

        data = bytes(self.run(ask()).records or b"")
        if not data:
            return b""
        header = read_header(data)
        return data[: header.size] if header.base_offset <= offset < header.next_offset else b""

    def fetch(self, part: OffsetRange) -> Iterator[Fetched]:
        """Yield answers that cover a range; the next one is under way while one is looked at."""
        offset, empty = part.start, 0
        room = _room(RECORD_BYTES_GUESSED, part.size)
        ahead = self.run(self._ask(part, offset, room))
        while offset < part.stop:
            try:
                row = self.run(self._answer(ahead))
            except BrokerRefused as error:
                if error.code == Code.OFFSET_OUT_OF_RANGE:
                    offset = self._skip(part, offset)
                elif error.code not in _RETRIABLE:
                    raise
                ahead = self._again(part, offset)
                continue
            except ClientError as error:
                if not error.retriable:
                    raise
                ahead = self._again(part, offset)
                continue
            data = memoryview(row.records or b"")
            found = visible_batches(data, row.aborted_transactions or [])
            empty = 0 if len(data) else empty + 1
            if empty > EMPTY_ANSWERS_MAX:
                offset = self._lost(part, offset, part.stop)
            passed = found.next_offset - offset
            offset = max(offset, found.next_offset)
            if offset < part.stop:
                room = _room(len(data) / passed, part.stop - offset) if passed > 0 else room
                ahead = self.run(self._ask(part, offset, room))
            if wanted := overlapping(found, part):
                yield Fetched(data, found._replace(batches=wanted))

    def _again(self, part: OffsetRange, offset: int) -> "asyncio.Future[FetchResponse]":
        """Ask anew, the leader that there is now."""

        async def ask() -> "asyncio.Future[FetchResponse]":
            self.cluster.forget(part.topic)
            return await self._ask(part, offset)

        return self.run(self._retrying(ask))

    def _skip(self, part: OffsetRange, offset: int) -> int:
        """Return the first offset that is left of a range."""
        place = (part.topic, part.partition)
        first = self.offsets({place: EARLIEST_TIME})[place]
        if first <= offset:  # beyond the end: the log was cut or made anew
            return self._lost(part, offset, part.stop)
        return self._lost(part, offset, min(first, part.stop))

    def _lost(self, part: OffsetRange, offset: int, following: int) -> int:
        if self._settings.fail_on_data_loss:
            raise DataLost(
                f"{part.topic} partition {part.partition}: offsets {offset} to {following - 1} "
                "are no longer in the log (retention, or the topic was made anew); "
                "set failOnDataLoss=false to go on without them"
            )
        return following

    async def _ask(
        self,
        part: OffsetRange,
        offset: int,
        room: int = FETCH_BYTES,
        wait_ms: int = FETCH_WAIT_MS,
    ) -> "asyncio.Future[FetchResponse]":
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=room,
            isolation_level=int(self._settings.read_committed),
            topics=[
                FetchTopic(
                    topic=part.topic,
                    partitions=[
                        FetchPartition(
                            partition=part.partition,
                            fetch_offset=offset,
                            partition_max_bytes=room,
                        )
                    ],
                )
            ],
        )

        async def ask() -> "asyncio.Future[FetchResponse]":
            leader = await self.cluster.leader(part.topic, part.partition)
            connection = await self.cluster.node(leader, "fetch")
            return connection.send(request, FetchResponse)

        return await self._retrying(ask)

    async def _answer(self, asked: "asyncio.Future[FetchResponse]") -> PartitionData:
        answer = await asked
        check(answer.error_code, "fetch")
        (topic,) = answer.responses
        (row,) = topic.partitions
        check(row.error_code, f"{topic.topic} partition {row.partition_index}")
        return row

    async def _retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self.cluster.retrying(attempt, _RETRIABLE, PATIENCE_S)


def _room(bytes_per_offset: float, offsets: int) -> int:
    """Return how much to ask for: what the rest of a range will take, within limits."""
    return max(FETCH_BYTES_MIN, min(FETCH_BYTES, int(bytes_per_offset * offsets)))


def overlapping(found: Visible, part: OffsetRange) -> list[tuple[int, BatchHeader]]:
    """Return the batches that have offsets of a range."""
    return [
        (position, header)
        for position, header in found.batches
        if header.base_offset < part.stop and header.next_offset > part.start
    ]


def _places(rows: Iterable[MetadataResponseTopic]) -> list[TopicPartition]:
    return sorted((row.name or "", part.partition_index) for row in rows for part in row.partitions)

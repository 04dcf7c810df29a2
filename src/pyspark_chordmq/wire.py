"""A blocking face of the asyncio client, for Spark's driver and for its Python workers."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from chordmq.client.cluster import Cluster
from chordmq.client.codes import RETRIABLE, Code
from chordmq.client.errors import BrokerRefused, ClientError, check
from chordmq.client.fetcher import Visible, visible_batches
from chordmq.client.offsets import EARLIEST_TIME, commit_offsets, offsets_for
from chordmq.codecs.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pyspark_chordmq.options import FETCH_BYTES, Options
from pyspark_chordmq.ranges import OffsetRange, Offsets, Place

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long a broker may be away, or a leader unknown, before a task fails and Spark retries it."""
FETCH_WAIT_MS = 500
EMPTY_ANSWERS_MAX = 20

_RETRIABLE = RETRIABLE - {Code.UNKNOWN_TOPIC_OR_PARTITION}


class DataLost(Exception):
    """Records that the query has still to read are no longer in the log."""


class Fetched(NamedTuple):
    """One answer of a broker: its bytes, and which batches of it to read."""

    data: memoryview
    visible: Visible


class Wire:
    """One client of the broker; use it in a `with` block, from one thread."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        """Reach a broker, or raise CannotConnect."""
        cluster = Cluster(self._options.bootstrap, self._options.connection)
        try:
            self._runner.run(cluster.retrying(cluster.open, _RETRIABLE, PATIENCE_S))
        except BaseException:
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

    def places(self) -> list[Place]:
        """Return the partitions that the options name, as they are now."""
        if self._options.assigned:
            return [(t, i) for t, indexes in self._options.assigned.items() for i in indexes]
        return self.run(self._places())

    async def _places(self) -> list[Place]:
        options = self._options
        answer = await self._retrying(lambda: self.cluster.refresh(options.topics or None))
        found = []
        for row in answer.topics:
            assert row.name is not None
            if options.topics:
                check(row.error_code, f"topic {row.name}")
            elif row.is_internal or row.error_code or not re.fullmatch(options.pattern, row.name):
                continue
            found += [(row.name, part.partition_index) for part in row.partitions]
        return sorted(found)

    def offsets(self, times: Mapping[Place, int]) -> Offsets:
        """Return the first offset at or after each time; -1 is the end and -2 the beginning."""
        committed = self._options.read_committed
        return self.run(offsets_for(self.cluster, times, committed=committed)) if times else {}

    def commit(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Tell the broker how far a query is, for those who look at its lag."""

        async def commit() -> None:
            connection = await self.cluster.coordinator(group)
            await commit_offsets(connection, group, offsets)

        self.run(self._retrying(commit))

    def fetch(self, part: OffsetRange) -> Iterator[Fetched]:
        """Yield answers that cover a range; the next one is under way while one is looked at."""
        offset, empty = part.start, 0
        ahead = self.run(self._ask(part, offset))
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
            offset = max(offset, found.next_offset)
            if offset < part.stop:
                ahead = self.run(self._ask(part, offset))
            if found.batches:
                yield Fetched(data, found)

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
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{part.topic} partition {part.partition}: offsets {offset} to {following - 1} "
                "are no longer in the log (retention, or the topic was made anew); "
                "set failOnDataLoss=false to go on without them"
            )
        return following

    async def _ask(self, part: OffsetRange, offset: int) -> "asyncio.Future[FetchResponse]":
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self._options.read_committed),
            topics=[
                FetchTopic(
                    topic=part.topic,
                    partitions=[
                        FetchPartition(
                            partition=part.partition,
                            fetch_offset=offset,
                            partition_max_bytes=FETCH_BYTES,
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


def times_of(places: Iterable[Place], time_ms: int) -> dict[Place, int]:
    """Return the same time for every partition."""
    return dict.fromkeys(places, time_ms)

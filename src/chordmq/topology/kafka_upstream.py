"""Where pipes come from: a cluster of Apache Kafka, or whatever speaks its protocol."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from chordmq.client.admin import Admin
from chordmq.client.codes import Code
from chordmq.client.connection import ConnectionSettings
from chordmq.client.errors import BrokerRefused, ClientError, check
from chordmq.client.fetcher import visible_batches
from chordmq.client.offsets import EARLIEST_TIME, offsets_for
from chordmq.client.security import Security
from chordmq.codecs.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from chordmq.records.origin import origin_id
from chordmq.topology.calling import Refused, Source
from chordmq.topology.http import Unreachable
from chordmq.topology.settings import PipesSettings
from chordmq.topology.upstream import Batches, Offered, Place

SCHEME = "kafka://"
READ_COMMITTED = 1
REQUEST_SPARE_S = 10.0
COPIED_SETTINGS = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "max.message.bytes",
        "message.timestamp.type",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
    }
)

T = TypeVar("T")


class KafkaUpstream:
    """A cluster that knows nothing of copies: all in it counts as first written there."""

    def __init__(self, source: Source, settings: PipesSettings, security: Security) -> None:
        self.source = source
        self._settings = settings
        timeout_s = settings.wait_ms / 1000 + REQUEST_SPARE_S
        connection = ConnectionSettings(
            client_id="chordmq-pipe", request_timeout_s=timeout_s, security=security
        )
        self._admin = Admin(source.url.replace(SCHEME, ""), connection)
        self._origins: dict[str, int] = {}

    async def cluster_id(self) -> str:
        """Return which cluster it is."""
        await self._called(lambda: self._admin.cluster.refresh([]))
        return self._admin.cluster.cluster_id or self.source.url

    async def topics(self) -> list[Offered]:
        """Return the topics that can be copied."""
        cluster = await self.cluster_id()
        found = [
            Offered(one.name, len(one.partitions), origin_id(cluster, one.topic_id.hex()))
            for one in await self._called(self._admin.topics)
            if not one.internal
        ]
        self._origins = {one.name: one.origin for one in found}
        return found

    async def settings(self, topic: str) -> dict[str, str]:
        """Return what is set for a topic, of what means the same here."""
        rows = await self._called(lambda: self._admin.settings(topic))
        return {
            row.name: row.value
            for row in rows
            if row.source == "topic" and row.name in COPIED_SETTINGS and row.value is not None
        }

    async def place(self, topic: str, index: int, origin: int, known: Mapping[int, int]) -> int:
        """Return where to go on: after what is known, or where the partition begins."""
        place = (topic, index)
        times = {place: EARLIEST_TIME}
        found = await self._called(lambda: offsets_for(self._admin.cluster, times))
        return max(known.get(origin, 0), found[place])

    async def batches(self, topic: str, index: int, offset: int) -> Batches:
        """Return what lies from an offset on, as soon as there is something."""
        size = self._settings.batch_bytes
        part = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=self._settings.wait_ms,
            min_bytes=1,
            max_bytes=size,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=topic, partitions=[part])],
        )

        async def fetch() -> FetchResponse:
            leader = await self._admin.cluster.leader(topic, index)
            connection = await self._admin.cluster.node(leader, "fetch")
            answer = await connection.call(request, FetchResponse)
            check(answer.error_code, "fetch")
            check(answer.responses[0].partitions[0].error_code, f"{topic} partition {index}")
            return answer

        try:
            answer = await self._called(fetch)
        except Refused:
            self._admin.cluster.forget(topic)  # another may lead it now
            raise
        row = answer.responses[0].partitions[0]
        data = memoryview(row.records or b"")
        found = visible_batches(data, row.aborted_transactions or [])
        body = bytearray()
        for position, header in found.batches:
            body += data[position : position + header.size]
        return Batches(body, max(offset, found.next_offset), row.last_stable_offset)

    async def groups(self) -> list[str]:
        """Return the consumer groups."""
        return [one.group for one in await self._called(self._admin.groups)]

    async def committed(self, group: str) -> dict[Place, int]:
        """Return how far a group is."""
        return await self._called(lambda: self._admin.committed(group))

    async def members(self, group: str) -> int:
        """Return how many consumers a group has."""
        return len((await self._called(lambda: self._admin.describe_group(group))).members)

    async def known_at(self, topic: str, index: int, offset: int) -> dict[int, int]:
        """Return how far the one origin is: all in the topic was first written there."""
        if topic not in self._origins:
            await self.topics()
        return {self._origins[topic]: offset} if topic in self._origins else {}

    def close(self) -> None:
        """Hang up."""
        self._admin.cluster.close()

    async def _called(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except BrokerRefused as error:
            if error.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise Refused(f"the topic is gone: {error}") from None
            raise Refused(str(error)) from None
        except (TimeoutError, ClientError, OSError) as error:
            raise Unreachable(f"{self.source.url}: {error}") from None

"""Writes what a source tells and how far it is in one transaction: both are seen, or none."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from chordmq.cdc import positions
from chordmq.cdc.change import Position
from chordmq.cdc.rendering import Rendered
from chordmq.cdc.settings import Source
from chordmq.client.admin import Admin
from chordmq.client.codes import Code
from chordmq.client.errors import BrokerRefused
from chordmq.client.partitioner import partition_for_key
from chordmq.client.transaction import Transaction
from chordmq.clock import Clock
from chordmq.records.record import NewRecord

TRANSACTION_TIMEOUT_MS = 120_000


def transactional_id(source: Source) -> str:
    """Return the id under which only one process writes: a newer one shuts the older out."""
    return f"cdc-{source.name}"


class Writer:
    """Writes the steps of one source, one after the other."""

    def __init__(self, source: Source, admin: Admin, transaction: Transaction, clock: Clock):
        self._source = source
        self._admin = admin
        self._transaction = transaction
        self._clock = clock
        self._partitions: dict[str, int] = {}

    async def prepare(self) -> Position | None:
        """Make the topic of positions if it is missing, and return where the source goes on."""
        await self._create(self._source.positions, 1, positions.TOPIC_SETTINGS)
        return await positions.load(self._admin.cluster, self._source.positions)

    async def write(self, rendered: Iterable[Rendered], position: Position) -> None:
        """Write records and the position after them; return when everybody sees them."""
        chosen: dict[tuple[str, int], list[NewRecord]] = defaultdict(list)
        for topic, records in (pair for one in rendered for pair in one.by_topic.items()):
            count = self._partitions.get(topic) or await self._count(topic)
            if count == 1:
                chosen[topic, 0] += records
                continue
            for record in records:
                # Rows without a key stay in one partition, so that their order is kept.
                index = 0 if record.key is None else partition_for_key(record.key, count)
                chosen[topic, index].append(record)
        where = (self._source.positions, positions.PARTITION)
        chosen[where] = [positions.record_of(self._source.name, position, self._clock.now_ms())]
        await self._transaction.append_to(chosen)
        await self._transaction.end(committed=True)

    async def _count(self, topic: str) -> int:
        settings = self._source.topics
        size = {"max.message.bytes": str(settings.message_bytes_max)}
        await self._create(topic, settings.partitions, size | dict(settings.settings))
        info = await self._admin.cluster.topic(topic)
        self._partitions[topic] = len(info.partitions)
        return len(info.partitions)

    async def _create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        try:
            await self._admin.create_topic(
                topic, partitions, self._source.topics.replication_factor, settings
            )
        except BrokerRefused as error:
            if error.code != Code.TOPIC_ALREADY_EXISTS:
                raise

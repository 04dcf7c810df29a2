"""The topics of a node: names, partitions and settings, created, changed and deleted durably."""

import asyncio
import re
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import structlog

from chordmq.broker.endurance import to_the_end
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings, TopicSettings
from chordmq.errors import (
    InvalidPartitionCount,
    InvalidReplicationFactor,
    InvalidSetting,
    InvalidTopicName,
    PolicyViolation,
    StorageFailed,
    TopicDeletionDisabled,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from chordmq.storage.directories import (
    partition_directory,
    remove_set_aside,
    set_aside,
    set_aside_strays,
)
from chordmq.storage.metadata.topics import TopicRow, TopicTable

log = structlog.get_logger(__name__)

NAME_LENGTH_MAX = 249
PARTITIONS_PER_TOPIC_MAX = 10_000
PARTITIONS_OPENED_AT_ONCE = 4
DISK_THREADS = 8
"""How many partitions are recovered or saved at once, so that they share the disk's syncs."""
USE_DEFAULT = -1
INTERNAL_TOPICS = frozenset(
    {
        "__audit",
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
    }
)

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(slots=True, eq=False)
class Topic:
    """A topic that exists; partitions are only ever added."""

    name: str
    id: bytes
    settings: TopicSettings
    """What is in force: the node's defaults under the topic's own settings."""
    overrides: dict[str, str]
    """The topic's own settings, as given."""
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Return whether the broker made the topic for its own use."""
        return self.name in INTERNAL_TOPICS


OpenPartition = Callable[[Topic, int], Partition]
Alteration = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Makes new settings of the old ones, so that nobody can change them in between."""
Result = TypeVar("Result")


class Topics:
    """Every topic of the node; the database row decides which exist, so changes go there first.

    Changes take turns; looking up never waits.
    """

    def __init__(
        self,
        directory: Path,
        table: TopicTable,
        settings: BrokerSettings,
        open_partition: OpenPartition,
    ) -> None:
        self.directory = directory
        self.settings = settings
        self._table = table
        self._open_partition = open_partition
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_folded_name: dict[str, str] = {}
        self._changes = asyncio.Lock()
        self._removals: asyncio.Queue[TopicRow] = asyncio.Queue()
        self.on_deleted: Callable[[str], None] | None = None
        """Told the name of each topic that is no more."""
        self.version = 0
        """Counts the changes to which topics there are and how many partitions they have."""
        self.watchers: list[Callable[[], None]] = []
        """Told of each such change."""
        self._load()

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Topic | None:
        """Return the topic, or None."""
        return self._by_name.get(name)

    def get(self, name: str) -> Topic:
        """Return the topic, or raise UnknownTopic."""
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopic(f"no topic {name}")
        return topic

    def by_id(self, topic_id: bytes) -> Topic:
        """Return the topic, or raise UnknownTopicId."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"no topic has the id {uuid.UUID(bytes=topic_id)}")
        return topic

    def check_new(
        self, name: str, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> TopicRow:
        """Return the topic that `create` would make with these arguments, or raise why not."""
        check_name(name)
        if name in self._by_name:
            raise TopicExists(f"Topic '{name}' already exists.")
        other = self._by_folded_name.get(_folded(name))
        if other is not None:
            raise InvalidTopicName(f"Topic '{name}' collides with existing topic: {other}")
        if partitions == USE_DEFAULT:
            partitions = self.settings.num_partitions
        self._check_partitions(partitions, partitions)
        if replication_factor == USE_DEFAULT:
            replication_factor = self.settings.default_replication_factor
        if replication_factor < 1:
            raise InvalidReplicationFactor("Replication factor must be larger than 0.")
        if replication_factor > 1:
            raise InvalidReplicationFactor(
                f"{replication_factor} replicas were asked for; the cluster has 1 node."
            )
        self.settings.topic_defaults().with_texts(settings)
        return TopicRow(_new_id(), name, partitions, dict(settings))

    async def create(
        self,
        name: str,
        partitions: int = USE_DEFAULT,
        replication_factor: int = USE_DEFAULT,
        settings: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic and return it once it would survive a crash."""
        return await self._change(
            self._create(name, partitions, replication_factor, settings or {})
        )

    async def _create(
        self, name: str, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> Topic:
        row = self.check_new(name, partitions, replication_factor, settings)
        await self._table.insert(row)
        topic = self._topic(row)
        try:
            self._check_free(row)
            await self._open(topic, row.partitions)
        except BaseException:
            await self._drop(topic, row.partitions)
            raise
        self._add(topic)
        log.info("topic created", topic=name, partitions=row.partitions)
        return topic

    async def ensure(self, name: str) -> Topic:
        """Return the topic; make it with the node's defaults if it is not there."""
        topic = self._by_name.get(name)
        if topic is not None:
            return topic
        try:
            return await self.create(name)
        except TopicExists:  # somebody else asked for it a moment earlier
            return self.get(name)

    async def delete(self, name: str) -> None:
        """Delete a topic with its records; its files are removed in the background."""
        await self._change(self._delete(name))

    async def _delete(self, name: str) -> None:
        if not self.settings.delete_topic_enable:
            raise TopicDeletionDisabled("Topic deletion is disabled.")
        topic = self.get(name)
        await self._drop(topic, len(topic.partitions))
        if self.on_deleted is not None:
            self.on_deleted(name)
        log.info("topic deleted", topic=name)

    def check_more(self, name: str, partitions: int) -> Topic:
        """Return the topic that is to grow to so many partitions, or raise why it may not."""
        topic = self.get(name)
        now = len(topic.partitions)
        if partitions <= now:
            raise InvalidPartitionCount(
                f"Topic already has {now} partition(s), {partitions} were asked for."
            )
        self._check_partitions(partitions, partitions - now)
        return topic

    async def add_partitions(self, name: str, partitions: int) -> None:
        """Let a topic grow to so many partitions."""
        await self._change(self._add_partitions(name, partitions))

    async def _add_partitions(self, name: str, partitions: int) -> None:
        topic = self.check_more(name, partitions)
        await self._table.set_partitions(topic.id, partitions)
        try:
            await self._open(topic, partitions)
        except BaseException:
            await self._table.set_partitions(topic.id, len(topic.partitions))
            raise
        finally:
            self._changed()

    async def alter_settings(
        self, name: str, alter: Alteration, *, validate_only: bool = False
    ) -> None:
        """Change a topic's own settings to what `alter` makes of them."""
        await self._change(self._alter_settings(name, alter, validate_only))

    async def _alter_settings(self, name: str, alter: Alteration, validate_only: bool) -> None:
        topic = self.get(name)
        overrides = dict(alter(topic.overrides))
        settings = self.settings.topic_defaults().with_texts(overrides)
        if not validate_only:
            await self._table.set_settings(topic.id, overrides)
            topic.overrides = overrides
            _apply(topic, settings)

    async def alter_node_settings(self, alter: Alteration, *, validate_only: bool = False) -> None:
        """Change the defaults of all topics to what `alter` makes of the dynamic ones."""
        await self._change(self._alter_node_settings(alter, validate_only))

    async def _alter_node_settings(self, alter: Alteration, validate_only: bool) -> None:
        changed = self.settings.with_dynamic(alter(self.settings.dynamic))
        defaults = changed.topic_defaults()
        settings = {topic: defaults.with_texts(topic.overrides) for topic in self}
        if not validate_only:
            await self._table.set_node_settings(changed.dynamic)
            self.settings = changed
            for topic, in_force in settings.items():
                _apply(topic, in_force)

    async def _change(self, work: Coroutine[None, None, Result]) -> Result:
        """Do one change at a time, and to its end even if the client who asked goes away."""

        async def in_turn() -> Result:
            async with self._changes:
                return await work

        return await to_the_end(in_turn())

    async def run(self) -> None:
        """Remove the files of deleted topics, until cancelled."""
        while True:
            row = await self._removals.get()
            try:
                await asyncio.to_thread(remove_set_aside, self.directory, row.id)
                await self._table.forget_removal(row.id)
            except (OSError, StorageFailed) as error:  # the next start tries again
                log.error("files of a deleted topic stay", topic=row.name, error=str(error))
            self._removals.task_done()

    async def removed(self) -> None:
        """Wait until the files of all deleted topics are gone."""
        await self._removals.join()

    def close(self) -> None:
        """Close every partition; blocks."""
        partitions = [partition for topic in self for partition in topic.partitions]
        with ThreadPoolExecutor(DISK_THREADS) as pool:
            for saving in [pool.submit(partition.save) for partition in partitions]:
                saving.result()
        for partition in partitions:
            partition.close()

    def _load(self) -> None:
        """Open the topics that the database names, after putting away what is not theirs."""
        self.directory.mkdir(parents=True, exist_ok=True)
        rows = self._table.topics()
        names = {row.name for row in rows}
        for removal in self._table.removals():
            # With a namesake there, the rename was done before the namesake was made.
            if removal.name not in names:
                set_aside(self.directory, removal.name, removal.partitions, removal.id)
            self._removals.put_nowait(removal)
        known = {
            partition_directory(self.directory, row.name, index)
            for row in rows
            for index in range(row.partitions)
        }
        for stray in set_aside_strays(self.directory, known):
            log.warning("partition of no known topic put aside", directory=stray.name)
        self.settings = self.settings.with_dynamic(self._table.node_settings())
        with ThreadPoolExecutor(DISK_THREADS) as pool:
            opening = [(topic := self._topic(row), self._opened(pool, topic, row)) for row in rows]
            for topic, partitions in opening:
                topic.partitions += [partition.result() for partition in partitions]
                self._add(topic)

    def _opened(
        self, pool: ThreadPoolExecutor, topic: Topic, row: TopicRow
    ) -> "list[Future[Partition]]":
        return [pool.submit(self._open_partition, topic, index) for index in range(row.partitions)]

    def _topic(self, row: TopicRow) -> Topic:
        settings = self.settings.topic_defaults()
        for name, text in row.settings.items():
            try:
                settings = settings.with_texts({name: text})
            except InvalidSetting as error:  # stored by a version with other settings or limits
                log.warning("setting ignored", topic=row.name, reason=str(error))
        return Topic(row.name, row.id, settings, dict(row.settings))

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._by_folded_name[_folded(topic.name)] = topic.name
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        for watcher in self.watchers:
            watcher()

    async def _open(self, topic: Topic, partitions: int) -> None:
        """Open the partitions up to this number, letting others work in between."""
        for index in range(len(topic.partitions), partitions):
            topic.partitions.append(self._open_partition(topic, index))
            if index % PARTITIONS_OPENED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _check_partitions(self, partitions: int, more: int) -> None:
        if partitions < 1:
            raise InvalidPartitionCount("Number of partitions must be larger than 0.")
        if partitions > PARTITIONS_PER_TOPIC_MAX:
            raise PolicyViolation(
                f"A topic may have {PARTITIONS_PER_TOPIC_MAX} partitions, not {partitions}."
            )
        there = sum(len(topic.partitions) for topic in self)
        if there + more > self.settings.max_partitions:
            raise PolicyViolation(
                f"The node has {there} partitions and may have {self.settings.max_partitions} "
                "(max.partitions)."
            )

    def _check_free(self, row: TopicRow) -> None:
        """Refuse to begin a topic with files that are there already."""
        for index in range(row.partitions):
            directory = partition_directory(self.directory, row.name, index)
            if directory.exists():
                raise StorageFailed(f"{directory.name} was left over and is in the way; try again")

    async def _drop(self, topic: Topic, partitions: int) -> None:
        """Take the topic out of the database, then out of sight, then off the disk."""
        await self._table.remove(topic.id)
        if self._by_id.pop(topic.id, None) is topic:
            del self._by_name[topic.name]
            del self._by_folded_name[_folded(topic.name)]
            self._changed()
        for partition in topic.partitions:
            await partition.discard()
        await asyncio.to_thread(set_aside, self.directory, topic.name, partitions, topic.id)
        self._removals.put_nowait(TopicRow(topic.id, topic.name, partitions))


def check_name(name: str) -> None:
    """Raise InvalidTopicName unless a topic may have this name."""
    if not name or name in (".", ".."):
        raise InvalidTopicName(f"Topic name is invalid: '{name}' is not allowed.")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicName(
            f"Topic name is invalid: it has {len(name)} characters, {NAME_LENGTH_MAX} are allowed."
        )
    if not _NAME.fullmatch(name):
        raise InvalidTopicName(
            f"Topic name is invalid: '{name}' has characters other than ASCII letters and digits, "
            "'.', '_' and '-'."
        )


def _apply(topic: Topic, settings: TopicSettings) -> None:
    topic.settings = settings
    for partition in topic.partitions:
        partition.settings = settings


def _folded(name: str) -> str:
    # Metric names turn '.' into '_', so two topics must not differ in that alone.
    return name.replace(".", "_")


def _new_id() -> bytes:
    """Return a random id; Kafka's clients take the ids 0 and 1 for none."""
    return uuid.uuid4().bytes

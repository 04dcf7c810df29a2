"""The topics of the cluster: names, partitions and settings, created, changed and deleted."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from chordmq.broker.endurance import to_the_end
from chordmq.broker.local_logs import DISK_THREADS, LocalLogs, close_all
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings, TopicSettings
from chordmq.broker.topic import Topic, check_count, check_name, in_force, new_id
from chordmq.broker.topic_names import TopicNames
from chordmq.cluster.metastore.store import Event, StoreConflict
from chordmq.cluster.state import (
    DEFAULTS,
    PARTITIONS,
    TOPICS,
    PartitionState,
    name_of,
    partition_of,
)
from chordmq.cluster.topics import TopicRow, TopicTable
from chordmq.errors import (
    ConcurrentChange,
    InvalidPartitionCount,
    InvalidReplicationFactor,
    InvalidTopicName,
    PolicyViolation,
    StorageFailed,
    StoreUnavailable,
    TopicDeletionDisabled,
    TopicExists,
    UnknownOutcome,
    UnknownTopic,
    UnknownTopicId,
)
from chordmq.logs import get_logger
from chordmq.storage.metadata.held import HeldRow

log = get_logger(__name__)

PARTITIONS_OPENED_AT_ONCE = 4
USE_DEFAULT = -1
ATTEMPTS = 5
"""How often a change is tried where another node was quicker."""
RETRY_DELAY_S = 1.0

OpenPartition = Callable[[Topic, int], Partition]
"""Opens the log of a partition, or stands for it where this node has none."""
OnState = Callable[[bytes, int, PartitionState, int], None]
"""Told who holds and leads a partition: topic id, index, state and its revision."""
Assignment = Sequence[Sequence[int]]
"""For each partition the brokers that are to hold it, the one that is to lead first."""
Alteration = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Makes new settings of the old ones, so that nobody can change them in between."""
Result = TypeVar("Result")


class Topics:
    """Every topic of the cluster; the store decides which exist, so changes go there first.

    What other nodes change is made good here by `run`. Changes take turns; looking up never waits.
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
        self.names = TopicNames()
        self._changes = asyncio.Lock()
        self._logs = LocalLogs(directory, table.held)
        self._stale: asyncio.Queue[str] = asyncio.Queue()
        """Names of topics that may have changed elsewhere."""
        self.on_deleted: Callable[[str], None] | None = None
        """Told the name of each topic that is no more."""
        self.version = 0
        """Counts the changes of topics and their numbers of partitions."""
        self.watchers: list[Callable[[], None]] = []
        """Told of each such change."""
        self.on_state: OnState | None = None
        self._load()
        table.image.listen(TOPICS, self._hear_topics)
        table.image.listen(PARTITIONS, self._hear_partitions)
        table.image.listen(DEFAULTS.partition("/")[0], self._hear_defaults)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def is_alone(self) -> bool:
        """Return whether this node is no part of a cluster, and so leads every partition."""
        return self._table.members.is_alone

    @property
    def nodes(self) -> int:
        """Return how many nodes live."""
        return len(self._table.members.live())

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

    def partition(self, topic_id: bytes, index: int) -> Partition | None:
        """Return a partition, or None."""
        topic = self._by_id.get(topic_id)
        found = topic.partitions if topic is not None else []
        return found[index] if index < len(found) else None

    def check_new(
        self, name: str, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> TopicRow:
        """Return the topic that `create` would make with these arguments, or raise why not."""
        check_name(name)
        if name in self._by_name:
            raise TopicExists(f"Topic '{name}' already exists.")
        other = self.names.twin_of(name)
        if other is not None:
            raise InvalidTopicName(f"Topic '{name}' collides with existing topic: {other}")
        if partitions == USE_DEFAULT:
            partitions = self.settings.num_partitions
        self._check_partitions(partitions, partitions)
        if replication_factor == USE_DEFAULT:
            replication_factor = self.settings.default_replication_factor
        if replication_factor < 1:
            raise InvalidReplicationFactor("Replication factor must be larger than 0.")
        if replication_factor > (nodes := self.nodes):
            raise InvalidReplicationFactor(
                f"{replication_factor} replicas were asked for; nodes there are {nodes}."
            )
        self.settings.topic_defaults().with_texts(settings)
        return TopicRow(new_id(), name, partitions, dict(settings), replication_factor)

    def state(self, topic: Topic, index: int) -> PartitionState:
        """Return who holds and who leads a partition."""
        return self._table.state(topic.id, index)[0]

    async def create(
        self,
        name: str,
        partitions: int = USE_DEFAULT,
        replication_factor: int = USE_DEFAULT,
        settings: Mapping[str, str] | None = None,
        assignment: Assignment = (),
    ) -> Topic:
        """Make a topic and return it once it would survive a crash.

        The ring chooses who holds its partitions, unless an assignment does.
        """
        given = settings or {}

        async def work() -> Topic:
            row = self.check_new(name, partitions, replication_factor, given)
            row = replace(row, is_manual=bool(assignment))
            return await self._create(row, assignment)

        return await self._change(work)

    async def _create(self, row: TopicRow, assignment: Assignment) -> Topic:
        states = await self._prepared(row, range(row.partitions), assignment)
        await self._table.insert(row, states)
        topic = self._topic(row)
        try:
            self._logs.check_free(row.name, range(row.partitions))
            await self._open(topic, row.partitions)
        except BaseException:
            await self._table.remove(row)
            await self._drop(topic, row.partitions)
            raise
        self._add(topic)
        log.info("topic created", topic=row.name, partitions=row.partitions)
        return topic

    async def _prepared(
        self, row: TopicRow, new: range, assignment: Assignment
    ) -> list[PartitionState]:
        """Return who is to hold new partitions; what this node is to hold, it takes note of."""
        members = self._table.members
        states = [members.begin(tuple(replicas)) for replicas in assignment]
        states = states or members.place(row.id, new, row.replication_factor)
        await self._table.held.add(
            HeldRow(row.id, row.name, index)
            for index, state in zip(new, states, strict=True)
            if members.node_id in state.replicas
        )
        return states

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
        await self._change(lambda: self._delete(name))

    async def _delete(self, name: str) -> None:
        if not self.settings.delete_topic_enable:
            raise TopicDeletionDisabled("Topic deletion is disabled.")
        topic = self.get(name)
        await self._table.remove(self._row(topic))
        await self._forget(topic)

    async def _forget(self, topic: Topic) -> None:
        """Take a topic out of sight that the store does not have any more."""
        await self._drop(topic, len(topic.partitions))
        if self.on_deleted is not None:
            self.on_deleted(topic.name)
        log.info("topic deleted", topic=topic.name)

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

    async def add_partitions(self, name: str, partitions: int, assignment: Assignment = ()) -> None:
        """Let a topic grow to so many partitions."""
        await self._change(lambda: self._add_partitions(name, partitions, assignment))

    async def _add_partitions(self, name: str, partitions: int, assignment: Assignment) -> None:
        topic = self.check_more(name, partitions)
        row, new = self._row(topic), range(len(topic.partitions), partitions)
        states = await self._prepared(row, new, assignment)
        await self._table.grow(replace(row, partitions=partitions), states)
        try:
            await self._open(topic, partitions)
        finally:
            self._tell_states(topic, new.start)
            self._changed()

    async def alter_settings(
        self, name: str, alter: Alteration, *, validate_only: bool = False
    ) -> None:
        """Change a topic's own settings to what `alter` makes of them."""
        await self._change(lambda: self._alter_settings(name, alter, validate_only))

    async def _alter_settings(self, name: str, alter: Alteration, validate_only: bool) -> None:
        topic = self.get(name)
        overrides = dict(alter(topic.overrides))
        settings = self.settings.topic_defaults().with_texts(overrides)
        if not validate_only:
            await self._table.change(replace(self._row(topic), settings=overrides))
            topic.overrides = overrides
            topic.apply(settings)

    async def take_from_ring(self, name: str) -> None:
        """Leave the partitions of a topic from now on where a person has put them."""
        if self.is_alone:
            return

        async def work() -> None:
            row = self._row(self.get(name))
            if not row.is_manual:
                await self._table.change(replace(row, is_manual=True))

        await self._change(work)

    async def alter_node_settings(self, alter: Alteration, *, validate_only: bool = False) -> None:
        """Change the defaults of all topics to what `alter` makes of the dynamic ones."""
        await self._change(lambda: self._alter_node_settings(alter, validate_only))

    async def _alter_node_settings(self, alter: Alteration, validate_only: bool) -> None:
        changed = self.settings.with_dynamic(alter(self.settings.dynamic))
        defaults = changed.topic_defaults()
        for topic in self:
            defaults.with_texts(topic.overrides)
        if not validate_only:
            await self._table.set_defaults(changed.dynamic)

    async def _change(self, work: Callable[[], Coroutine[None, None, Result]]) -> Result:
        """Do one change at a time, and to its end even if the client who asked goes away.

        Where another node was quicker, the change is tried again on what that has left.
        """

        async def in_turn() -> Result:
            async with self._changes:
                for _ in range(ATTEMPTS):
                    try:
                        return await work()
                    except StoreConflict:
                        await self._table.image.refresh()
                        await self._make_good()
                raise ConcurrentChange("others keep changing the same; try again")

        return await to_the_end(in_turn())

    def _hear_topics(self, events: list[Event]) -> None:
        for event in events:
            self._stale.put_nowait(name_of(event.key))

    def _hear_partitions(self, events: list[Event]) -> None:
        for event in events:
            topic_id, index = partition_of(event.key)
            topic = self._by_id.get(topic_id)
            if topic is None or index >= len(topic.partitions):
                continue
            self._tell_states(topic, index, index + 1)
            if self._table.holds(topic_id, index) == topic.partitions[index].is_absent:
                self._stale.put_nowait(topic.name)

    def _hear_defaults(self, _events: list[Event]) -> None:
        self.settings = self.settings.with_dynamic(self._table.defaults())
        for topic in self:
            topic.apply(self._in_force(topic.name, topic.overrides))

    def tell_all(self) -> None:
        """Tell who holds and leads every partition."""
        for topic in self:
            self._tell_states(topic, 0)

    def _tell_states(self, topic: Topic, first: int, last: int | None = None) -> None:
        for index in range(len(topic.partitions))[first:last]:
            if self.on_state is not None:
                self.on_state(topic.id, index, *self._table.state(topic.id, index))

    async def _make_good(self) -> None:
        """Make everything here as the store has it."""
        names = {row.name for row in self._table.rows()} | set(self._by_name)
        for name in sorted(names):
            await self._follow(name)

    async def _follow(self, name: str) -> None:
        """Make one topic here as the store has it."""
        row, topic = self._table.find(name), self._by_name.get(name)
        if topic is not None and (row is None or row.id != topic.id):
            if await self._table.exists(name, topic.id):
                return  # what the watch has told is not so
            await self._forget(topic)
            topic = None
        if row is None:
            return
        known = len(topic.partitions) if topic is not None else 0
        if known < row.partitions:
            await self._table.held.add(self._table.held_of(row))
        if topic is None:
            topic = self._topic(row)
            await self._open(topic, row.partitions)
            self._add(topic)
        elif known < row.partitions:
            await self._open(topic, row.partitions)
            self._tell_states(topic, known)
            self._changed()
        if row.settings != topic.overrides:
            topic.overrides = dict(row.settings)
            topic.apply(self._in_force(name, topic.overrides))
        await self._move(topic)

    async def _move(self, topic: Topic) -> None:
        """Open the partitions that this node is to hold from now on, and close the others."""
        for index, partition in enumerate(topic.partitions):
            holds = self._table.holds(topic.id, index)
            if holds != partition.is_absent:
                continue
            held = HeldRow(topic.id, topic.name, index)
            if holds:
                await self._table.held.add([held])
            elif await self._table.is_held(topic.id, index):
                continue  # what the watch has told is not so
            partition.moved_to = topic.partitions[index] = self._open_partition(topic, index)
            self._tell_states(topic, index, index + 1)
            self._changed()
            await partition.discard()
            if not holds:
                await self._logs.discard([held])

    async def run(self) -> None:
        """Follow what other nodes change, and remove what is deleted, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._logs.run())
            tasks.create_task(self._run_changes())

    async def _run_changes(self) -> None:
        while True:
            name = await self._stale.get()
            try:
                async with self._changes:
                    await self._follow(name)
            except (OSError, StorageFailed) as error:
                log.error("a change of a topic cannot be made", topic=name, error=str(error))
            except (StoreUnavailable, UnknownOutcome):
                await asyncio.sleep(RETRY_DELAY_S)
                self._stale.put_nowait(name)

    async def removed(self) -> None:
        """Wait until the files of all deleted topics are gone."""
        await self._logs.removed()

    def close(self) -> None:
        """Close every partition; blocks."""
        close_all([partition for topic in self for partition in topic.partitions])

    def _load(self) -> None:
        """Open the topics that the store names, after putting away what is not theirs."""
        rows = self._table.rows()
        self._logs.put_away({held for row in rows for held in self._table.held_of(row)})
        self.settings = self.settings.with_dynamic(self._table.defaults())
        with ThreadPoolExecutor(DISK_THREADS) as pool:
            opening = []
            for row in rows:
                topic, indexes = self._topic(row), range(row.partitions)
                opened = [pool.submit(self._open_partition, topic, i) for i in indexes]
                opening.append((topic, opened))
            for topic, partitions in opening:
                topic.partitions += [partition.result() for partition in partitions]
                self._add(topic)

    def _topic(self, row: TopicRow) -> Topic:
        settings = self._in_force(row.name, row.settings)
        return Topic(row.name, row.id, settings, dict(row.settings))

    def _row(self, topic: Topic) -> TopicRow:
        """Return the topic as the store has it, or raise StoreConflict."""
        row = self._table.find(topic.name)
        if row is None or row.id != topic.id:
            raise StoreConflict
        return row

    def _in_force(self, topic: str, overrides: Mapping[str, str]) -> TopicSettings:
        return in_force(self.settings.topic_defaults(), overrides, topic)

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._tell_states(topic, 0)
        self.names.add(topic.name)
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
        check_count(partitions)
        there = sum(len(topic.partitions) for topic in self)
        if there + more > self.settings.max_partitions:
            raise PolicyViolation(
                f"The node has {there} partitions and may have {self.settings.max_partitions} "
                "(max.partitions)."
            )

    async def _drop(self, topic: Topic, partitions: int) -> None:
        """Take a topic out of sight, then off the disk."""
        if self._by_id.pop(topic.id, None) is topic:
            del self._by_name[topic.name]
            self.names.remove(topic.name)
            self._changed()
        await asyncio.gather(*(partition.discard() for partition in topic.partitions))
        await self._logs.discard(
            HeldRow(topic.id, topic.name, index) for index in range(partitions)
        )

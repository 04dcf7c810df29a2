"""The topics of the cluster: names, partitions and settings, created, changed and deleted."""

import asyncio
import re
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import structlog

from chordmq.broker.endurance import to_the_end
from chordmq.broker.partition import Partition
from chordmq.broker.settings import BrokerSettings, TopicSettings
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
from chordmq.storage.metadata.held import HeldRow

log = structlog.get_logger(__name__)

NAME_LENGTH_MAX = 249
PARTITIONS_PER_TOPIC_MAX = 10_000
PARTITIONS_OPENED_AT_ONCE = 4
DISK_THREADS = 8
"""How many partitions are recovered or saved at once, so that they share the disk's syncs."""
USE_DEFAULT = -1
ATTEMPTS = 5
"""How often a change is tried where another node was quicker."""
INTERNAL_TOPICS = frozenset(
    {
        "__audit",
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__sessions",
        "__retained",
        "__cluster_metadata",
        "__queues",
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
        self._by_folded_name: dict[str, str] = {}
        self._changes = asyncio.Lock()
        self._removals: asyncio.Queue[list[HeldRow]] = asyncio.Queue()
        self._stale: asyncio.Queue[str] = asyncio.Queue()
        """Names of topics that may have changed elsewhere."""
        self.on_deleted: Callable[[str], None] | None = None
        """Told the name of each topic that is no more."""
        self.version = 0
        """Counts the changes to which topics there are and how many partitions they have."""
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
        nodes = len(self._table.members.live())
        if replication_factor > nodes:
            raise InvalidReplicationFactor(
                f"{replication_factor} replicas were asked for; the cluster has {nodes} "
                f"node{'s' if nodes > 1 else ''}."
            )
        self.settings.topic_defaults().with_texts(settings)
        return TopicRow(_new_id(), name, partitions, dict(settings), replication_factor)

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
        members = self._table.members
        states = [members.begin(tuple(replicas)) for replicas in assignment]
        states = states or members.place(row.id, range(row.partitions), row.replication_factor)
        await self._prepare(row, enumerate(states))
        await self._table.insert(row, states)
        topic = self._topic(row)
        try:
            self._check_free(row)
            await self._open(topic, row.partitions)
        except BaseException:
            await self._table.remove(row)
            await self._drop(topic, row.partitions)
            raise
        self._add(topic)
        log.info("topic created", topic=row.name, partitions=row.partitions)
        return topic

    async def _prepare(self, row: TopicRow, states: Iterable[tuple[int, PartitionState]]) -> None:
        """Take note of what this node is to hold, before it can have any of it."""
        me = self._table.members.node_id
        await self._table.held.add(
            HeldRow(row.id, row.name, index) for index, state in states if me in state.replicas
        )

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
        row, members = self._row(topic), self._table.members
        new = range(len(topic.partitions), partitions)
        states = [members.begin(tuple(replicas)) for replicas in assignment]
        states = states or members.place(row.id, new, row.replication_factor)
        await self._prepare(row, zip(new, states, strict=True))
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
            _apply(topic, settings)

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
            self._tell_state(topic, index)
            if self._table.holds(topic_id, index) == topic.partitions[index].is_absent:
                self._stale.put_nowait(topic.name)

    def _hear_defaults(self, _events: list[Event]) -> None:
        self.settings = self.settings.with_dynamic(self._table.defaults())
        for topic in self:
            _apply(topic, self._in_force(topic.name, topic.overrides))

    def tell_all(self) -> None:
        """Tell who holds and leads every partition."""
        for topic in self:
            self._tell_states(topic, 0)

    def _tell_states(self, topic: Topic, first: int) -> None:
        for index in range(first, len(topic.partitions)):
            self._tell_state(topic, index)

    def _tell_state(self, topic: Topic, index: int) -> None:
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
            await self._forget(topic)
            topic = None
        if row is None:
            return
        if (
            topic is None
            or any(
                self._table.holds(row.id, index) and topic.partitions[index].is_absent
                for index in range(len(topic.partitions))
            )
            or len(topic.partitions) < row.partitions
        ):
            await self._table.held.add(self._table.held_of(row))
        if topic is None:
            topic = self._topic(row)
            await self._open(topic, row.partitions)
            self._add(topic)
        elif len(topic.partitions) < row.partitions:
            first = len(topic.partitions)
            await self._open(topic, row.partitions)
            self._tell_states(topic, first)
            self._changed()
        if row.settings != topic.overrides:
            topic.overrides = dict(row.settings)
            _apply(topic, self._in_force(name, topic.overrides))
        await self._move(topic)

    async def _move(self, topic: Topic) -> None:
        """Open the partitions that this node is to hold from now on, and close the others."""
        for index, partition in enumerate(topic.partitions):
            holds = self._table.holds(topic.id, index)
            if holds == partition.is_absent:
                topic.partitions[index] = self._open_partition(topic, index)
                self._tell_state(topic, index)
                if not holds:
                    await self._discard(topic, {index: partition})

    async def run(self) -> None:
        """Follow what other nodes change, and remove what is deleted, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_removals())
            tasks.create_task(self._run_changes())

    async def _run_changes(self) -> None:
        while True:
            name = await self._stale.get()
            try:
                async with self._changes:
                    await self._follow(name)
            except (OSError, StorageFailed) as error:
                log.error("a change of a topic cannot be made", topic=name, error=str(error))

    async def _run_removals(self) -> None:
        while True:
            rows = await self._removals.get()
            try:
                await asyncio.to_thread(remove_set_aside, self.directory, rows[0].topic)
                await self._table.held.remove(rows)
            except (OSError, StorageFailed) as error:  # the next start tries again
                log.error("files of a deleted topic stay", topic=rows[0].name, error=str(error))
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
        """Open the topics that the store names, after putting away what is not theirs."""
        self.directory.mkdir(parents=True, exist_ok=True)
        rows = self._table.rows()
        wanted = {held for row in rows for held in self._table.held_of(row)}
        self._put_away(wanted)
        self._table.held.add_now(sorted(wanted))
        self.settings = self.settings.with_dynamic(self._table.defaults())
        with ThreadPoolExecutor(DISK_THREADS) as pool:
            opening = [(topic := self._topic(row), self._opened(pool, topic, row)) for row in rows]
            for topic, partitions in opening:
                topic.partitions += [partition.result() for partition in partitions]
                self._add(topic)

    def _put_away(self, wanted: Collection[HeldRow]) -> None:
        """Rename the directories of partitions that this node does not hold any more."""
        held = self._table.held.rows()
        kept = {(row.name, row.partition) for row in held if row in wanted}
        gone: dict[bytes, list[HeldRow]] = {}
        for row in held:
            if row not in wanted:
                gone.setdefault(row.topic, []).append(row)
                # With a namesake there, the rename was done before the namesake was made.
                if (row.name, row.partition) not in kept:
                    set_aside(self.directory, row.name, [row.partition], row.topic)
        for removed in gone.values():
            self._removals.put_nowait(removed)
        known = {partition_directory(self.directory, name, index) for name, index in kept}
        for stray in set_aside_strays(self.directory, known):
            log.warning("partition of no known topic put aside", directory=stray.name)

    def _opened(
        self, pool: ThreadPoolExecutor, topic: Topic, row: TopicRow
    ) -> "list[Future[Partition]]":
        return [pool.submit(self._open_partition, topic, index) for index in range(row.partitions)]

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
        settings = self.settings.topic_defaults()
        for name, text in overrides.items():
            try:
                settings = settings.with_texts({name: text})
            except InvalidSetting as error:  # stored by a version with other settings or limits
                log.warning("setting ignored", topic=topic, reason=str(error))
        return settings

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._tell_states(topic, 0)
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
        """Take a topic out of sight, then off the disk."""
        if self._by_id.pop(topic.id, None) is topic:
            del self._by_name[topic.name]
            del self._by_folded_name[_folded(topic.name)]
            self._changed()
        await self._discard(topic, dict(enumerate(topic.partitions)), range(partitions))

    async def _discard(
        self, topic: Topic, partitions: Mapping[int, Partition], indexes: Iterable[int] = ()
    ) -> None:
        """Close partitions and rename their directories; they are removed in the background."""
        for partition in partitions.values():
            await partition.discard()
        gone = sorted({*partitions, *indexes})
        await asyncio.to_thread(set_aside, self.directory, topic.name, gone, topic.id)
        self._removals.put_nowait([HeldRow(topic.id, topic.name, index) for index in gone])


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

"""The one door to the log: partitions, topics, groups and producer ids of this node."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from chordmq.broker.audit.auditor import Auditor
from chordmq.broker.cursors.cursors import Cursors
from chordmq.broker.flusher import Flusher
from chordmq.broker.groups.coordinator import GroupCoordinator
from chordmq.broker.groups.settings import GroupOverrides
from chordmq.broker.groups.share_coordinator import ShareCoordinator, policy_of
from chordmq.broker.log_settings import log_settings
from chordmq.broker.names import Names
from chordmq.broker.partition import Partition
from chordmq.broker.presence import Presence
from chordmq.broker.producers import Incarnation
from chordmq.broker.retained import RetainedMessages
from chordmq.broker.routing import Routing
from chordmq.broker.security.permissions import AclSettings, Permissions
from chordmq.broker.sessions import Sessions
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Shared
from chordmq.broker.topic import QUEUES_TOPIC, Topic
from chordmq.broker.topics import Topics
from chordmq.broker.transactions.coordinator import TransactionCoordinator
from chordmq.broker.upkeep import Upkeep
from chordmq.clock import Clock
from chordmq.cluster.identity import Identity
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import Event
from chordmq.cluster.state import LIVE
from chordmq.cluster.topics import TopicTable
from chordmq.errors import UnknownTopic
from chordmq.records.batch import TRANSACTIONAL
from chordmq.records.marker import Marker
from chordmq.records.record import NewRecord, build_batch
from chordmq.storage import journal
from chordmq.storage.directories import partition_directory
from chordmq.storage.log import Log
from chordmq.storage.metadata.audit import HeadTable
from chordmq.storage.metadata.database import Database
from chordmq.storage.metadata.held import HeldTable
from chordmq.storage.metadata.segments import SegmentCatalogue
from chordmq.storage.tail import TailBudget

if TYPE_CHECKING:
    from chordmq.broker.bounds import Bounds
    from chordmq.broker.clustering import Clustering
    from chordmq.broker.groups.reach import GroupReach
    from chordmq.broker.leaders import Leaders
    from chordmq.broker.queues.queues import Queues
    from chordmq.cluster.administration import Administration
    from chordmq.cluster.routes import Routes
    from chordmq.cluster.tunnels import Tunnels


class Broker:
    """Opens everything below `directory` and serves it; all fronts talk to this class only."""

    tunnels: "Tunnels | None" = None
    """Ways to other nodes, for clients that these serve; None for a node alone."""
    _queues_of: tuple[Names, Sequence[str]] | None = None
    """What queues are to serve, once they are loaded."""
    _tasks: asyncio.TaskGroup | None = None

    def __init__(
        self,
        directory: Path,
        settings: BrokerSettings,
        clock: Clock,
        flusher: Flusher,
        acl: AclSettings | None = None,
        clustering: "Clustering | None" = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.clock = clock
        self.shared = Shared(flusher, clock)
        self.node_id = settings.node_id
        self.database = Database(directory / "meta.db")
        self.clustering = clustering
        """None for a node alone."""
        if clustering is not None:
            self.image, self.members = clustering.image, clustering.members
            clustering.furnish(self.shared)
            clustering.replicas.open(directory)
        else:
            self.image = Image.local(self.database, clock)
            self.members = Members(self.image, settings.node_id)
        self.identity = Identity(self.image, settings.node_id)
        self.permissions = Permissions(self.image, acl or AclSettings())
        self.tail = TailBudget(settings.log_memory_max_bytes, clock)
        self._catalogue = SegmentCatalogue(self.database)
        self._logs = directory / "topics"
        self._journal = journal.opened(directory, self._logs, self._catalogue)
        self._table = TopicTable(self.image, HeldTable(self.database), self.members)
        self.topics = Topics(self._logs, self._table, settings, self._open_partition)
        if clustering is not None:
            clustering.serve(self.topics)
        self.audit = Auditor(self, directory, HeadTable(self.database))
        self.group_settings = GroupOverrides(self.image, settings)
        self.groups = GroupCoordinator(self, self.group_settings.of)
        self.transactions = TransactionCoordinator(self, self.groups)
        self.cursors = Cursors(
            self, lambda group, topic: policy_of(self.group_settings.of(group), topic)
        )
        self.share_groups = ShareCoordinator(
            self, self.cursors, self.group_settings, self.groups.has
        )
        self.sessions = Sessions(self)
        self.retained = RetainedMessages(self)
        self.presence = Presence()
        self.topics.on_deleted = self._forget_topic
        self._follow_leaders()
        self.upkeep = Upkeep(directory, self.partitions, settings, self.shared)
        self._producer_ids: Iterator[int] = iter(())
        self._producer_ids_lock = asyncio.Lock()

    @cached_property
    def queues(self) -> "Queues":
        """Return the queues; they are loaded when there are some, or somebody asks for them."""
        from chordmq.broker.queues.queues import Queues

        queues = Queues(self)
        if self._queues_of is not None:
            queues.open(*self._queues_of)
        if self._tasks is not None:
            self._tasks.create_task(queues.run())
        return queues

    def serve_queues(self, names: Names, vhosts: Sequence[str]) -> None:
        """Have queues served in these virtual hosts."""
        self._queues_of = names, vhosts
        if self.has_queues:
            self.queues.open(names, vhosts)
        elif self.topics.find(QUEUES_TOPIC) is not None:
            _ = self.queues

    @property
    def has_queues(self) -> bool:
        """Return whether queues are loaded."""
        return "queues" in vars(self)

    async def settle_queues(self) -> None:
        """Store all that was acknowledged by now, so that a clean stop repeats nothing."""
        if self.has_queues:
            await self.queues.settle()

    @cached_property
    def administration(self) -> "Administration":
        """Return what moves partitions and their leadership by order."""
        from chordmq.broker.rule_book import RuleBook
        from chordmq.cluster.administration import Administration

        return Administration(self.image, self.members, RuleBook(self.image, self.settings))

    @cached_property
    def bounds(self) -> "Bounds":
        """Return what says where partitions begin and end."""
        from chordmq.broker.bounds import Bounds

        return Bounds(self.topics)

    @cached_property
    def group_reach(self) -> "GroupReach":
        """Return the way to groups, whichever node looks after them."""
        from chordmq.broker.groups.reach import GroupReach

        return GroupReach(self.groups)

    @cached_property
    def leaders(self) -> "Leaders":
        """Return the way to those who lead partitions."""
        from chordmq.broker.leaders import Leaders

        return Leaders(self.topics)

    @cached_property
    def routing(self) -> Routing:
        """Return the rules by which names with levels find their topics."""
        return Routing(self.image)

    @property
    def settings(self) -> BrokerSettings:
        """Return the node's settings in force."""
        return self.topics.settings

    @property
    def routes(self) -> "Routes | None":
        """Return the ring; None for a node alone."""
        return self.clustering.routes if self.clustering is not None else None

    @property
    def cluster_id(self) -> str:
        """Return the id that all nodes of the cluster share."""
        return self.identity.cluster_id

    def partition(self, topic: str, index: int) -> Partition:
        """Return the partition, or raise UnknownTopic."""
        return _partition(self.topics.get(topic), index)

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Return the partition, or raise UnknownTopicId."""
        return _partition(self.topics.by_id(topic_id), index)

    def partitions(self) -> Iterator[Partition]:
        """Yield every partition of which the node has a log."""
        for topic in self.topics:
            yield from (one for one in topic.partitions if not one.is_absent)

    async def append_records(
        self,
        topic: str,
        partition: int,
        records: Sequence[NewRecord],
        *,
        producer: Incarnation | None = None,
    ) -> int:
        """Append records as one batch; return the first offset once all are committed.

        With a producer the batch is part of its transaction.
        """
        target = self.partition(topic, partition)
        if producer is None:
            data = build_batch(records)
        else:
            producer_id, epoch = producer
            data = build_batch(records, flags=TRANSACTIONAL, producer_id=producer_id, epoch=epoch)
        appended = target.append(memoryview(data), is_enlisted=producer is not None)
        await _committed(target, appended.next_offset)
        return appended.base_offset

    async def append_marker(self, topic: str, partition: int, marker: Marker) -> None:
        """End a transaction in one partition; return once its marker is committed."""
        target = self.partition(topic, partition)
        await _committed(target, target.append_marker(marker))

    async def new_producer_id(self) -> int:
        """Return an id that no producer has had, also across restarts."""
        async with self._producer_ids_lock:
            producer_id = next(self._producer_ids, None)
            if producer_id is None:
                self._producer_ids = iter(await self.identity.take_producer_ids())
                producer_id = next(self._producer_ids)
            return producer_id

    async def run(self) -> None:
        """Serve groups, remove deleted topics and look after the logs, until cancelled."""
        self.topics.tell_all()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            if self.has_queues:
                tasks.create_task(self.queues.run())
            tasks.create_task(self.groups.run())
            tasks.create_task(self.cursors.run())
            tasks.create_task(self.share_groups.run())
            tasks.create_task(self.transactions.run())
            tasks.create_task(self.sessions.run())
            tasks.create_task(self.retained.run())
            tasks.create_task(self.topics.run())
            tasks.create_task(self.upkeep.run())

    def close(self) -> None:
        """Flush and close everything; a clean end makes the next start quick."""
        self.shared.flusher.close()
        self.shared.read_ahead.close()
        if self.clustering is not None:
            self.clustering.replicas.save()
        self.topics.close()
        self._journal.close()
        self.database.close()

    def _follow_leaders(self) -> None:
        """Have coordinators look after what this node leads, and ask other nodes for the rest."""
        if self.clustering is None:
            return
        from chordmq.broker.audit.relay import AuditRelay
        from chordmq.broker.forwarding import Forwarding
        from chordmq.broker.transactions.delegation import Delegation
        from chordmq.cluster.tunnels import Tunnels

        links = self.clustering.links
        self.tunnels = Tunnels(links)
        self.leaders.join(links)
        self.shared.reads = self.clustering.spread(self.topics)
        self.bounds.join(links)
        self.group_reach.join(links)
        self.cursors.join(links)
        self.image.listen(LIVE, self._look_who_lives)
        logs = (self.groups, self.transactions, self.cursors)
        for coordinator in (*logs, self.retained, self.sessions, self.queues):
            self.topics.watchers.append(coordinator.look_again)
            self.clustering.replicas.on_turned.append(coordinator.look_again)
        Delegation(links, self.topics, self.transactions)
        self.shared.forward = Forwarding(links, self.topics).append
        self.audit.relay = AuditRelay(links, self.topics, self.audit).relay

    def _look_who_lives(self, _events: list[Event]) -> None:
        assert self.cursors.routing is not None
        live = {one.id: one.epoch for one in self.members.all() if one.is_live}
        self.cursors.routing.exchange.look_who_lives(live)

    def _forget_topic(self, topic: str) -> None:
        self.groups.forget_topic(topic)
        self.cursors.forget_topic(topic)

    def _open_partition(self, topic: Topic, index: int) -> Partition:
        if not self._table.holds(topic.id, index):
            from chordmq.broker.absent import AbsentPartition

            return AbsentPartition(topic.name, index, topic.settings, self.shared)
        directory = partition_directory(self._logs, topic.name, index)
        log = Log(
            directory,
            log_settings(topic.settings),
            self.clock,
            self.tail,
            self._catalogue,
            self._journal,
        )
        return Partition(topic.name, index, log, topic.settings, self.shared)


async def _committed(partition: Partition, next_offset: int) -> None:
    """Wait until all before the offset is committed; raise UnknownTopic if that cannot be."""
    committed = partition.committed(next_offset)
    if committed is None:
        return
    try:
        await committed
    except asyncio.CancelledError:
        if partition.is_closed:
            raise UnknownTopic(f"{partition.topic} was deleted meanwhile") from None
        raise


def _partition(topic: Topic, index: int) -> Partition:
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopic(f"{topic.name} has {len(topic.partitions)} partitions, not {index}")
    return topic.partitions[index]

"""A node as part of a cluster: its registration, links, copies of partitions and its duties."""

import asyncio
import uuid
from collections.abc import Iterator, Mapping

from chordmq.broker.announcements import Announcements
from chordmq.broker.crowds import Crowds, crowd_measures
from chordmq.broker.popularity import Limits
from chordmq.broker.remote_reads import RemoteReads
from chordmq.broker.replica import Replica
from chordmq.broker.replicas import Replicas
from chordmq.broker.rule_book import RuleBook
from chordmq.broker.settings import BrokerSettings
from chordmq.broker.shared import Shared
from chordmq.broker.spreading import Spreading
from chordmq.broker.topics import Topics
from chordmq.clock import Clock
from chordmq.cluster.controlling import Controlling
from chordmq.cluster.fencing import fence
from chordmq.cluster.image import Image
from chordmq.cluster.link import Handler
from chordmq.cluster.links import Guard, Links
from chordmq.cluster.measures import coordination_measures, ring_measures
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import MetaStore
from chordmq.cluster.registration import Registration, Standing, compares_for
from chordmq.cluster.routes import Routes
from chordmq.cluster.settings import ClusterSettings
from chordmq.cluster.state import (
    BROKERS,
    CLUSTER,
    LIVE,
    BrokerRegistration,
    ClusterIdentity,
    Endpoint,
    PartitionState,
    decode,
)
from chordmq.codecs.peer.frames import Kind
from chordmq.dataclass import dataclass
from chordmq.errors import StoreUnavailable, UnknownOutcome
from chordmq.logs import get_logger
from chordmq.metrics import Metric

STORE_RETRY_S = 1.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a node brings along when it joins a cluster."""

    uuid: str
    boot: str
    is_suspect: bool
    """Whether a flush had failed before."""
    endpoints: Mapping[str, Endpoint]
    guard: Guard
    """Returns what TLS needs to dial other nodes."""


class Clustering:
    """Joins the cluster and stays in it: made before the broker, which it serves."""

    def __init__(
        self, image: Image, broker: BrokerSettings, settings: ClusterSettings, clock: Clock
    ) -> None:
        self.image = image
        self.members = Members(image, broker.node_id, is_alone=False)
        self.rules = RuleBook(image, broker)
        self.replicas = Replicas(broker.node_id, clock, self._find)
        self.replicas.rules_lag_max_s = broker.replica_lag_time_max_ms / 1000
        self.registration: Registration
        self.controlling: Controlling
        self.links: Links
        self.crowds: Crowds
        self.announcements: Announcements
        self.routes: Routes
        self.spreading: Spreading
        entry = image.get(CLUSTER)
        assert entry is not None
        self.cluster_id = decode(entry, ClusterIdentity).id
        self._node_id = broker.node_id
        self._rack = broker.broker_rack
        self._settings = settings
        self._clock = clock
        self._tasks: asyncio.TaskGroup
        self.topics: Topics | None = None

    async def register(self, seat: Seat) -> None:
        """Take this node's number, out of everything that it led and held before."""
        about = BrokerRegistration(
            uuid=seat.uuid,
            endpoints=dict(seat.endpoints),
            rack=self._rack,
            boot=seat.boot,
            incarnation=str(uuid.uuid4()),
        )
        standing = Standing(self._node_id, about, self._settings.lease_s)
        image, clock = self.image, self._clock
        self.registration = Registration(image, standing, clock, self.rules)
        self.registration.on_renewed.append(self._rely)
        self.controlling = Controlling(
            image, self.members, self.registration, self._settings, clock
        )
        self.links = Links(self.cluster_id, self._node_id, seat.uuid, clock, seat.guard)
        self.routes = Routes(self.links, self.members, self.cluster_id)
        self.announcements = Announcements(self.routes, clock)
        self._connect()
        await self.registration.register(is_suspect=seat.is_suspect)
        epoch = self.registration.epoch
        self.links.begin(epoch)
        self.routes.begin(seat.uuid, epoch)
        self.replicas.begin(epoch)

    def _connect(self) -> None:
        links, replicas = self.links, self.replicas
        replicas.connect(links, self.image.store, compares_for)
        replicas.lease.until_s = self.registration.until_s
        links.on(Kind.REPLICA_FETCH, replicas.on_fetches)
        links.on(Kind.REPLICA_ANSWER, replicas.on_answers)
        links.on_connected.append(replicas.on_connected)
        links.on_lost.append(replicas.on_lost)
        links.on_refused.append(self._fence)
        self.image.listen(BROKERS, lambda _: self.routes.know())
        self.image.listen(LIVE, lambda _: self.routes.know())

    def furnish(self, shared: Shared) -> None:
        """Have partitions made one of several copies, from now on."""
        shared.new_replica = lambda partition: Replica(self.replicas, partition)

    def serve(self, topics: Topics) -> None:
        """Tell the copies of these topics who leads them, from now on."""
        self.topics = topics
        limits = Limits(self._settings.popular_bytes_s, self._settings.popular_readers)
        self.crowds = Crowds(
            lambda: (one for topic in topics for one in topic.partitions), limits, self._clock
        )
        self.crowds.announce = self.announcements.tell
        topics.on_state = self.replicas.on_state

    def spread(self, topics: Topics) -> RemoteReads:
        """Return the way to partitions of which this node has no copy."""
        reads = RemoteReads(self.links, topics, self._clock, self.announcements.is_popular)
        self.crowds.readers_elsewhere = reads.readers_elsewhere
        self.spreading = Spreading(self.routes, topics, reads)
        return reads

    def carry(self, deputy: Handler) -> None:
        """Have requests answered that clients have sent to other nodes."""
        self.links.answer(Kind.FORWARD, deputy)

    async def run(self) -> None:
        """Follow the store, keep the lease, the links and the copies, until cancelled."""
        self.routes.know()
        async with asyncio.TaskGroup() as self._tasks:
            for part in (self.image, self.links, self.routes, self.replicas, self.crowds):
                self._tasks.create_task(part.run())
            self._tasks.create_task(self.spreading.run(self.crowds.popular))

    async def stay(self) -> None:
        """Count as living, and do a controller's work if it falls to this node; until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.registration.run())
            tasks.create_task(self.controlling.run(self.cluster_id, self.rules))

    def measures(self) -> Iterator[Metric]:
        """Yield the numbers of the links, the ring, the leaders and the readers."""
        yield from ring_measures(self.routes)
        yield from coordination_measures(self.members, self.controlling, self._states())
        yield from crowd_measures(self.crowds)
        yield from self.spreading.measures()
        yield from self.replicas.measures()

    def _states(self) -> Iterator[PartitionState]:
        for topic in self.topics or ():
            assert self.topics is not None
            yield from (self.topics.state(topic, i) for i in range(len(topic.partitions)))

    def _fence(self, broker: int) -> None:
        self._tasks.create_task(fence(self.image, broker))

    def _rely(self, until_s: float) -> None:
        self.replicas.lease.until_s = until_s

    def _find(self, topic_id: bytes, index: int) -> Replica | None:
        partition = self.topics.partition(topic_id, index) if self.topics else None
        return partition.replica if partition else None


async def join(
    store: MetaStore, seat: Seat, broker: BrokerSettings, settings: ClusterSettings, clock: Clock
) -> Clustering:
    """Register a node with its cluster; a store that is away is waited for."""
    while True:
        try:
            clustering = Clustering(await Image.load(store), broker, settings, clock)
            await clustering.register(seat)
        except (StoreUnavailable, UnknownOutcome) as error:
            log.warning("waits for the cluster's store", reason=str(error))
            await asyncio.sleep(STORE_RETRY_S)
        else:
            return clustering

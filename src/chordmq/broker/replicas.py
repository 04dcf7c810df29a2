"""All copies on this node: joins their messages, brings answers, and writes their proposals."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from chordmq.broker.replica import FetchIds, Replica
from chordmq.clock import Clock
from chordmq.cluster.link import Caller
from chordmq.cluster.metastore.store import Compare, MetaStore, Put, StoreConflict
from chordmq.cluster.replication.leader import Lease, Proposal, Source
from chordmq.cluster.state import PartitionState, decode, encode, partition_key
from chordmq.codecs.peer.frames import Body, Kind
from chordmq.codecs.peer.replica import (
    Answer,
    Fetch,
    Outcome,
    Place,
    read_answers,
    read_fetches,
    write_answers,
    write_fetches,
)
from chordmq.errors import StoreUnavailable, UnknownOutcome
from chordmq.logs import get_logger
from chordmq.metrics import Metric, counter, gauge
from chordmq.storage import watermarks

log = get_logger(__name__)

TICK_S = 0.1
WATERMARK_DELAY_S = 0.01
"""How long followers wait for a high watermark that no records carry."""
DOUBT_S = 0.2
LAG_MAX_S = 30.0
SAVE_INTERVAL_S = 5.0

Compares = Callable[[int, int], list[Compare]]
"""The conditions under which a broker lives, in the epoch named."""


class Wire(Protocol):
    """The links to the other nodes."""

    def send(self, broker: int, kind: int, body: Body) -> bool:
        """Send a notice; False if there is no link to the node now."""
        ...

    def is_connected(self, broker: int) -> bool:
        """Return whether a node can be reached now."""
        ...


class Replicas:
    """What the copies of one node share; used by a node that is part of a cluster."""

    def __init__(
        self, broker: int, clock: Clock, find: Callable[[bytes, int], Replica | None]
    ) -> None:
        self.broker = broker
        self.broker_epoch = 0
        self.lease = Lease()
        self.rules_lag_max_s = LAG_MAX_S
        self.on_turned: list[Callable[[], None]] = []
        """Told whenever a copy has begun to lead, or to follow, or neither."""
        self._clock = clock
        self._find = find
        self._wire: Wire | None = None
        self._store: MetaStore | None = None
        self._compares: Compares | None = None
        self._ids = FetchIds(0)
        self._by_place: dict[Place, Replica] = {}
        self._fetches: dict[int, list[tuple[Place, Fetch]]] = {}
        self._answers: dict[int, list[tuple[Place, Answer]]] = {}
        self._to_serve: list[Replica] = []
        self._to_tell: dict[Replica, None] = {}
        self._is_scheduled = False
        self._tasks: asyncio.TaskGroup | None = None
        self._changes = 0
        self._directory: Path | None = None
        self._known: dict[watermarks.Place, int] = {}
        """How far copies were committed when the node last said so."""

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._by_place.values()))

    def open(self, directory: Path) -> None:
        """Recall how far copies were committed, and keep that below the directory from now on."""
        self._directory = directory
        self._known = watermarks.load(directory)

    def save(self) -> None:
        """Keep how far copies are committed; blocks."""
        if self._directory is not None:
            self._save(self._directory, self._watermarks())

    def _watermarks(self) -> dict[watermarks.Place, int]:
        return {replica.place: replica.partition.high_watermark for replica in self}

    def _save(self, directory: Path, now: dict[watermarks.Place, int]) -> None:
        """Write the file unless it says the same; what cannot be written is found out anew."""
        if now != self._known:
            try:
                watermarks.save(directory, now)
            except OSError as error:
                log.warning("high watermarks not kept", reason=str(error))
            else:
                self._known = now

    def connect(self, wire: Wire, store: MetaStore, compares: Compares) -> None:
        """Take the links and the store that the copies work with."""
        self._wire, self._store, self._compares = wire, store, compares

    def begin(self, broker_epoch: int) -> None:
        """Take note that the node has registered (again)."""
        self.broker_epoch = broker_epoch
        self._ids = FetchIds(broker_epoch)

    def on_state(self, topic_id: bytes, index: int, state: PartitionState, revision: int) -> None:
        """Bring the copy here, if there is one, what the store says of its partition."""
        place, replica = Place(topic_id, index), self._find(topic_id, index)
        if replica is not None:
            if self._by_place.get(place) is not replica:
                self._by_place[place] = replica
                replica.recall(self._known.get(place, 0))
            replica.on_state(place, state, revision)
        else:
            self._by_place.pop(place, None)

    async def run(self) -> None:
        """Look after what takes too long, and write proposals, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._keep_saving())
            try:
                while True:
                    await asyncio.sleep(TICK_S)
                    for replica in self:
                        replica.tick()
            finally:
                self._tasks = None

    async def _keep_saving(self) -> None:
        while self._directory is not None:
            await asyncio.sleep(SAVE_INTERVAL_S)
            await asyncio.to_thread(self._save, self._directory, self._watermarks())

    def measures(self) -> Iterator[Metric]:
        """Yield how far followers are behind, and how often in-sync sets have changed."""
        lags = [replica.lag for replica in self]
        yield gauge(
            "chordmq_replica_lag_records",
            "Records that the slowest follower of a partition led here does not have yet.",
            max(lags, default=0),
        )
        yield counter(
            "chordmq_in_sync_changes", "Changes of in-sync sets by this node.", self._changes
        )

    # What the copies ask of their node.

    def now_s(self) -> float:
        """Return seconds that never go back."""
        return self._clock.monotonic_s()

    def fetch_ids(self) -> FetchIds:
        """Return where the ids of fetches come from."""
        return self._ids

    def send_fetch(self, leader: int, place: Place, fetch: Fetch) -> bool:
        """Send a fetch with the others of this turn; False if the leader cannot be reached."""
        if self._wire is None or not self._wire.is_connected(leader):
            return False
        self._fetches.setdefault(leader, []).append((place, fetch))
        self._schedule()
        return True

    def send_answer(self, follower: int, place: Place, answer: Answer) -> None:
        """Send an answer with the others of this turn."""
        self._answers.setdefault(follower, []).append((place, answer))
        self._schedule()

    def serve_soon(self, replica: Replica) -> None:
        """Serve the copy's followers at the end of this turn of the loop."""
        self._to_serve.append(replica)
        self._schedule()

    def tell_soon(self, replica: Replica) -> None:
        """Tell followers in a moment how far is committed, unless records take it along."""
        if not self._to_tell:
            asyncio.get_running_loop().call_later(WATERMARK_DELAY_S, self._tell)
        self._to_tell[replica] = None

    def propose(self, replica: Replica, proposal: Proposal) -> None:
        """Write a change of an in-sync set to the store."""
        self._start(self._write(replica, proposal))

    def hand_over(self, replica: Replica, state: PartitionState, broker_epoch: int) -> None:
        """Have the state's leader lead from the next epoch on, if it lives in that epoch of its."""
        state = replace(state, leader_epoch=state.leader_epoch + 1)
        self._start(self._hand_over(replica, state, broker_epoch))

    def turned(self) -> None:
        """Tell those who need to know that a copy leads now, or does not."""
        for watcher in self.on_turned:
            watcher()

    # Messages.

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Send what has come together in this turn, one notice for each node."""
        to_serve, self._to_serve = self._to_serve, []
        for replica in to_serve:
            replica.serve()
        self._is_scheduled = False
        fetches, self._fetches = self._fetches, {}
        answers, self._answers = self._answers, {}
        if self._wire is None:
            return
        for broker, rows in fetches.items():
            self._wire.send(broker, Kind.REPLICA_FETCH, [write_fetches(rows)])
        for broker, told in answers.items():
            self._wire.send(broker, Kind.REPLICA_ANSWER, write_answers(told))

    def _tell(self) -> None:
        to_tell, self._to_tell = self._to_tell, {}
        for replica in to_tell:
            replica.tell_watermark()

    def on_fetches(self, caller: Caller, body: memoryview) -> None:
        """Take in the fetches of a follower."""
        source = Source(caller.broker, caller.epoch)
        for place, fetch in read_fetches(body):
            replica = self._by_place.get(place)
            if replica is not None:
                replica.on_fetch(source, fetch)
            else:
                refusal = Answer(fetch.id, fetch.leader_epoch, Outcome.NOT_YET)
                self.send_answer(caller.broker, place, refusal)

    def on_answers(self, caller: Caller, body: memoryview) -> None:
        """Take in the answers of a leader."""
        for place, answer in read_answers(body):
            replica = self._by_place.get(place)
            if replica is not None:
                replica.on_answer(caller.broker, answer)

    def on_connected(self, broker: int) -> None:
        """Take note that a node can be reached (again)."""
        for replica in self:
            replica.fetch()

    def on_lost(self, broker: int) -> None:
        """Take note that the link to a node is gone."""
        for replica in self:
            replica.forget(broker)

    # Proposals.

    def _start(self, work: Coroutine[None, None, None]) -> None:
        if self._tasks is None:
            work.close()
        else:
            self._tasks.create_task(work)

    async def _write(self, replica: Replica, proposal: Proposal) -> None:
        """Write a proposal if all is still as it was; tell the copy what became of it."""
        assert self._store is not None
        assert self._compares is not None
        key = partition_key(*replica.place)
        compares = [Compare(key, revision=proposal.revision)]
        for broker, epoch in {self.broker: self.broker_epoch, **proposal.added}.items():
            compares += self._compares(broker, epoch)
        try:
            revision = await self._store.commit(compares, [Put(key, encode(proposal.state))])
        except StoreConflict:
            await self._reread(replica, proposal)
        except StoreUnavailable:
            replica.on_refused(proposal)
        except UnknownOutcome:
            await self._end_doubt(replica, proposal)
        else:
            self._changes += 1
            log.info("in-sync set changed", log=replica.partition.log.name, isr=proposal.state.isr)
            replica.on_state(replica.place, proposal.state, revision)

    async def _hand_over(self, replica: Replica, state: PartitionState, broker_epoch: int) -> None:
        assert self._store is not None
        assert self._compares is not None
        key = partition_key(*replica.place)
        compares = [Compare(key, revision=replica.revision)]
        compares += self._compares(state.leader, broker_epoch)
        try:
            revision = await self._store.commit(compares, [Put(key, encode(state))])
        except (StoreConflict, StoreUnavailable, UnknownOutcome) as error:
            log.warning("leadership stays", log=replica.partition.log.name, reason=str(error))
            return
        log.info("leadership given up", log=replica.partition.log.name, to=state.leader)
        replica.on_state(replica.place, state, revision)

    async def _reread(self, replica: Replica, proposal: Proposal) -> None:
        """Adopt what is in the store; if that is as it was, the proposal was refused for good."""
        assert self._store is not None
        while True:
            try:
                entry = await self._store.get(partition_key(*replica.place))
            except (StoreUnavailable, UnknownOutcome):
                await asyncio.sleep(DOUBT_S)
                continue
            if entry is not None and entry.revision > proposal.revision:
                replica.on_state(replica.place, decode(entry, PartitionState), entry.revision)
            replica.on_refused(proposal)
            return

    async def _end_doubt(self, replica: Replica, proposal: Proposal) -> None:
        """Write the state once more as it was, so that the lost proposal can never come true."""
        assert self._store is not None
        key = partition_key(*replica.place)
        while replica.revision == proposal.revision and replica.state is not None:
            await asyncio.sleep(DOUBT_S)
            compares = [Compare(key, revision=proposal.revision)]
            try:
                revision = await self._store.commit(compares, [Put(key, encode(replica.state))])
            except StoreConflict:
                await self._reread(replica, proposal)
                return
            except (StoreUnavailable, UnknownOutcome):
                continue
            replica.on_state(replica.place, replica.state, revision)

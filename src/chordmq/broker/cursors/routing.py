"""The way to shared cursors of a cluster, whichever node keeps them."""

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Protocol
from weakref import WeakSet

from chordmq.broker.cursors.cursor import Cursor, Policy
from chordmq.broker.cursors.exchange import Exchange, Nodes, Rows, rules_of
from chordmq.broker.cursors.records import CursorKey
from chordmq.broker.cursors.routed import Asking, RoutedCursor
from chordmq.broker.cursors.shared_cursor import Limits
from chordmq.broker.cursors.wishes import Opening, Rules
from chordmq.broker.topics import Topics
from chordmq.cluster.state import NO_LEADER
from chordmq.errors import CoordinatorLoading, CoordinatorNotAvailable, NotLeader, UnknownTopic

PATIENCE_S = 8.0
"""How long a new leader is waited for that is to keep a cursor."""
LOOK_INTERVAL_S = 0.05


class Keeper(Protocol):
    """The cursors that this node keeps."""

    async def open_here(
        self, group: str, topic: str, partition: int, start_ms: int, policy: Policy | None = None
    ) -> Cursor:
        """Return a group's cursor, which this node keeps."""
        ...

    async def read_log(self, log_partition: int) -> Rows:
        """Return the newest state of each cursor in a partition of the log."""
        ...

    def kept(self, key: CursorKey) -> Cursor:
        """Return a cursor that is kept here; raise why it is not."""
        ...

    def here(self, key: CursorKey) -> Cursor | None:
        """Return a cursor if it is kept here now."""
        ...


class Routing:
    """Opens cursors on the nodes that lead their partitions, and gives fronts a way to them."""

    def __init__(self, nodes: Nodes, topics: Topics, keeper: Keeper) -> None:
        self._topics = topics
        self._keeper = keeper
        self._routed: dict[CursorKey, WeakSet[RoutedCursor]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self.exchange = Exchange(nodes, topics, self)
        self.node_name = uuid.uuid4().hex
        self.asking: set[Asking] = set()

    async def open(
        self, group: str, topic: str, partition: int, start_ms: int, policy: Policy | None
    ) -> None:
        """Have a group's cursor on whichever node leads the partition."""
        wanted = Opening(group, topic, partition, start_ms, rules_of(policy))
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while True:
            target = self._topics.get(topic)
            if not 0 <= partition < len(target.partitions):
                count = len(target.partitions)
                raise UnknownTopic(f"{topic} has {count} partitions, not {partition}")
            try:
                if target.partitions[partition].is_leader:
                    await self._keeper.open_here(group, topic, partition, start_ms, policy)
                else:
                    await self.exchange.open(wanted)
            except (CoordinatorLoading, CoordinatorNotAvailable, NotLeader):
                if loop.time() > deadline_s:
                    raise
                await asyncio.sleep(LOOK_INTERVAL_S)
            else:
                return

    def cursor(self, group: str, topic: str, partition: int, *, is_bound: bool) -> RoutedCursor:
        """Return the way to a cursor."""
        target = self._topics.get(topic)
        if not 0 <= partition < len(target.partitions):
            raise UnknownTopic(f"{topic} has {len(target.partitions)} partitions, not {partition}")
        key = CursorKey(group, target.id, partition)
        routed = RoutedCursor(key, target.partitions[partition], self, is_bound=is_bound)
        self._routed.setdefault(key, WeakSet()).add(routed)
        return routed

    def look_again(self) -> None:
        """Take note that other nodes may keep some cursors now."""
        for key, cursors in list(self._routed.items()):
            if not cursors:
                del self._routed[key]
            for cursor in list(cursors):
                cursor.look_again()

    # What the ways ask.

    def here(self, key: CursorKey) -> Cursor | None:
        """Return a cursor if it is kept here now."""
        return self._keeper.here(key)

    def leader_of(self, key: CursorKey) -> tuple[int, int]:
        """Return who keeps a cursor, and in which epoch, as far as is known."""
        partition = self._topics.partition(key.topic_id, key.partition)
        if partition is None or partition.replica is None:
            return NO_LEADER, -1
        return partition.replica.leader_hint

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Do some work in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    # What the exchange asks.

    async def open_for(self, wanted: Opening) -> None:
        """Open a cursor for another node."""
        place = (wanted.group, wanted.topic, wanted.partition, wanted.start_ms)
        await self._keeper.open_here(*place, _policy(wanted.rules))

    async def read_log(self, log_partition: int) -> Rows:
        """Return the newest state of each cursor in a partition of the log."""
        return await self._keeper.read_log(log_partition)

    def kept(self, key: CursorKey) -> Cursor:
        """Return a cursor that is kept here; raise why it is not."""
        return self._keeper.kept(key)

    def heard(self, key: CursorKey) -> None:
        """Take note that a cursor elsewhere may have something to take."""
        for cursor in list(self._routed.get(key, ())):
            cursor.look_again()


def _policy(rules: Rules | None) -> Policy | None:
    """Return a policy that has come from another node."""
    if rules is None:
        return None
    limits = Limits(rules.lock_ms, rules.deliveries_max, rules.in_flight_max)
    return Policy(limits, rules.only_stable, rules.dead_letter)

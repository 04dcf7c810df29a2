"""What people ask of a cluster: another leader, other replicas, a broker less."""

from collections.abc import Callable, Sequence

from chordmq.cluster.elections import (
    Rules,
    cancelled,
    elected,
    elected_uncleanly,
    fenced,
    led_by_preferred,
    reassigned,
)
from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import Compare, Delete, Put, StoreConflict
from chordmq.cluster.state import (
    NO_LEADER,
    PARTITIONS,
    PartitionState,
    broker_key,
    clean_key,
    decode,
    encode,
    partition_key,
    partition_of,
)
from chordmq.errors import (
    BrokerIsLive,
    ConcurrentChange,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    NoReassignment,
    PreferredLeaderNotAvailable,
    UnknownBroker,
    UnknownTopic,
)

ATTEMPTS = 5

Step = Callable[[PartitionState, Rules], PartitionState]
"""Makes the next state of one, or raises why it cannot be."""


class Administration:
    """Changes partitions by compare-and-set, whoever is controller."""

    def __init__(self, image: Image, members: Members, rules: Callable[[bytes], Rules]) -> None:
        self._image = image
        self._members = members
        self._rules = rules

    async def elect_preferred(self, topic: bytes, index: int) -> None:
        """Have the first of a partition's replicas lead it."""

        def step(state: PartitionState, rules: Rules) -> PartitionState:
            if state.leader == state.replicas[0]:
                raise ElectionNotNeeded("The preferred replica leads the partition.")
            changed = led_by_preferred(state, self._members.live(), rules)
            if changed == state:
                raise PreferredLeaderNotAvailable("The preferred replica is not in sync, or away.")
            return changed

        await self._change(topic, index, step)

    async def elect_any(self, topic: bytes, index: int) -> None:
        """Have any living replica lead a partition without leader; records may be lost."""

        def step(state: PartitionState, rules: Rules) -> PartitionState:
            if state.leader != NO_LEADER:
                raise ElectionNotNeeded("The partition has a leader.")
            changed = elected_uncleanly(state, self._members.live(), rules)
            if changed == state:
                raise EligibleLeadersNotAvailable("No replica of the partition lives.")
            return changed

        await self._change(topic, index, step)

    async def reassign(self, topic: bytes, index: int, replicas: Sequence[int]) -> None:
        """Have other brokers hold a partition; it moves while it is used."""
        self.check_replicas(replicas)
        await self._change(topic, index, lambda state, _: reassigned(state, replicas))

    async def cancel(self, topic: bytes, index: int) -> None:
        """Leave a partition with those who held it before it began to move."""

        def step(state: PartitionState, _rules: Rules) -> PartitionState:
            if not state.adding and not state.removing:
                raise NoReassignment("No reassignment of this partition is under way.")
            return cancelled(state)

        await self._change(topic, index, step)

    def check_replicas(self, replicas: Sequence[int]) -> None:
        """Raise InvalidReplicaAssignment unless these brokers can hold a partition."""
        known = {member.id for member in self._members.all()} | {self._members.node_id}
        if not replicas:
            raise InvalidReplicaAssignment("A partition needs a replica.")
        if len(set(replicas)) < len(replicas):
            raise InvalidReplicaAssignment(f"The replicas {list(replicas)} name a node twice.")
        if not set(replicas) <= known:
            raise InvalidReplicaAssignment(
                f"The replicas {list(replicas)} cannot be placed; there are {sorted(known)}."
            )

    async def unregister(self, broker: int) -> None:
        """Forget a broker that is gone for good: it holds nothing that counts any more."""
        member = self._members.get(broker)
        if member is None:
            raise UnknownBroker(f"no node {broker} is registered")
        if member.is_live:
            raise BrokerIsLive(f"node {broker} lives; stop it first")
        for entry in self._image.under(PARTITIONS):
            topic, index = partition_of(entry.key)
            if broker in (state := decode(entry, PartitionState)).isr + state.elr:
                await self._change(topic, index, lambda s, r: self._without(s, r, broker))
        await self._image.commit([], [Delete(broker_key(broker)), Delete(clean_key(broker))])

    def _without(self, state: PartitionState, rules: Rules, broker: int) -> PartitionState:
        # Its disk is gone: whatever the settings say, it has lost what it had.
        lost = Rules(min_in_sync=rules.min_in_sync, is_durable=False)
        changed = fenced(state, broker, lost, lost=True)
        return elected(changed, self._members.live(), rules)

    async def _change(self, topic: bytes, index: int, step: Step) -> None:
        if self._members.is_alone:
            alone = self._members.begin((self._members.node_id,))
            assert step(alone, self._rules(topic)) == alone, "one node has one possible state"
            return
        key = partition_key(topic, index)
        for _ in range(ATTEMPTS):
            entry = await self._image.store.get(key)
            if entry is None:
                raise UnknownTopic("the partition is not there")
            state = decode(entry, PartitionState)
            changed = step(state, self._rules(topic))
            if changed == state:
                return
            try:
                compare = Compare(key, revision=entry.revision)
                await self._image.commit([compare], [Put(key, encode(changed))])
            except StoreConflict:
                continue
            return
        raise ConcurrentChange("others keep changing the partition; try again")

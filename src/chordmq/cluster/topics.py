"""Topics and the states of their partitions in the store, and which of them this node holds."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from chordmq.cluster.image import Image
from chordmq.cluster.members import Members
from chordmq.cluster.metastore.store import (
    Compare,
    Delete,
    DeleteUnder,
    Entry,
    Event,
    Put,
    StoreConflict,
    absent,
    present,
    unchanged,
)
from chordmq.cluster.state import (
    DEFAULTS,
    PARTITIONS,
    TOPICS,
    PartitionState,
    Settings,
    TopicState,
    decode,
    encode,
    name_of,
    partition_key,
    partition_of,
    partitions_key,
    topic_key,
)
from chordmq.dataclass import dataclass
from chordmq.storage.metadata.held import HeldRow, HeldTable

UNKNOWN = PartitionState(replicas=())


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic as the store knows it."""

    id: bytes
    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = 1
    is_manual: bool = False
    """Whether a person has said who holds its partitions, and not the ring."""


class TopicTable:
    """The durable list of topics; each change is in the store when its call returns.

    A topic exists exactly as long as its own entry: the states of its partitions are written
    before it and removed after it. A node alone writes none, as they say nothing: it has all.
    """

    def __init__(self, image: Image, held: HeldTable, members: Members) -> None:
        self.image = image
        self.held = held
        self.members = members
        alone = (members.node_id,)
        self._alone = PartitionState(replicas=alone, leader=members.node_id, isr=alone)
        self._decoded: dict[tuple[bytes, int], tuple[PartitionState, int]] = {}
        """What was read of entries, and at which revision: clients ask often."""
        image.listen(PARTITIONS, self._forget)

    def rows(self) -> list[TopicRow]:
        """Return every topic, in the order of their names."""
        rows = [_row(entry) for entry in self.image.under(TOPICS)]
        return sorted(rows, key=lambda row: row.name)

    def find(self, name: str) -> TopicRow | None:
        """Return a topic, or None."""
        entry = self.image.get(topic_key(name))
        return _row(entry) if entry else None

    def state(self, topic: bytes, partition: int) -> tuple[PartitionState, int]:
        """Return who holds and who leads a partition, and the revision of that."""
        if self.members.is_alone:
            return self._alone, 0
        entry = self.image.get(partition_key(topic, partition))
        if entry is None:
            return UNKNOWN, 0
        known = self._decoded.get((topic, partition))
        if known is None or known[1] != entry.revision:
            known = self._decoded[topic, partition] = decode(entry, PartitionState), entry.revision
        return known

    def holds(self, topic: bytes, partition: int) -> bool:
        """Return whether this node is a replica of a partition."""
        return self.members.node_id in self.state(topic, partition)[0].replicas

    async def exists(self, name: str, topic: bytes) -> bool:
        """Ask the store itself whether a topic is there: nothing is deleted on hearsay."""
        entry = await self.image.store.get(topic_key(name))
        return entry is not None and _row(entry).id == topic

    async def is_held(self, topic: bytes, partition: int) -> bool:
        """Ask the store itself whether this node is a replica of a partition."""
        entry = await self.image.store.get(partition_key(topic, partition))
        return entry is not None and self.members.node_id in decode(entry, PartitionState).replicas

    def held_of(self, row: TopicRow) -> list[HeldRow]:
        """Return the partitions of a topic of which this node is a replica."""
        return [
            HeldRow(row.id, row.name, index)
            for index in range(row.partitions)
            if self.holds(row.id, index)
        ]

    async def insert(self, row: TopicRow, states: Sequence[PartitionState] = ()) -> None:
        """Add a topic, or raise StoreConflict if its name is taken."""
        await self._put_states(row.id, range(row.partitions), states, [])
        compares = [absent(topic_key(row.name))]
        if not self.members.is_alone:  # a controller takes away states that no topic comes for
            compares.append(present(partition_key(row.id, 0)))
        try:
            await self.image.commit(compares, [_put(row)])
        except StoreConflict:
            await self.image.commit([], [DeleteUnder(partitions_key(row.id))])
            raise

    async def grow(self, row: TopicRow, states: Sequence[PartitionState] = ()) -> None:
        """Let a topic have as many partitions as the row says; the states are of the new ones."""
        entry = self._entry(row)
        now = decode(entry, TopicState).partitions
        as_before = [unchanged(entry.key, entry)]
        await self._put_states(row.id, range(now, row.partitions), states, as_before)
        await self.image.commit(as_before, [_put(row)])

    async def change(self, row: TopicRow) -> None:
        """Replace what is said of a topic, but for its partitions, by the row."""
        entry = self._entry(row)
        await self.image.commit([unchanged(entry.key, entry)], [_put(row)])

    async def remove(self, row: TopicRow) -> None:
        """Delete a topic."""
        entry = self._entry(row)
        await self.image.commit([unchanged(entry.key, entry)], [Delete(entry.key)])
        if not self.members.is_alone:
            await self.image.commit([], [DeleteUnder(partitions_key(row.id))])

    def defaults(self) -> dict[str, str]:
        """Return the defaults of all topics that were changed while nodes ran."""
        entry = self.image.get(DEFAULTS)
        return decode(entry, Settings).settings if entry else {}

    async def set_defaults(self, settings: Mapping[str, str]) -> None:
        """Replace all such defaults."""
        put = Put(DEFAULTS, encode(Settings(settings=dict(settings))))
        await self.image.commit([unchanged(DEFAULTS, self.image.get(DEFAULTS))], [put])

    def _forget(self, events: list[Event]) -> None:
        for event in events:
            if event.entry is None:
                self._decoded.pop(partition_of(event.key), None)

    def _entry(self, row: TopicRow) -> Entry:
        """Return the topic's entry, or raise StoreConflict if it is another's by now."""
        entry = self.image.get(topic_key(row.name))
        if entry is None or _row(entry).id != row.id:
            raise StoreConflict
        return entry

    async def _put_states(
        self,
        topic: bytes,
        partitions: range,
        states: Sequence[PartitionState],
        compares: Sequence[Compare],
    ) -> None:
        if self.members.is_alone:
            return
        puts = [
            Put(partition_key(topic, index), encode(state))
            for index, state in zip(partitions, states, strict=True)
        ]
        size = self.image.store.operations_max
        for start in range(0, len(puts), size):
            await self.image.commit(compares, puts[start : start + size])


def _row(entry: Entry) -> TopicRow:
    state = decode(entry, TopicState)
    return TopicRow(
        bytes.fromhex(state.id),
        name_of(entry.key),
        state.partitions,
        state.settings,
        state.replication_factor,
        state.is_manual,
    )


def _put(row: TopicRow) -> Put:
    state = TopicState(
        id=row.id.hex(),
        partitions=row.partitions,
        replication_factor=row.replication_factor,
        settings=dict(row.settings),
        is_manual=row.is_manual,
    )
    return Put(topic_key(row.name), encode(state))

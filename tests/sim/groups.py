"""Consumer groups under a seeded schedule of everything that can go wrong with their log.

Members join, are told what they read and from where, and commit, while the brokers that keep the
log of their groups crash, stop, lose power and lose touch as in `replication`. The log that all
agree on in the end is the judge: what a member was told must stand there.
"""

from bisect import bisect_left
from collections.abc import Callable

from msgspec.structs import replace

from chordmq.broker.groups.consumer_image import HoldingRecord, Image, TargetEpochRecord
from chordmq.broker.groups.offsets import OffsetRecord, Offsets
from chordmq.broker.groups.records import GroupRecord
from chordmq.cluster.state import NO_LEADER, PartitionState
from chordmq.codecs.peer.replica import Answer
from chordmq.errors import ChordMQError
from tests.sim.brokers import Kinds, Process, Violation
from tests.sim.coordinator import (
    CONSUMERS,
    GROUPS,
    METADATA_BYTES_MAX,
    PARTITIONS,
    Batch,
    Coordinator,
    Entry,
    replay,
)
from tests.sim.members import Call, Client, Consumer, Member
from tests.sim.replication import World

MEMBERS = 2
"""Of each group of the classic protocol."""
CONSUMER_COUNT = 3
STEPS = 500
SETTLING_ROUNDS = 300


class Trail:
    """What the committed log says of one group, in its order."""

    def __init__(self) -> None:
        self.generation = 0
        self.begun: dict[int, int] = {}
        """Where each generation was written."""
        self.assigned: dict[int, dict[str, bytes]] = {}
        self.positions: dict[int, list[int]] = {one: [] for one in range(PARTITIONS)}
        """Where commits of each partition were written."""
        self.places: dict[int, int] = {}
        """Where each committed offset was written."""

    def add(self, position: int, entry: Entry) -> None:
        """Take in what comes next, and check it against what came before."""
        if isinstance(entry, OffsetRecord):
            self._add_commit(position, entry)
        elif isinstance(entry, GroupRecord) and entry.snapshot is not None:
            told = {one.member_id: one.assignment for one in entry.snapshot.members}
            generation = entry.snapshot.generation
            if generation <= self.generation:
                raise Violation("a generation is formed twice")
            self.generation = generation
            self.begun[generation], self.assigned[generation] = position, told

    def _add_commit(self, position: int, record: OffsetRecord) -> None:
        assert record.committed is not None
        if int(record.committed.metadata) < self.generation:
            raise Violation("a member of an earlier generation commits")
        self.positions[record.key.partition].append(position)
        self.places[record.committed.offset] = position

    def check_told(self, generation: int, partition: int, offset: int | None) -> None:
        """Check an offset told to a member: committed, and not before its generation began."""
        positions, began = self.positions[partition], self.begun[generation]
        earlier = bisect_left(positions, began)
        last = positions[earlier - 1] if earlier else -1
        if offset is not None and offset not in self.places:
            raise Violation("a member is told what is not committed")
        if (-1 if offset is None else self.places[offset]) < last:
            raise Violation("what was committed goes back")


class ConsumersTrail:
    """What the committed log says of the consumers."""

    def __init__(self) -> None:
        self.image = Image(CONSUMERS)

    def add(self, _position: int, entry: Entry) -> None:
        """Take in what comes next, and check it against what came before."""
        assert not isinstance(entry, OffsetRecord | GroupRecord)
        if isinstance(entry, TargetEpochRecord) and (entry.epoch or 0) <= self.image.target_epoch:
            raise Violation("partitions are shared out twice in one epoch")
        if isinstance(entry, HoldingRecord) and entry.holding is not None:
            holders = {self.image.holders.get(place) for place in entry.holding.all}
            if not holders <= {None, entry.member_id}:
                raise Violation("two members have the same partition")
        self.image.replay(entry)

    def check_told(self, consumer: Consumer) -> None:
        """Check what a member was told, unless the group has gone on without it."""
        if consumer.member_id not in self.image.members:
            return
        holding = self.image.holding(consumer.member_id)
        if holding.epoch < consumer.epoch:
            raise Violation("a consumer is told an epoch that is not committed")
        if holding.epoch == consumer.epoch and holding.assigned != consumer.owned:
            raise Violation("a consumer is told what the log does not say")


class Grouped(World):
    """The brokers of `replication`, with members of a group as their clients."""

    def __init__(
        self, seed: int, kinds: Kinds, coordinator: type[Coordinator] = Coordinator
    ) -> None:
        self.kind = coordinator
        self.coordinators: dict[int, Coordinator] = {}
        self.trails = {group_id: Trail() for group_id in GROUPS}
        self.consumers_trail = ConsumersTrail()
        self.acknowledged = 0
        self.is_flushed_at_once = False
        super().__init__(seed, kinds)
        self.is_flushed_at_once = self.random.random() < 0.7
        # Mostly one protocol at a time, for longer histories.
        chance = self.random.random()
        groups = GROUPS if chance < 0.7 else ()
        self.members = [Member(self, group_id) for group_id in groups for _ in range(MEMBERS)]
        count = CONSUMER_COUNT if chance > 0.5 else 0
        self.consumers = [Consumer(self, number) for number in range(count)]
        self.clients: list[Client] = [*self.members, *self.consumers]
        self.act_rate = self.random.choice((0.3, 0.5, 0.7))
        self.step_s = self.random.choice((0.01, 0.03, 0.1))
        self.hand_over_rate = self.random.choice((0.0, 0.5, 1.0))

    # What a coordinator needs of its broker.

    def start(self, broker: int) -> None:
        super().start(broker)
        process = self.up[broker]
        self.coordinators[broker] = self.kind(
            process, lambda: self.clock(process), lambda: self.grown(process)
        )

    def grown(self, process: Process) -> None:
        """Take note that a log has grown; some disks flush at once, for quicker schedules."""
        self.progressed(process)
        if self.is_flushed_at_once:
            self.flush(process)
            self.flush(process)

    def deliver_answer(self, broker: int, source: int, answer: Answer) -> None:
        super().deliver_answer(broker, source, answer)
        process = self.up.get(broker)
        if process is not None and not process.is_stopped and self.is_flushed_at_once:
            self.flush(process)
            self.flush(process)

    def turn(self, process: Process, state: PartitionState, revision: int) -> None:
        super().turn(process, state, revision)
        self.coordinators[process.broker].on_turned()

    def produce(self, process: Process) -> None:
        self.coordinators[process.broker].work()

    def committed(self, process: Process, high_watermark: int) -> None:
        known = len(self.seen)
        super().committed(process, high_watermark)
        for position in range(known, len(self.seen)):
            batch: Batch = self.seen[position][1]
            for entry in batch:
                self.trail_of(entry).add(position, entry)
        self.coordinators[process.broker].on_committed(high_watermark)

    def trail_of(self, entry: Entry) -> Trail | ConsumersTrail:
        """Return the story that an entry of the log belongs to."""
        group_id = entry.key.group_id if isinstance(entry, OffsetRecord) else entry.group_id
        return self.consumers_trail if group_id == CONSUMERS else self.trails[group_id]

    # What members need of the world.

    def request(self, client: Client, call: Call, heard: Callable[[object], None]) -> None:
        broker, connection = client.broker, client.connection

        def answer(result: object) -> None:
            self.send(lambda: client.hear(connection, result, heard))

        def deliver() -> None:
            process = self.up.get(broker)
            if process is None or process.is_stopped or client.connection != connection:
                return
            coordinator = self.coordinators[broker]
            try:
                coordinator.check()
                call(coordinator, answer)
            except ChordMQError as error:
                answer(error)
            if self.is_flushed_at_once:
                coordinator.work()

        self.send(deliver)

    def find_coordinator(self) -> int:
        """Return whom a random broker takes for the leader."""
        asked = self.up.get(self.random.randrange(3))
        if asked is None:
            return self.random.randrange(3)
        if asked.follower is not None:
            return asked.follower.leader
        return asked.broker

    def next_value(self) -> int:
        return next(self.values)

    def on_synced(self, member: Member, assignment: bytes) -> None:
        told = self.trails[member.group_id].assigned.get(member.generation, {})
        if told.get(member.identity.member_id) != assignment:
            raise Violation("a member is told what its generation does not say")

    def on_fetched(self, member: Member, partition: int, offset: int | None) -> None:
        self.trails[member.group_id].check_told(member.generation, partition, offset)

    def on_beaten(self, consumer: Consumer) -> None:
        self.consumers_trail.check_told(consumer)

    def on_acknowledged(self, member: Member, partition: int, offset: int) -> None:
        self.acknowledged += 1
        if offset not in self.trails[member.group_id].places:
            raise Violation("a commit is acknowledged before it is committed")

    # The schedule.

    def step(self) -> None:
        if self.random.random() < self.act_rate:
            chance = self.random.random()
            if chance < 0.55:
                self.deliver()
            elif chance < 0.98:
                self.random.choice(self.clients).act()
            elif chance < 0.99:
                self.random.choice(self.clients).lose_touch()
            elif self.random.random() < self.hand_over_rate:
                self.hand_over()
        else:
            super().step()

    def hand_over(self) -> None:
        """Let another in-sync broker lead, as one that cannot write its log does."""
        able = [one for one in self.state.isr if one not in {self.state.leader, *self.fenced}]
        if able and self.state.leader != NO_LEADER:
            epoch = self.state.leader_epoch + 1
            self.put(replace(self.state, leader=self.random.choice(able), leader_epoch=epoch))

    def heal(self) -> str:
        self.is_flushed_at_once = False  # else a round of fetches and answers would not end
        return super().heal()

    def heal_round(self) -> None:
        for process in self.up.values():
            self.coordinators[process.broker].work()
        super().heal_round()

    def settle_groups(self) -> None:
        """Let all go on; each group must come to read and commit, everything once."""
        known = self.acknowledged
        for _ in range(SETTLING_ROUNDS):
            self.heal_round()
            for client in self.clients:
                client.act()
            has_committed = self.acknowledged > known or not self.members
            if has_committed and self._are_members_stable() and self._are_consumers_stable():
                self._check_replay()
                return
        raise Violation("the groups do not go on")

    def _are_members_stable(self) -> bool:
        generations = {(member.group_id, member.generation) for member in self.members}
        groups = {member.group_id for member in self.members}
        return len(generations) == len(groups) and all(one.is_working for one in self.members)

    def _are_consumers_stable(self) -> bool:
        owned = [place for consumer in self.consumers for place in consumer.owned]
        epochs = {consumer.epoch for consumer in self.consumers}
        return not epochs or (len(owned) == len(set(owned)) == PARTITIONS and len(epochs) == 1)

    def _check_replay(self) -> None:
        coordinator = self.coordinators[self.state.leader]
        offsets = Offsets(METADATA_BYTES_MAX)
        replay(self.seen, offsets, Image(CONSUMERS))
        for group_id in GROUPS:
            if offsets.of_group(group_id) != coordinator.offsets.of_group(group_id):
                raise Violation("the coordinator's offsets are not those of the log")


def simulate(
    seed: int, kinds: Kinds, coordinator: type[Coordinator] = Coordinator, steps: int = STEPS
) -> Grouped:
    """Run one schedule to its end; raise Violation if a rule was broken."""
    world = Grouped(seed, kinds, coordinator)
    for _ in range(steps):
        world.step()
    outcome = world.heal()
    if outcome == "healed":
        world.settle_groups()
    elif kinds.waits_for_disk:
        raise Violation(outcome)
    return world


def run(seed: int) -> None:
    """Run one schedule with the broker's machines; the seed also picks the kind of disk."""
    simulate(seed, Kinds(waits_for_disk=seed % 3 != 0))

"""Members of a simulated consumer group: they join, read where to go on, commit, and lose touch."""

from collections.abc import Callable
from typing import Protocol

from chordmq.broker.groups.assignors import NOTHING, Assignment
from chordmq.broker.groups.consumer_groups import JOINING, Beat, Beaten
from chordmq.broker.groups.membership import Identity, Join, Joined, Sync, Synced
from chordmq.broker.groups.offsets import Commit, CommittedOffset, Place
from chordmq.errors import (
    ChordMQError,
    FencedMemberEpoch,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMember,
)
from tests.sim.coordinator import (
    CONSUMERS,
    PARTITIONS,
    SESSION_MS,
    TOPIC,
    Coordinator,
    Heard,
    offset_of,
)

REBALANCE_MS = 6_000
PATIENCE_S = 8.0
"""After which a member takes a request for lost, and its connection too."""

Call = Callable[[Coordinator, Heard], None]


class Surroundings(Protocol):
    """What members need of the world they live in."""

    now_s: float

    def request(self, client: "Client", call: Call, heard: Callable[[object], None]) -> None:
        """Bring a request to the broker that the client talks to, and the answer back."""
        ...

    def find_coordinator(self) -> int:
        """Return the broker that some broker takes for the coordinator."""
        ...

    def next_value(self) -> int:
        """Return an offset that nobody has committed."""
        ...

    def on_synced(self, member: "Member", assignment: bytes) -> None:
        """Check an assignment that a member was told."""
        ...

    def on_fetched(self, member: "Member", partition: int, offset: int | None) -> None:
        """Check an offset that a member was told."""
        ...

    def on_beaten(self, consumer: "Consumer") -> None:
        """Check what a consumer was told to read."""
        ...

    def on_acknowledged(self, member: "Member", partition: int, offset: int) -> None:
        """Take note that a commit was acknowledged."""
        ...


class Client:
    """One request at a time, on one connection at a time, as the clients of a group do."""

    def __init__(self, world: Surroundings, group_id: str) -> None:
        self.group_id = group_id
        self.broker = 0
        self.connection = 0
        """What was sent or asked on an earlier connection is lost."""
        self.is_working = False
        """Whether it knows what it reads, and from where."""
        self._world = world
        self._asked_s: float | None = None

    def act(self) -> None:
        """Ask for the next thing, or give up on an answer that does not come."""
        if self._asked_s is None:
            self.go_on()
        elif self._world.now_s - self._asked_s > PATIENCE_S:
            self.lose_touch()

    def go_on(self) -> None:
        """Ask for the next thing."""
        raise NotImplementedError

    def fail(self, error: ChordMQError) -> None:
        """Do what an error demands, other than to look for the coordinator."""
        raise NotImplementedError

    def lose_touch(self) -> None:
        """Close the connection, and look for the coordinator."""
        self.connection += 1
        self._asked_s = None
        self.broker = self._world.find_coordinator()

    def hear(self, connection: int, answer: object, then: Callable[[object], None]) -> None:
        """Take an answer, unless it belongs to a connection that is closed."""
        if connection != self.connection:
            return
        self._asked_s = None
        if isinstance(answer, ChordMQError):
            self.fail(answer)
        else:
            then(answer)

    def _ask(self, call: Call, then: Callable[[object], None]) -> None:
        self._asked_s = self._world.now_s
        self._world.request(self, call, then)


class Member(Client):
    """A member of a group of the classic protocol."""

    def __init__(self, world: Surroundings, group_id: str) -> None:
        super().__init__(world, group_id)
        self.generation = -1
        self.assigned: list[int] = []
        self._member_id = ""
        self._next: Callable[[], None] = self._join
        self._commits = 0

    @property
    def identity(self) -> Identity:
        """Return who it says it is."""
        return Identity(member_id=self._member_id, generation=self.generation)

    def go_on(self) -> None:
        self._next()

    def lose_touch(self) -> None:
        super().lose_touch()
        self._rejoin()

    def fail(self, error: ChordMQError) -> None:
        if isinstance(error, UnknownMember):
            self._member_id = ""
        elif not isinstance(error, RebalanceInProgress | IllegalGeneration):
            self.lose_touch()
        self._rejoin()

    def _rejoin(self) -> None:
        self.is_working = False
        self._next = self._join

    def _join(self) -> None:
        join = Join(
            protocol_type="consumer",
            protocols=(("range", b""),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
        )
        self._ask(
            lambda coordinator, heard: coordinator.join(self.group_id, join, heard), self._joined
        )

    def _joined(self, answer: object) -> None:
        assert isinstance(answer, Joined)
        self._member_id, self.generation = answer.member_id, answer.generation
        ids = sorted(one.member_id for one in answer.members)
        assignments = {
            one: bytes(range(PARTITIONS)[index :: len(ids)]) for index, one in enumerate(ids)
        }
        sync = Sync(member=self.identity, assignments=assignments)
        self._next = lambda: self._ask(
            lambda coordinator, heard: coordinator.sync(self.group_id, sync, heard), self._synced
        )

    def _synced(self, answer: object) -> None:
        assert isinstance(answer, Synced)
        self._world.on_synced(self, answer.assignment)
        self.assigned = list(answer.assignment)
        self._next = lambda: self._ask(
            lambda coordinator, heard: coordinator.committed(self.group_id, heard), self._fetched
        )

    def _fetched(self, answer: object) -> None:
        assert isinstance(answer, dict)
        committed: dict[Place, CommittedOffset] = answer
        for partition in self.assigned:
            self._world.on_fetched(self, partition, offset_of(committed, (TOPIC, partition)))
        self.is_working = True
        self._next = self._commit

    def _commit(self) -> None:
        self._commits += 1
        if not self.assigned or self._commits % 5 == 0:
            identity = self.identity
            self._ask(
                lambda coordinator, heard: coordinator.heartbeat(self.group_id, identity, heard),
                _ignore,
            )
            return
        partition = self.assigned[self._commits % len(self.assigned)]
        offset, identity = self._world.next_value(), self.identity
        commit = Commit(TOPIC, partition, offset, metadata=str(self.generation))
        self._ask(
            lambda coordinator, heard: coordinator.commit(self.group_id, identity, commit, heard),
            lambda _: self._world.on_acknowledged(self, partition, offset),
        )


class Consumer(Client):
    """A member of a group of the consumer protocol; each heartbeat says all that it knows."""

    def __init__(self, world: Surroundings, number: int) -> None:
        super().__init__(world, CONSUMERS)
        self.member_id = f"consumer-{number}"
        self.epoch = JOINING
        self.owned: Assignment = NOTHING

    def go_on(self) -> None:
        beat = Beat(
            member_id=self.member_id,
            epoch=self.epoch,
            topics=frozenset([TOPIC]),
            rebalance_timeout_ms=REBALANCE_MS,
            owned=self.owned,
        )
        self._ask(lambda coordinator, heard: coordinator.beat(beat, heard), self._beaten)

    def fail(self, error: ChordMQError) -> None:
        if isinstance(error, UnknownMember | FencedMemberEpoch):
            self.epoch, self.owned, self.is_working = JOINING, NOTHING, False
        else:
            self.lose_touch()

    def _beaten(self, answer: object) -> None:
        assert isinstance(answer, Beaten)
        assert answer.assignment is not None
        self.epoch, self.owned, self.is_working = answer.epoch, answer.assignment, True
        self._world.on_beaten(self)


def _ignore(_: object) -> None:
    pass

"""Members of a simulated consumer group: they join, read where to go on, commit, and lose touch."""

from collections.abc import Callable
from typing import Protocol

from chordmq.broker.groups.membership import Identity, Join, Joined, Sync, Synced
from chordmq.broker.groups.offsets import Commit, CommittedOffset, Place
from chordmq.errors import ChordMQError, IllegalGeneration, RebalanceInProgress, UnknownMember
from tests.sim.coordinator import Coordinator, Heard, offset_of

TOPIC = "t"
PARTITIONS = range(4)
SESSION_MS = 6_000
REBALANCE_MS = 6_000
PATIENCE_S = 8.0
"""After which a member takes a request for lost, and its connection too."""

Call = Callable[[Coordinator, Heard], None]


class Surroundings(Protocol):
    """What members need of the world they live in."""

    now_s: float

    def request(self, member: "Member", call: Call, heard: Callable[[object], None]) -> None:
        """Bring a request to the broker that the member talks to, and the answer back."""
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

    def on_acknowledged(self, member: "Member", partition: int, offset: int) -> None:
        """Take note that a commit was acknowledged."""
        ...


class Member:
    """One request at a time, on one connection at a time, as the clients of a group do."""

    def __init__(self, world: Surroundings, group_id: str) -> None:
        self.group_id = group_id
        self.broker = 0
        self.connection = 0
        """What was sent or asked on an earlier connection is lost."""
        self.generation = -1
        self.assigned: list[int] = []
        self.is_working = False
        """Whether it knows what it reads, and from where."""
        self._world = world
        self._member_id = ""
        self._asked_s: float | None = None
        self._next: Callable[[], None] = self._join
        self._commits = 0

    @property
    def identity(self) -> Identity:
        """Return who it says it is."""
        return Identity(member_id=self._member_id, generation=self.generation)

    def act(self) -> None:
        """Ask for the next thing, or give up on an answer that does not come."""
        if self._asked_s is None:
            self._next()
        elif self._world.now_s - self._asked_s > PATIENCE_S:
            self.lose_touch()

    def lose_touch(self) -> None:
        """Close the connection, and look for the coordinator."""
        self.connection += 1
        self._asked_s = None
        self.broker = self._world.find_coordinator()
        self._rejoin()

    def hear(self, connection: int, answer: object, then: Callable[[object], None]) -> None:
        """Take an answer, unless it belongs to a connection that is closed."""
        if connection != self.connection:
            return
        self._asked_s = None
        if not isinstance(answer, ChordMQError):
            then(answer)
        elif isinstance(answer, RebalanceInProgress | IllegalGeneration):
            self._rejoin()
        elif isinstance(answer, UnknownMember):
            self._member_id = ""
            self._rejoin()
        else:
            self.lose_touch()

    def _ask(self, call: Call, then: Callable[[object], None]) -> None:
        self._asked_s = self._world.now_s
        self._world.request(self, call, then)

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
        assignments = {one: bytes(PARTITIONS[index :: len(ids)]) for index, one in enumerate(ids)}
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


def _ignore(_: object) -> None:
    pass

"""Drives the machine of one group as its clients, its log and its timer would."""

import itertools

from chordmq.broker.groups.classic_groups import Answer, Group
from chordmq.broker.groups.classic_states import State
from chordmq.broker.groups.membership import (
    GroupSnapshot,
    Identity,
    Join,
    Joined,
    Leaver,
    Protocols,
    Sync,
    Synced,
)
from chordmq.broker.settings import BrokerSettings
from chordmq.errors import ChordMQError

SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE: Protocols = (("range", b"r"),)
DELAY_MS = 100


class Driver:
    """A group with its clients: hands out tickets, logs at once what is to be logged."""

    def __init__(self, *, log_at_once: bool = True, **settings: int) -> None:
        values = {
            "group_min_session_timeout_ms": 10,
            "group_initial_rebalance_delay_ms": 0,
            **settings,
        }
        ids = itertools.count(1)
        self.settings = BrokerSettings(**values)  # type: ignore[arg-type]
        self.group = Group("g", self.settings, lambda: str(next(ids)))
        self.now_ms = 0
        self.answers: dict[int, Answer] = {}
        self.logged: list[GroupSnapshot] = []
        self.unlogged: list[GroupSnapshot] = []
        self._log_at_once = log_at_once
        self._tickets = itertools.count()

    def join(self, name: str = "c", **changes: object) -> int:
        """Send a join and return its ticket."""
        fields: dict[str, object] = {
            "client_id": name,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            **changes,
        }
        ticket = next(self._tickets)
        try:
            self.group.join(Join(**fields), ticket, self.now_ms)  # type: ignore[arg-type]
        finally:
            self.collect()
        return ticket

    def sync(self, joined: Joined, **assignments: bytes) -> int:
        """Send a sync and return its ticket."""
        ticket = next(self._tickets)
        by_id = {name.replace("_", "-"): part for name, part in assignments.items()}
        self.group.sync(Sync(member=identity(joined), assignments=by_id), ticket, self.now_ms)
        self.collect()
        return ticket

    def state(self) -> State:
        return self.group.state

    def heartbeat(self, joined: Joined) -> None:
        self.group.heartbeat(identity(joined), self.now_ms)

    def leave(self, *leavers: Leaver) -> list[ChordMQError | None]:
        results = self.group.leave(leavers, self.now_ms)
        self.collect()
        return results

    def advance(self, ms: int) -> None:
        """Let time pass, with a tick at each deadline on the way, as the timer would."""
        end_ms = self.now_ms + ms
        while True:
            deadline_ms = self.group.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.group.tick(self.now_ms)
            self.collect()
        self.now_ms = end_ms

    def collect(self) -> None:
        outbox = self.group.take_outbox()
        self.answers.update(outbox.answers)
        self.unlogged += outbox.snapshots
        if self._log_at_once:
            self.log()

    def log(self) -> None:
        """Write what waits for the log, and tell the group."""
        while self.unlogged:
            snapshot = self.unlogged.pop(0)
            self.logged.append(snapshot)
            self.group.replay(snapshot, self.now_ms)
            self.collect()

    def joined(self, ticket: int) -> Joined:
        answer = self.answers[ticket]
        assert isinstance(answer, Joined), answer
        return answer

    def synced(self, ticket: int) -> bytes:
        answer = self.answers[ticket]
        assert isinstance(answer, Synced), answer
        return answer.assignment

    def refused(self, ticket: int) -> type[Answer]:
        answer = self.answers[ticket]
        assert isinstance(answer, ChordMQError), answer
        return type(answer)

    def stable(self, count: int = 1, **changes: object) -> list[Joined]:
        """Bring a group of `count` members to its first stable generation; the first leads."""
        tickets = [self.join(f"c{n}", **changes) for n in range(count)]
        if count > 1:  # the first was alone for a generation
            first = self.joined(tickets[0])
            tickets[0] = self.join("c0", member_id=first.member_id, **changes)
            for index in range(1, count - 1):
                if tickets[index] in self.answers:
                    member_id = self.joined(tickets[index]).member_id
                    tickets[index] = self.join(f"c{index}", member_id=member_id, **changes)
        members = [self.joined(ticket) for ticket in tickets]
        parts = {member.member_id.replace("-", "_"): b"" for member in members}
        plan = {name: f"part {n}".encode() for n, name in enumerate(parts)}
        self.sync(members[0], **plan)
        for member in members[1:]:
            self.sync(member)
        assert self.group.state is State.STABLE
        return members


def identity(joined: Joined) -> Identity:
    return Identity(member_id=joined.member_id, generation=joined.generation)

"""Random histories of one group: joins, leaves, time-outs, a slow log and crashes of the node.

Clients here behave as badly as real ones: they answer late, repeat themselves, vanish and come back
as static members. Whatever they do, the group must keep its promises, which are the invariants and
the assertions on each answer.
"""

import itertools
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from chordmq.broker.groups.classic_groups import Group
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
from chordmq.errors import (
    ChordMQError,
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    StorageFailed,
)

SESSION_MS = 1_000
REBALANCE_MS = 3_000
PROTOCOLS: list[Protocols] = [
    (("range", b"r"),),
    (("cooperative-sticky", b"c"), ("range", b"r")),
]


@dataclass(eq=False)
class Client:
    """One consumer process as the group sees it."""

    instance_id: str | None
    takes_id_first: bool
    protocols: Protocols
    member_id: str = ""
    joined: Joined | None = None
    join_ticket: int | None = None
    sync_ticket: int | None = None
    synced_generation: int = -1

    @property
    def identity(self) -> Identity:
        generation = self.joined.generation if self.joined is not None else -1
        return Identity(
            member_id=self.member_id, instance_id=self.instance_id, generation=generation
        )


class GroupHistory(RuleBasedStateMachine):
    """A group, its log, and clients that come and go."""

    clients = Bundle("clients")

    @initialize(delay_ms=st.sampled_from([0, 100]), size=st.sampled_from([3, 1_000]))
    def start(self, delay_ms: int, size: int) -> None:
        self.settings = BrokerSettings(
            group_min_session_timeout_ms=1,
            group_initial_rebalance_delay_ms=delay_ms,
            group_max_size=size,
        )
        self.ids = itertools.count()
        self.tickets = itertools.count()
        self.now_ms = 0
        self.waiting: dict[int, Client] = {}
        self.log: list[GroupSnapshot] = []
        self.unlogged: list[tuple[GroupSnapshot, list[tuple[int, object]]]] = []
        self.plans: dict[tuple[int, str], bytes] = {}
        """What the log says each member was given, by generation."""
        self.generation_seen = 0
        self.everyone: list[Client] = []
        self.log_is_behind = False
        self.group = self.new_group()

    def new_group(self) -> Group:
        return Group("g", self.settings, lambda: str(next(self.ids)))

    @rule(
        target=clients,
        instance=st.sampled_from([None, None, "i0", "i1"]),
        takes_id_first=st.booleans(),
        protocols=st.sampled_from(PROTOCOLS),
    )
    def new_client(
        self, instance: str | None, takes_id_first: bool, protocols: Protocols
    ) -> Client:
        client = Client(instance, takes_id_first, protocols)
        self.everyone.append(client)
        self.join(client)
        return client

    @rule(client=clients)
    def join(self, client: Client) -> None:
        ticket = next(self.tickets)
        join = Join(
            member_id=client.member_id,
            instance_id=client.instance_id,
            client_id="c",
            protocol_type="consumer",
            protocols=client.protocols,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            takes_id_first=client.takes_id_first,
            can_skip_assignment=True,
        )
        try:
            self.waiting[ticket] = client
            client.join_ticket = ticket
            self.group.join(join, ticket, self.now_ms)
        except MemberIdRequired as error:
            del self.waiting[ticket]
            client.member_id = error.member_id
        except ChordMQError:
            del self.waiting[ticket]
            client.member_id = ""  # as clients do when they are not known
        self.collect()

    @rule(client=clients)
    def sync(self, client: Client) -> None:
        if client.joined is None:
            return
        ticket = next(self.tickets)
        plan = {
            member.member_id: f"{client.joined.generation} {member.member_id}".encode()
            for member in client.joined.members
        }
        try:
            self.waiting[ticket] = client
            client.sync_ticket = ticket
            sync = Sync(member=client.identity, assignments=plan)
            self.group.sync(sync, ticket, self.now_ms)
        except ChordMQError:
            del self.waiting[ticket]
        self.collect()

    @rule(client=clients)
    def heartbeat(self, client: Client) -> None:
        try:
            self.group.heartbeat(client.identity, self.now_ms)
        except ChordMQError:
            return
        assert client.member_id in self.group.roster.members

    @rule(client=clients)
    def leave(self, client: Client) -> None:
        leaver = Leaver(member_id=client.member_id, instance_id=client.instance_id)
        self.group.leave([leaver], self.now_ms)
        assert client.member_id not in self.group.roster.members
        self.collect()

    @rule(ms=st.sampled_from([1, 50, 500, 1_000, 3_000]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.group.tick(self.now_ms)
        self.collect()
        deadline_ms = self.group.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms

    @rule()
    def write(self) -> None:
        """Let the log finish its oldest write."""
        if not self.unlogged:
            return
        snapshot, answers = self.unlogged.pop(0)
        self.log.append(snapshot)
        self.log_is_behind = False
        for member in snapshot.members:
            self.plans[snapshot.generation, member.member_id] = member.assignment
        self.group.replay(snapshot, self.now_ms)
        self.deliver(answers)
        self.collect()

    @rule()
    def fail_to_write(self) -> None:
        if not self.unlogged:
            return
        snapshot, answers = self.unlogged.pop(0)
        # A static member that was told of the failure joins again; until then it is ahead.
        self.log_is_behind = True
        self.group.lose(snapshot, StorageFailed("full"), self.now_ms)
        self.deliver([(ticket, StorageFailed("full")) for ticket, _ in answers])
        self.collect()

    @rule()
    def crash(self) -> None:
        """Lose the memory of the node; what is in the log stays."""
        self.waiting.clear()
        self.unlogged.clear()
        self.group = self.new_group()
        self.generation_seen = 0
        self.log_is_behind = False
        if self.log:
            self.group.replay(self.log[-1], self.now_ms)
            self.generation_seen = self.log[-1].generation
            assert saved(self.group) == saved_of(self.log[-1])

    @precondition(lambda self: self.everyone)
    @rule()
    def behave(self) -> None:
        """From here everybody does what a good client does: the group must become stable."""
        by_instance = {c.instance_id or id(c): c for c in self.everyone}
        for _ in range(40):
            for client in by_instance.values():
                self.act(client)
            while self.unlogged:
                self.write()
            self.wait(SESSION_MS // 4)
        while self.unlogged:
            self.write()
        assert self.group.state is State.STABLE
        in_group = [c for c in by_instance.values() if c.member_id in self.group.roster.members]
        assert len(in_group) == len(self.group.roster)
        assert {client.synced_generation for client in in_group} == {self.group.generation}

    def act(self, client: Client) -> None:
        if client in self.waiting.values():
            return
        try:
            self.group.heartbeat(client.identity, self.now_ms)
        except (RebalanceInProgress, IllegalGeneration):
            self.join(client)
        except ChordMQError:
            if client.joined is not None:
                client.joined, client.member_id = None, ""
            self.join(client)
        else:
            assert client.joined is not None
            if client.synced_generation != client.joined.generation:
                self.sync(client)

    def collect(self) -> None:
        outbox = self.group.take_outbox()
        if not outbox.snapshots:
            self.deliver(list(outbox.answers))
            return
        *earlier, last = outbox.snapshots
        self.unlogged += [(snapshot, []) for snapshot in earlier]
        self.unlogged.append((last, list(outbox.answers)))

    def deliver(self, answers: list[tuple[int, object]]) -> None:
        for ticket, answer in answers:
            client = self.waiting.pop(ticket)  # a KeyError is a ticket answered twice
            if isinstance(answer, Joined) and ticket == client.join_ticket:
                self.check_joined(answer)
                client.joined, client.member_id = answer, answer.member_id
            elif isinstance(answer, Synced) and ticket == client.sync_ticket:
                assert client.joined is not None
                self.check_synced(client.joined, client.member_id, answer)
                client.synced_generation = client.joined.generation

    def check_joined(self, joined: Joined) -> None:
        assert joined.generation <= self.group.generation
        assert bool(joined.members) == (joined.leader == joined.member_id)

    def check_synced(self, joined: Joined, member_id: str, synced: Synced) -> None:
        """A member hears only what the log holds for it."""
        assert self.plans[joined.generation, member_id] == synced.assignment

    @invariant()
    def the_group_is_sound(self) -> None:
        group = self.group
        members = group.roster.members
        assert (group.roster.leader in members) == bool(members)
        assert group.generation >= self.generation_seen, "a generation went back"
        self.generation_seen = group.generation
        assert not members or group.state not in (State.EMPTY, State.DEAD)
        assert members or group.state in (State.EMPTY, State.PREPARING)
        instances = [m.instance_id for m in members.values() if m.instance_id is not None]
        assert len(instances) == len(set(instances)), "two members hold one instance id"

    @invariant()
    def nobody_waits_without_being_waited_for(self) -> None:
        group = self.group
        held = {ticket for _, answers in self.unlogged for ticket, _ in answers}
        assert set(self.waiting) == held | {*group._joins.values(), *group._syncs.values()}
        if group._joins:
            assert group.state is State.PREPARING
        if group._syncs:
            assert group.state is State.COMPLETING

    @invariant()
    def a_stable_group_is_what_its_log_says(self) -> None:
        if self.group.state is State.STABLE and not self.unlogged and not self.log_is_behind:
            assert self.group.committed is not None
            restarted = self.new_group()
            restarted.replay(self.log[-1], self.now_ms)
            assert restarted.state is State.STABLE
            assert saved(restarted) == saved(self.group)


def saved(group: Group) -> tuple[object, ...]:
    members = {
        member.member_id: (member.instance_id, member.assignment, member.metadata(group.protocol))
        for member in group.roster.members.values()
    }
    return group.generation, group.protocol_type, group.protocol, group.roster.leader, members


def saved_of(snapshot: GroupSnapshot) -> tuple[object, ...]:
    members = {
        member.member_id: (member.instance_id, member.assignment, member.subscription)
        for member in snapshot.members
    }
    return (
        snapshot.generation,
        snapshot.protocol_type,
        snapshot.protocol,
        snapshot.leader,
        members,
    )


GroupHistory.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestGroupHistory = GroupHistory.TestCase
"""C4: whatever happens, one leader, one plan per generation, and nothing told that can be lost."""

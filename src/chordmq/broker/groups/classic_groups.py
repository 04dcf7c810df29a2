"""One consumer group of the classic protocol as a pure state machine.

A group lives twice: in memory, where every request changes it at once, and in the log, as the
snapshot of its last finished generation. A member learns its assignment only after the snapshot
came back through `replay`, so that survives a crash; members that join again rebuild the rest.

The machine never waits. A join or a sync brings a ticket; its answer appears in the outbox under
that ticket, at once or many requests later. Answers that stand beside a snapshot in the same
outbox may go out only when the snapshot is in the log. Time comes in as `now_ms`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from chordmq.broker.deadlines import Deadlines
from chordmq.broker.groups.classic_states import TRANSITIONS, Event, State
from chordmq.broker.groups.consumer_protocol import CONSUMER, subscribed_topics
from chordmq.broker.groups.membership import (
    GroupSnapshot,
    Identity,
    Join,
    Joined,
    JoinedMember,
    Leaver,
    Sync,
    Synced,
)
from chordmq.broker.groups.roster import Member, Roster, new_member, save_member, saved_member
from chordmq.broker.settings import BrokerSettings
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ChordMQError,
    CoordinatorNotAvailable,
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)

NEW_MEMBER_TIMEOUT_MS = 300_000
"""How long a first join may stay parked: its sender has no id yet and sends no heartbeats."""

Answer = Joined | Synced | ChordMQError


@dataclass(slots=True)
class Outbox:
    """What the machine wants written, and what it answers once that is in the log."""

    snapshots: list[GroupSnapshot] = field(default_factory=list)
    answers: list[tuple[int, Answer]] = field(default_factory=list)


class Group:
    """A consumer group: its members, its generation and who waits for what."""

    kind = "classic"

    def __init__(self, group_id: str, settings: BrokerSettings, new_id: Callable[[], str]) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.roster = Roster()
        self.committed: GroupSnapshot | None = None
        """The newest snapshot in the log; only `replay` sets it."""
        self._settings = settings
        self._new_id = new_id
        self._pending: set[str] = set()  # ids given out whose owners have not joined yet
        self._joins: dict[str, int] = {}  # member id -> ticket of its parked join
        self._syncs: dict[str, int] = {}
        self._unsynced: set[str] = set()  # members of this generation that have not synced yet
        self._writing = False  # this generation's snapshot is on its way to the log
        self._sessions = Deadlines()
        self._phase_end_ms: int | None = None  # joins or syncs are not waited for after this
        self._gather_end_ms: int | None = None  # limit of the initial delay, while that runs
        self._outbox = Outbox()

    def join(self, join: Join, ticket: int, now_ms: int) -> None:
        """Take a member into the next generation; the answer comes through the outbox."""
        self._check_alive()
        self._check_session_timeout(join.session_timeout_ms)
        known = self.roster.members.get(join.member_id) or self.roster.holder(join.instance_id)
        if not self._has_room(known):
            self._forget_pending(join.member_id)
            raise GroupFull(f"group {self.group_id} has {len(self.roster)} members")
        if not self._is_consistent(join, known):
            raise InconsistentProtocol(f"no protocol in common with group {self.group_id}")
        if join.member_id in self._pending:
            self._pending.discard(join.member_id)
            self._admit(join.member_id, join, ticket, now_ms)
        elif join.member_id:
            member = self.roster.find(join.member_id, join.instance_id)
            self._rejoin(member, join, ticket, now_ms)
        elif known is not None:
            self._take_over(known, join, ticket, now_ms)
        else:
            self._join_first(join, ticket, now_ms)

    def sync(self, sync: Sync, ticket: int, now_ms: int) -> None:
        """Give a member its assignment, as soon as the leader's plan is in the log."""
        member = self._current(sync.member)
        named = (sync.protocol_type or self.protocol_type, sync.protocol or self.protocol)
        if named != (self.protocol_type, self.protocol):
            raise InconsistentProtocol(f"group {self.group_id} uses {self.protocol}")
        if self.state is State.PREPARING:
            raise RebalanceInProgress(f"group {self.group_id} gathers its members")
        self._touch(member, now_ms)
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._phase_end_ms = None
        if self.state is State.STABLE:
            self._answer(ticket, self._synced(member))
            return
        self._park(self._syncs, member.member_id, ticket)
        if member.member_id == self.roster.leader and not self._writing:
            self._writing = True
            self._outbox.snapshots.append(self._snapshot(sync.assignments))

    def heartbeat(self, identity: Identity, now_ms: int) -> None:
        """Prolong a member's session, and tell it when it must join again."""
        self._touch(self._current(identity), now_ms)
        if self.state is State.PREPARING:
            raise RebalanceInProgress(f"group {self.group_id} gathers its members")

    def leave(self, leavers: Sequence[Leaver], now_ms: int) -> list[ChordMQError | None]:
        """Remove members; each gets its own error or None."""
        self._check_alive()
        results = [self._leave_one(leaver) for leaver in leavers]
        if any(result is None for result in results):
            self.rebalance(now_ms)
        return results

    def check_commit(self, identity: Identity, now_ms: int) -> None:
        """Refuse a commit that neither a member nor, in an empty group, an outsider may make."""
        self._check_alive()
        if identity.generation < 0 and self.state is State.EMPTY:
            return
        self._touch(self._current(identity), now_ms)
        if self.state is State.COMPLETING:
            raise RebalanceInProgress(f"group {self.group_id} has a new generation")

    def check_delete(self) -> None:
        """Refuse to delete a group that is in use."""
        if self.state is not State.EMPTY:
            raise GroupNotEmpty(f"group {self.group_id} has {len(self.roster)} members")

    def subscribes(self, topic: str) -> bool:
        """Return whether a member reads this topic; one that cannot be understood may."""
        for member in self.roster.members.values():
            topics = subscribed_topics(member.metadata(self.protocol or member.protocols[0][0]))
            if self.protocol_type != CONSUMER or topics is None or topic in topics:
                return True
        return False

    def replay(self, snapshot: GroupSnapshot | None, now_ms: int) -> None:
        """Take over what the log holds by now: a finished generation, or None for a deletion."""
        self.committed = snapshot
        if snapshot is None:
            if self.state is State.EMPTY:
                self._move(Event.DELETED)
        elif snapshot.generation > self.generation:  # memory is behind the log only at start
            self._restore(snapshot, now_ms)
        elif snapshot.generation == self.generation and self.state is State.COMPLETING:
            self._hand_out(snapshot, now_ms)

    def lose(self, snapshot: GroupSnapshot, error: ChordMQError, now_ms: int) -> None:
        """Give up a generation whose snapshot the log refused."""
        if snapshot.generation == self.generation and self.state is State.COMPLETING:
            self._refuse_all(self._syncs, error)
            self.rebalance(now_ms)

    def dissolve(self) -> None:
        """Send everybody who waits to join again: the group goes on in another protocol."""
        for waiting in (self._joins, self._syncs):
            self._refuse_all(waiting, RebalanceInProgress(f"group {self.group_id} changes"))

    def tick(self, now_ms: int) -> None:
        """End the sessions and the phase whose time is over."""
        for member_id in self._sessions.due(now_ms):
            self._end_session(member_id, now_ms)
        if self._phase_end_ms is None or now_ms < self._phase_end_ms:
            return
        if self.state is State.PREPARING:
            self._complete_joins(now_ms)
        else:
            self._drop_unsynced(now_ms)

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return self.state is State.EMPTY

    @property
    def is_unused(self) -> bool:
        """Return whether nothing would be lost if this group were forgotten."""
        return self.state is State.EMPTY and self.generation == 0 and not self._pending

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is next worth a call; that may be early, never late."""
        deadlines = (self._sessions.next_ms(), self._phase_end_ms)
        return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)

    def take_outbox(self) -> Outbox:
        """Return what was decided since the last call."""
        outbox, self._outbox = self._outbox, Outbox()
        return outbox

    def _move(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    def _check_alive(self) -> None:
        if self.state is State.DEAD:
            raise CoordinatorNotAvailable(f"group {self.group_id} was just deleted")

    def _check_session_timeout(self, timeout_ms: int) -> None:
        lowest = self._settings.group_min_session_timeout_ms
        highest = self._settings.group_max_session_timeout_ms
        if not lowest <= timeout_ms <= highest:
            raise InvalidSessionTimeout(f"{timeout_ms} ms is not in {lowest} … {highest} ms")

    def _current(self, identity: Identity) -> Member:
        self._check_alive()
        member = self.roster.find(identity.member_id, identity.instance_id)
        if identity.generation != self.generation:
            raise IllegalGeneration(f"generation {identity.generation}, now {self.generation}")
        return member

    def _has_room(self, known: Member | None) -> bool:
        if self.state is State.PREPARING:
            is_in = known is not None and known.member_id in self._joins
            return is_in or len(self._joins) < self._settings.group_max_size
        return known is not None or len(self.roster) < self._settings.group_max_size

    def _is_consistent(self, join: Join, known: Member | None) -> bool:
        if not join.protocol_type or not join.protocols:
            return False
        if not self.roster.members:
            return True
        same_type = join.protocol_type == self.protocol_type
        return same_type and self.roster.shares_protocol(join, known)

    def _join_first(self, join: Join, ticket: int, now_ms: int) -> None:
        member_id = f"{join.instance_id or join.client_id}-{self._new_id()}"
        if join.takes_id_first and join.instance_id is None:
            self._pending.add(member_id)
            self._sessions.set(member_id, now_ms + join.session_timeout_ms)
            raise MemberIdRequired(member_id)
        self._admit(member_id, join, ticket, now_ms)

    def _admit(self, member_id: str, join: Join, ticket: int, now_ms: int) -> None:
        if not self.roster.members:
            self.protocol_type = join.protocol_type
        self.roster.add(new_member(member_id, join))
        self._sessions.set(member_id, now_ms + NEW_MEMBER_TIMEOUT_MS)
        self._park(self._joins, member_id, ticket)
        if self._gather_end_ms is not None:  # others may come as close behind
            later_ms = now_ms + self._settings.group_initial_rebalance_delay_ms
            self._phase_end_ms = min(later_ms, self._gather_end_ms)
        self.rebalance(now_ms)

    def _rejoin(self, member: Member, join: Join, ticket: int, now_ms: int) -> None:
        if not member.is_new:
            self._touch(member, now_ms)
        leads = self.state is State.STABLE and member.member_id == self.roster.leader
        if self.state is State.PREPARING or leads or member.protocols != join.protocols:
            self.roster.update(member, join)
            self._park(self._joins, member.member_id, ticket)
            self.rebalance(now_ms)
        else:  # it has nothing new to say, so the answer to its last join was lost
            self._answer(ticket, self._joined(member))

    def _take_over(self, old: Member, join: Join, ticket: int, now_ms: int) -> None:
        """Let a restarted static member go on in the place of its former self."""
        former_leader = self.roster.leader
        member = self._fence(old)
        self.roster.update(member, join)
        self._touch(member, now_ms)
        if self.state is not State.STABLE or self.roster.elect_protocol() != self.protocol:
            self._park(self._joins, member.member_id, ticket)
            self.rebalance(now_ms)
            return
        self._outbox.snapshots.append(self._snapshot())
        joined = self._joined(member)
        if join.can_skip_assignment:
            joined = replace(joined, skip_assignment=joined.leader == member.member_id)
        else:  # KIP-345: told that its former self leads, it does not compute an assignment
            joined = replace(joined, members=(), leader=former_leader or "")
        self._answer(ticket, joined)

    def _fence(self, old: Member) -> Member:
        """Give a static member a new id, and turn away what its former process waits for."""
        fenced = FencedInstance(f"another process joined as {old.instance_id}")
        self._refuse(self._joins, old.member_id, fenced)
        self._refuse(self._syncs, old.member_id, fenced)
        self._sessions.discard(old.member_id)
        member = self.roster.rename(old, f"{old.instance_id}-{self._new_id()}")
        if old.member_id in self._unsynced:
            self._unsynced.remove(old.member_id)
            self._unsynced.add(member.member_id)
        return member

    def _leave_one(self, leaver: Leaver) -> ChordMQError | None:
        if leaver.member_id in self._pending:
            self._forget_pending(leaver.member_id)
            return None
        holder = self.roster.holder(leaver.instance_id)
        member_id = leaver.member_id or (holder.member_id if holder is not None else "")
        try:
            self._remove(self.roster.find(member_id, leaver.instance_id))
        except ChordMQError as error:
            return error
        return None

    def _forget_pending(self, member_id: str) -> None:
        if member_id in self._pending:
            self._pending.remove(member_id)
            self._sessions.discard(member_id)

    def _remove(self, member: Member) -> None:
        gone = UnknownMember(f"{member.member_id} is not in the group any more")
        self._refuse(self._joins, member.member_id, gone)
        self._refuse(self._syncs, member.member_id, gone)
        self._unsynced.discard(member.member_id)
        self._sessions.discard(member.member_id)
        self.roster.remove(member)

    def rebalance(self, now_ms: int) -> None:
        """Begin to form the next generation unless that is under way; end it if all are here."""
        if self.state is State.EMPTY and not self.roster.members:
            return
        if self.state is not State.PREPARING:
            self._prepare(now_ms)
        gathering = self._gather_end_ms is not None and now_ms < (self._phase_end_ms or 0)
        all_here = not self._pending and len(self._joins) == len(self.roster)
        if all_here and not gathering:
            self._complete_joins(now_ms)

    def _prepare(self, now_ms: int) -> None:
        self._refuse_all(self._syncs, RebalanceInProgress(f"group {self.group_id} changes"))
        self._unsynced.clear()
        self._writing = False
        self._phase_end_ms = now_ms + self.roster.rebalance_timeout_ms()
        if self.state is State.EMPTY:
            self._gather_end_ms = self._phase_end_ms
            self._phase_end_ms = now_ms + self._settings.group_initial_rebalance_delay_ms
        self._move(Event.REBALANCE)

    def _complete_joins(self, now_ms: int) -> None:
        """Close the next generation: who has not joined again is out, static members excepted."""
        self._gather_end_ms = None
        for member in list(self.roster.members.values()):
            if member.member_id not in self._joins and member.instance_id is None:
                self._remove(member)
        if self.roster.members and not self._joins:  # only static members, all of them away
            self._phase_end_ms = now_ms + max(self.roster.rebalance_timeout_ms(), 1)
            return
        self.generation += 1
        if not self.roster.members:
            self.protocol = self._phase_end_ms = None
            self._move(Event.EMPTIED)
            self._outbox.snapshots.append(self._snapshot())
            return
        if self.roster.leader not in self._joins:
            self.roster.leader = next(iter(self._joins))
        self.protocol = self.roster.elect_protocol()
        self._phase_end_ms = now_ms + self.roster.rebalance_timeout_ms()
        self._move(Event.JOINED)
        self._announce(now_ms)

    def _announce(self, now_ms: int) -> None:
        joins, self._joins = self._joins, {}
        for member_id, ticket in joins.items():
            member = self.roster.members[member_id]
            member.is_new = False
            self._unsynced.add(member_id)
            self._touch(member, now_ms)
            self._answer(ticket, self._joined(member))

    def _hand_out(self, snapshot: GroupSnapshot, now_ms: int) -> None:
        for saved in snapshot.members:
            self.roster.members[saved.member_id].assignment = saved.assignment
        self._move(Event.ASSIGNED)
        self._writing = False
        syncs, self._syncs = self._syncs, {}
        for member_id, ticket in syncs.items():
            member = self.roster.members[member_id]
            self._touch(member, now_ms)
            self._answer(ticket, self._synced(member))

    def _restore(self, snapshot: GroupSnapshot, now_ms: int) -> None:
        """Rebuild the group after a restart; its members go on if they speak up in time."""
        self.generation = snapshot.generation
        self.protocol_type = snapshot.protocol_type
        self.protocol = snapshot.protocol
        for saved in snapshot.members:
            member = saved_member(saved, snapshot.protocol or "")
            self.roster.add(member)
            self._touch(member, now_ms)
        if snapshot.members:
            self.roster.leader = snapshot.leader
            self._move(Event.ASSIGNED)

    def _drop_unsynced(self, now_ms: int) -> None:
        """Remove members that were told of the generation and never asked for their part."""
        self._phase_end_ms = None
        absent = [self.roster.members[member_id] for member_id in self._unsynced]
        for member in absent:
            self._remove(member)
        if absent:
            self.rebalance(now_ms)

    def _end_session(self, member_id: str, now_ms: int) -> None:
        if member_id in self._sessions:  # prolonged by what another session's end has set off
            return
        if member_id in self._pending:
            self._pending.discard(member_id)
            self.rebalance(now_ms)
        member = self.roster.members.get(member_id)
        if member is None:
            return
        waits = member_id in self._joins or member_id in self._syncs
        if waits and not member.is_new:  # it cannot send heartbeats while its request is parked
            self._touch(member, now_ms)
        else:
            self._remove(member)
            self.rebalance(now_ms)

    def _touch(self, member: Member, now_ms: int) -> None:
        self._sessions.set(member.member_id, now_ms + max(member.session_timeout_ms, 1))

    def _park(self, waiting: dict[str, int], member_id: str, ticket: int) -> None:
        self._refuse(waiting, member_id, RebalanceInProgress("a newer request took its place"))
        waiting[member_id] = ticket

    def _refuse(self, waiting: dict[str, int], member_id: str, error: ChordMQError) -> None:
        if member_id in waiting:
            self._answer(waiting.pop(member_id), error)

    def _refuse_all(self, waiting: dict[str, int], error: ChordMQError) -> None:
        for member_id in list(waiting):
            self._refuse(waiting, member_id, error)

    def _answer(self, ticket: int, answer: Answer) -> None:
        self._outbox.answers.append((ticket, answer))

    def _joined(self, member: Member) -> Joined:
        assert self.protocol is not None
        leads = member.member_id == self.roster.leader
        return Joined(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.roster.leader or "",
            member_id=member.member_id,
            members=self._joined_members() if leads else (),
        )

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata(self.protocol),
            )
            for member in self.roster.members.values()
        )

    def _synced(self, member: Member) -> Synced:
        return Synced(
            protocol_type=self.protocol_type,
            protocol=self.protocol or "",
            assignment=member.assignment,
        )

    def _snapshot(self, assignments: Mapping[str, bytes] | None = None) -> GroupSnapshot:
        """Return this generation with the leader's assignments, or with those it has already."""
        return GroupSnapshot(
            group_id=self.group_id,
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.roster.leader,
            members=tuple(
                save_member(
                    member,
                    self.protocol,
                    member.assignment
                    if assignments is None
                    else assignments.get(member.member_id, b""),
                )
                for member in self.roster.members.values()
            ),
        )

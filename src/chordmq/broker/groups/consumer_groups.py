"""One group of the consumer protocol (KIP-848) as a pure machine.

Members say what they read, the group decides who reads what, and each member gets there in its own
time: it is told to give up partitions first, and gets new ones as soon as nobody else has them. The
group's epoch counts its changes; a member's epoch says how far that member has followed.

All that a request changes goes through records: the machine writes one, replays it at once, and
leaves it in the outbox; an answer may go out only when the records before it are in the log. When
the log refuses them, `lose` takes the group back to what the log holds, as a restart would.

Members of the classic protocol live here too, while a group moves from one protocol to the other.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from chordmq.broker.deadlines import Deadlines
from chordmq.broker.groups.assignors import ASSIGNORS, NOTHING, Assignment, Place, Reader
from chordmq.broker.groups.consumer_image import (
    LEFT_FOR_NOW,
    ConsumerMember,
    ConsumerRecord,
    EpochRecord,
    Holding,
    HoldingRecord,
    Image,
    MemberRecord,
    Step,
    TargetEpochRecord,
    TargetRecord,
)
from chordmq.broker.groups.consumer_protocol import CONSUMER
from chordmq.broker.groups.defaults import GroupDefaults
from chordmq.broker.groups.membership import Identity, Leaver
from chordmq.broker.groups.patterns import check_pattern
from chordmq.broker.groups.reconciliation import reconciled
from chordmq.broker.groups.topic_view import TopicView
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ChordMQError,
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)

JOINING, LEAVING = 0, -1


class ConsumerState(Enum):
    """Where a group stands; the values are the names that clients show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


def sees_all(_topic: str) -> bool:
    """Say that a member may know of every topic: nobody asks who it is."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One heartbeat; what is None has not changed since the last."""

    member_id: str
    epoch: int
    """The epoch that the member was told last; 0 joins, -1 leaves, -2 leaves to come back."""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    sees: Callable[[str], bool] = sees_all
    """Says whether the member may know of a topic; its pattern matches no other."""

    @property
    def is_full(self) -> bool:
        """Return whether the member says everything, as it does when it has missed an answer."""
        subscribes = self.topics is not None or self.pattern is not None
        return subscribes and self.rebalance_timeout_ms is not None and self.owned is not None


@dataclass(frozen=True, slots=True)
class Beaten:
    """The answer to a heartbeat: the member's epoch, and its partitions unless it knows them."""

    member_id: str
    epoch: int
    assignment: Assignment | None = None


class ConsumerGroup:
    """A group of the consumer protocol: its image, the way there, and whose time is running."""

    kind = CONSUMER
    protocol_type = CONSUMER

    def __init__(
        self, group_id: str, settings: GroupDefaults, session_timeout_ms: Callable[[], int]
    ) -> None:
        self.group_id = group_id
        self.image = Image(group_id)
        self._logged = Image(group_id)  # what the log holds by now; memory may be ahead of it
        self._settings = settings
        self._session_timeout_ms = session_timeout_ms
        self._outbox: list[ConsumerRecord] = []
        self._view: TopicView | None = None  # the topics that the target was made of
        self._names: dict[str, frozenset[str]] = {}  # what members read by that plan
        self._sees: dict[str, Callable[[str], bool]] = {}  # of members heard since the start
        self._sessions = Deadlines()
        self._patience = Deadlines()  # members that must give up partitions or join again by then

    @property
    def state(self) -> ConsumerState:
        """Return where the group stands."""
        image = self.image
        if not image.members:
            return ConsumerState.EMPTY
        if image.epoch > image.target_epoch:
            return ConsumerState.ASSIGNING
        holdings = map(image.holding, image.members)
        if all(is_settled(holding, image.target_epoch) for holding in holdings):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.image.members

    @property
    def assignor(self) -> str:
        """Return the assignor that most members want, or the node's first."""
        votes = Counter(m.assignor for m in self.image.members.values() if m.assignor)
        default = self._settings.group_consumer_assignors[0]
        return max(sorted(votes), key=lambda name: votes[name], default=default)

    def heartbeat(self, beat: Beat, topics: TopicView, now_ms: int) -> Beaten:
        """Take a member in, keep it or let it go, and tell it what it may read."""
        if beat.epoch in (LEAVING, LEFT_FOR_NOW):
            return self._leave(beat)
        self._check_wishes(beat)
        member = self._admit(beat) if beat.epoch == JOINING else self._known(beat)
        member = _updated(member, beat)
        if beat.member_id not in self._sees:
            self._view = None  # what its pattern matches is to be looked up with its own eyes
        self._sees[beat.member_id] = beat.sees
        before = self.image.holding(member.member_id)
        holding = self.settle(member, beat.owned, topics, now_ms)
        is_told = beat.epoch == JOINING or beat.is_full or holding.assigned != before.assigned
        return Beaten(member.member_id, holding.epoch, holding.assigned if is_told else None)

    def settle(
        self, member: ConsumerMember, owned: Assignment | None, topics: TopicView, now_ms: int
    ) -> Holding:
        """Take over what a member says, plan for everybody, and move the member along."""
        self._plan(topics, is_changed=self._describe(member))
        self.touch(member.member_id, now_ms)
        return self._reconcile(member, owned, now_ms)

    def remove(self, leavers: Sequence[Leaver]) -> list[ChordMQError | None]:
        """Let members go at an operator's or their own wish; each has its own error or None."""
        results: list[ChordMQError | None] = []
        for leaver in leavers:
            member_id = leaver.member_id or self.image.static.get(leaver.instance_id or "", "")
            try:
                self._remove(self.find(member_id, leaver.instance_id).member_id)
                results.append(None)
            except ChordMQError as error:
                results.append(error)
        return results

    def check_commit(self, identity: Identity, now_ms: int) -> None:
        """Refuse a commit that neither a member nor, in an empty group, an outsider may make."""
        if identity.generation < 0 and self.is_empty:
            return
        member = self.find(identity.member_id, identity.instance_id)
        self.check_epoch(member, identity.generation)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Refuse to tell offsets to one who is not a member any more; outsiders may ask."""
        if member_id is None and epoch < 0:
            return
        self.check_epoch(self.find(member_id or "", None), epoch)

    def check_delete(self) -> None:
        """Refuse to delete a group that is in use."""
        if not self.is_empty:
            raise GroupNotEmpty(f"group {self.group_id} has {len(self.image.members)} members")

    def delete(self) -> None:
        """Leave nothing of the group in the log."""
        self.check_delete()
        for record in self.image.deletion():
            self._write(record)

    def subscribes(self, topic: str) -> bool:
        """Return whether a member reads this topic."""
        view = self._view
        return any(
            topic in (member.topics if view is None else self.subscribed(member, view))
            for member in self.image.members.values()
        )

    def tick(self, now_ms: int) -> None:
        """Let go the members whose session is over, and those that hold the others up."""
        for member_id in (*self._sessions.due(now_ms), *self._patience.due(now_ms)):
            if member_id in self.image.members:
                self._remove(member_id)

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is next worth a call; that may be early, never late."""
        deadlines = (self._sessions.next_ms(), self._patience.next_ms())
        return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)

    def take_outbox(self) -> list[ConsumerRecord]:
        """Return what was decided since the last call and is to be logged."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def replay(self, record: ConsumerRecord) -> None:
        """Take over a record that the log holds and memory does not: at the start."""
        self.image.replay(record)

    def wake(self, now_ms: int) -> None:
        """Begin after a replay: every member has a whole session to speak up."""
        self._logged = self.image.copy()
        for member_id in self.image.members:
            self.touch(member_id, now_ms)
            if self.image.holding(member_id).step is Step.UNREVOKED:
                self.wait_for(member_id, now_ms)

    def confirm(self, records: Sequence[ConsumerRecord]) -> None:
        """Take note that the log has what was in the outbox."""
        for record in records:
            self._logged.replay(record)

    def lose(self, now_ms: int) -> None:
        """Go back to what the log holds: it has refused what was in the outbox."""
        self.image = self._logged
        self._outbox = []
        self._view = None
        self._sessions, self._patience = Deadlines(), Deadlines()
        self.wake(now_ms)

    def find(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Return the member, unless another process holds its instance id by now."""
        if instance_id is not None:
            holder = self.image.static.get(instance_id)
            if holder is None:
                raise UnknownMember(f"no member has instance id {instance_id}")
            if holder != member_id:
                raise FencedInstance(f"instance id {instance_id} belongs to {holder}")
        member = self.image.members.get(member_id)
        if member is None:
            raise UnknownMember(f"group {self.group_id} has no member {member_id}")
        return member

    def check_epoch(self, member: ConsumerMember, epoch: int) -> None:
        """Refuse an epoch, or a classic generation, other than the member's own."""
        now = self.image.holding(member.member_id).epoch
        if epoch != now:
            error = IllegalGeneration if member.classic is not None else StaleMemberEpoch
            raise error(f"{member.member_id} is at epoch {now}, not {epoch}")

    def check_room(self) -> None:
        """Refuse a new member where no more are allowed."""
        if len(self.image.members) >= self._settings.group_consumer_max_size:
            raise GroupFull(f"group {self.group_id} has {len(self.image.members)} members")

    def take_over(self, old_id: str, member_id: str) -> ConsumerMember:
        """Let a static member go on under a new id with all that its former process had."""
        group_id = self.group_id
        member = replace(self.image.members[old_id], member_id=member_id)
        target = self.image.target(old_id)
        former = self.image.holding(old_id)
        self._forget(old_id)
        self._write(MemberRecord(group_id, member_id, member))
        self._write(TargetRecord(group_id, member_id, target))
        holding = replace(former, epoch=0, previous_epoch=0, revoking=NOTHING)
        self._write(HoldingRecord(group_id, member_id, holding))
        return member

    def touch(self, member_id: str, now_ms: int) -> None:
        """Prolong a member's session."""
        classic = self.image.members[member_id].classic
        timeout_ms = (
            self._session_timeout_ms() if classic is None else max(classic.session_timeout_ms, 1)
        )
        self._sessions.set(member_id, now_ms + timeout_ms)

    def wait_for(self, member_id: str, now_ms: int) -> None:
        """Give a member its rebalance time-out to do what it was told, unless that runs."""
        if member_id not in self._patience:
            timeout_ms = self.image.members[member_id].rebalance_timeout_ms
            self._patience.set(member_id, now_ms + max(timeout_ms, 1))

    def subscribed(self, member: ConsumerMember, topics: TopicView) -> frozenset[str]:
        """Return the names that a member reads by name or by pattern."""
        if not member.pattern:
            return member.topics
        found = topics.matching(member.pattern)
        sees = self._sees.get(member.member_id)
        if sees is None:  # nobody knows yet who it is: it keeps what it has
            kept = {topic_id for topic_id, _ in self.image.target(member.member_id)}
            return member.topics | {name for name in found if topics.by_name[name].id in kept}
        return member.topics | {name for name in found if sees(name)}

    def _write(self, record: ConsumerRecord) -> None:
        self._outbox.append(record)
        self.image.replay(record)

    def _check_wishes(self, beat: Beat) -> None:
        allowed = self._settings.group_consumer_assignors
        if beat.assignor is not None and beat.assignor not in allowed:
            raise UnsupportedAssignor(
                f"ServerAssignor {beat.assignor} is not supported. "
                f"Supported assignors: {', '.join(allowed)}."
            )
        if beat.pattern:
            check_pattern(beat.pattern)

    def _admit(self, beat: Beat) -> ConsumerMember:
        holder = self.image.static.get(beat.instance_id or "")
        if holder is not None:
            is_free = self.image.holding(holder).epoch == LEFT_FOR_NOW
            if not is_free and self.image.members[holder].classic is None:
                raise UnreleasedInstance(
                    f"instance id {beat.instance_id} is held by {holder}, which has not left"
                )
            return self.take_over(holder, beat.member_id)
        known = self.image.members.get(beat.member_id)
        if known is None:
            self.check_room()
            return ConsumerMember(member_id=beat.member_id)
        return known

    def _known(self, beat: Beat) -> ConsumerMember:
        member = self.find(beat.member_id, beat.instance_id)
        holding = self.image.holding(beat.member_id)
        if beat.epoch != holding.epoch:
            has_missed_answer = (
                0 < beat.epoch == holding.previous_epoch < holding.epoch
                and beat.owned is not None
                and beat.owned <= holding.assigned
            )
            if not has_missed_answer:
                raise FencedMemberEpoch(
                    f"{beat.member_id} is at epoch {holding.epoch}, not {beat.epoch}; "
                    "it must give up its partitions and join again"
                )
        return member

    def _leave(self, beat: Beat) -> Beaten:
        member = self.find(beat.member_id, beat.instance_id)
        if beat.epoch == LEFT_FOR_NOW:
            holding = self.image.holding(member.member_id)
            away = replace(holding, epoch=LEFT_FOR_NOW, revoking=NOTHING)
            self._write(HoldingRecord(self.group_id, member.member_id, away))
            self._patience.discard(member.member_id)
        else:
            self._remove(member.member_id)
        return Beaten(member.member_id, beat.epoch)

    def _remove(self, member_id: str) -> None:
        """Let a member go; the others share its partitions with their next heartbeats."""
        self._forget(member_id)
        self._bump(self.image.topics_digest)

    def _forget(self, member_id: str) -> None:
        self._write(HoldingRecord(self.group_id, member_id, None))
        self._write(TargetRecord(self.group_id, member_id, None))
        self._write(MemberRecord(self.group_id, member_id, None))
        self._sees.pop(member_id, None)
        self._sessions.discard(member_id)
        self._patience.discard(member_id)

    def _describe(self, member: ConsumerMember) -> bool:
        """Keep what a member says, and return whether that calls for another assignment."""
        before = self.image.members.get(member.member_id)
        if before == member:
            return False
        self._write(MemberRecord(self.group_id, member.member_id, member))
        return before is None or _wishes(before) != _wishes(member)

    def _plan(self, topics: TopicView, *, is_changed: bool) -> None:
        """Decide anew who is to have what, if members or topics have changed."""
        image = self.image
        if not is_changed and self._view is topics and image.epoch == image.target_epoch:
            return
        self._view = topics
        names = {
            member_id: self.subscribed(member, topics)
            for member_id, member in image.members.items()
        }
        digest = topics.digest(frozenset().union(*names.values()))
        is_changed |= any(self._names.get(one, new) != new for one, new in names.items())
        self._names = names
        if is_changed or digest != image.topics_digest:
            self._bump(digest)
        if image.epoch > image.target_epoch:
            self._assign(names, topics)

    def _bump(self, digest: int) -> None:
        """Count a change; several before the next assignment are one."""
        epoch = max(self.image.epoch, self.image.target_epoch + 1)
        self._write(EpochRecord(self.group_id, epoch, digest))

    def _assign(self, names: dict[str, frozenset[str]], topics: TopicView) -> None:
        facts = topics.by_name
        readers = {
            member_id: Reader(
                frozenset(facts[name].id for name in wanted if name in facts),
                self.image.members[member_id].instance_id,
                self.image.target(member_id),
            )
            for member_id, wanted in names.items()
        }
        ids = frozenset().union(*(reader.topics for reader in readers.values()))
        counts = {topic_id: topics.by_id[topic_id].partitions for topic_id in ids}
        for member_id, assignment in ASSIGNORS[self.assignor](readers, counts).items():
            if assignment != self.image.targets.get(member_id):
                self._write(TargetRecord(self.group_id, member_id, assignment))
        self._write(TargetEpochRecord(self.group_id, self.image.epoch))

    def _reconcile(self, member: ConsumerMember, owned: Assignment | None, now_ms: int) -> Holding:
        image, member_id = self.image, member.member_id
        before = image.holding(member_id)

        def is_free(place: Place) -> bool:
            return image.holders.get(place, member_id) == member_id

        after = reconciled(before, image.target(member_id), image.target_epoch, owned, is_free)
        if after != before or member_id not in image.holdings:
            self._write(HoldingRecord(self.group_id, member_id, after))
        if after.step is not Step.UNREVOKED or after.epoch != before.epoch:
            self._patience.discard(member_id)
        if after.step is Step.UNREVOKED:
            self.wait_for(member_id, now_ms)
        return after


def is_settled(holding: Holding, epoch: int) -> bool:
    """Return whether a member has all that it is to have in an epoch."""
    return holding.step is Step.STABLE and holding.epoch == epoch


def _wishes(member: ConsumerMember) -> tuple[object, ...]:
    return member.topics, member.pattern or None, member.assignor


def _updated(member: ConsumerMember, beat: Beat) -> ConsumerMember:
    """Return the member with what a heartbeat says; it speaks the consumer protocol by now."""
    timeout_ms = beat.rebalance_timeout_ms
    return replace(
        member,
        instance_id=beat.instance_id or member.instance_id,
        rack_id=beat.rack_id or member.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=member.topics if beat.topics is None else beat.topics,
        pattern=member.pattern if beat.pattern is None else beat.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms is None else timeout_ms,
        assignor=beat.assignor or member.assignor,
        classic=None,
    )

"""One share group: who its members are, and which of them read a partition together.

Partitions are shared out evenly; when there are more members than partitions, several read the
same one through its cursor. A member takes over a new assignment at once, with its next heartbeat:
nobody has to give anything back first, for the cursor knows who holds what.
"""

from collections.abc import Callable, Collection, Mapping

from chordmq.dataclass import dataclass
from chordmq.errors import FencedMemberEpoch, GroupFull, InvalidRequest, UnknownMember

JOINING, LEAVING = 0, -1
ASSIGNOR = "simple"

Place = tuple[bytes, int]
"""A topic's id and the index of one of its partitions."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What an assignment needs to know of a topic."""

    id: bytes
    partitions: int


Lookup = Callable[[str], TopicFacts | None]
"""Finds a topic by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One heartbeat, as a member sends it."""

    member_id: str
    epoch: int
    topics: frozenset[str] | None = None
    """What it subscribes to; None when that has not changed."""
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Beaten:
    """The answer: the member's epoch, and its partitions unless it knows them already."""

    epoch: int
    assignment: frozenset[Place] | None


@dataclass(slots=True)
class ShareMember:
    """A member as the group knows it."""

    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None
    topics: frozenset[str]
    epoch: int = 0
    previous_epoch: int = 0
    """An answer may have been lost, so the epoch before the newest is still good."""
    assignment: frozenset[Place] = frozenset()
    known: frozenset[Place] | None = None
    """The assignment that the member was told last."""


class ShareGroup:
    """The machine; it reads no clock and writes no log."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}
        self._wanted: list[str] = []
        self._facts: dict[str, TopicFacts] = {}
        """Those of the wanted topics that are there."""

    @property
    def state(self) -> str:
        """Return the group's state as administrators read it."""
        return "Stable" if self.members else "Empty"

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Return every partition that a member subscribes to, by the name of its topic."""
        return [(name, i) for name, facts in self._facts.items() for i in range(facts.partitions)]

    def beat(self, beat: Beat, lookup: Lookup, size_max: int) -> Beaten:
        """Take a member in or keep it, and tell it what it reads."""
        member = self._join(beat, size_max) if beat.epoch == JOINING else self._known(beat)
        is_changed = beat.topics is not None and beat.topics != member.topics
        if is_changed and beat.topics is not None:
            member.topics = beat.topics
        self._refresh(lookup, is_changed=is_changed or not member.epoch)
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        is_asked = beat.epoch == JOINING or beat.topics is not None
        if not is_asked and member.known == member.assignment:
            return Beaten(member.epoch, None)
        member.known = member.assignment
        return Beaten(member.epoch, member.assignment)

    def _join(self, beat: Beat, size_max: int) -> ShareMember:
        if not beat.topics:
            raise InvalidRequest("SubscribedTopicNames must be set in first request.")
        member = self.members.get(beat.member_id)
        if member is None:
            if len(self.members) >= size_max:
                raise GroupFull(f"group {self.group_id} has {size_max} members already")
            member = ShareMember(
                beat.member_id, beat.client_id, beat.client_host, beat.rack_id, beat.topics
            )
            self.members[beat.member_id] = member
        return member

    def _known(self, beat: Beat) -> ShareMember:
        member = self.members.get(beat.member_id)
        if member is None:
            raise UnknownMember(
                f"Member {beat.member_id} is not a member of group {self.group_id}."
            )
        if beat.epoch not in (member.epoch, member.previous_epoch):
            raise FencedMemberEpoch(
                f"The member is at epoch {member.epoch}, not {beat.epoch}; it must join again."
            )
        return member

    def remove(self, member_id: str) -> None:
        """Let a member go; those that stay share its partitions."""
        if member_id not in self.members:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.group_id}.")
        del self.members[member_id]
        self._refresh(self._facts.get, is_changed=True)

    def _refresh(self, lookup: Lookup, *, is_changed: bool) -> None:
        """Assign again if the members have changed, or topics have come, gone or grown."""
        if is_changed:
            topics = (member.topics for member in self.members.values())
            self._wanted = sorted(frozenset().union(*topics))
        found = {name: lookup(name) for name in self._wanted}
        facts = {name: facts for name, facts in found.items() if facts is not None}
        if is_changed or facts != self._facts:
            self._facts = facts
            self._assign()

    def _assign(self) -> None:
        self.epoch += 1
        subscribed = {
            member_id: frozenset(
                self._facts[name].id for name in member.topics if name in self._facts
            )
            for member_id, member in self.members.items()
        }
        places = [(facts.id, i) for facts in self._facts.values() for i in range(facts.partitions)]
        current = {member_id: member.assignment for member_id, member in self.members.items()}
        for member_id, assignment in assign(subscribed, places, current).items():
            self.members[member_id].assignment = assignment


def assign(
    subscribed: Mapping[str, frozenset[bytes]],
    places: Collection[Place],
    current: Mapping[str, frozenset[Place]],
) -> dict[str, frozenset[Place]]:
    """Give every partition a member and every member a partition, evenly, moving few of them.

    `subscribed` says which topics each member reads, `current` what it has now.
    """
    given: dict[str, set[Place]] = {member_id: set() for member_id in sorted(subscribed)}
    readers = dict.fromkeys(places, 0)

    def give(member_id: str, place: Place) -> None:
        given[member_id].add(place)
        readers[place] += 1

    for place in places:
        able = [member_id for member_id in given if place[0] in subscribed[member_id]]
        if able:
            give(min(able, key=lambda m: (len(given[m]), place not in current[m])), place)
    for member_id, has in given.items():
        able_places = [place for place in places if place[0] in subscribed[member_id]]
        if able_places and not has:
            kept = current[member_id]
            give(member_id, min(able_places, key=lambda p: (readers[p], p not in kept)))
    return {member_id: frozenset(has) for member_id, has in given.items()}

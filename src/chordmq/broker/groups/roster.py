"""Who is in a classic group: members by id and by instance, their leader and their votes."""

from collections import Counter
from dataclasses import replace

from chordmq.broker.groups.membership import Join, MemberSnapshot, Protocols
from chordmq.dataclass import dataclass
from chordmq.errors import FencedInstance, UnknownMember


@dataclass(slots=True, kw_only=True)
class Member:
    """One member of a running group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """The member has not finished a join yet, so it may not know its own id."""

    def names(self) -> frozenset[str]:
        """Return the protocols that the member knows."""
        return frozenset(name for name, _ in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what the member says under one protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class Roster:
    """The members of one group in the order in which they came."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.leader: str | None = None
        self._static: dict[str, str] = {}  # instance id -> member id
        self._known_by: Counter[str] = Counter()  # protocol -> number of members that know it

    def __len__(self) -> int:
        return len(self.members)

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """Return the member, unless another process holds its instance id by now."""
        if instance_id is not None:
            holder = self._static.get(instance_id)
            if holder is None:
                raise UnknownMember(f"no member has instance id {instance_id}")
            if holder != member_id:
                raise FencedInstance(f"instance id {instance_id} belongs to {holder}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"no member {member_id}")
        return member

    def holder(self, instance_id: str | None) -> Member | None:
        """Return the member that holds an instance id."""
        if instance_id is None or instance_id not in self._static:
            return None
        return self.members[self._static[instance_id]]

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads."""
        self.members[member.member_id] = member
        self._known_by.update(member.names())
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """Let a member go; if it led, the one that came next does."""
        del self.members[member.member_id]
        self._known_by.subtract(member.names())
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, old: Member, member_id: str) -> Member:
        """Give a static member a new id that its former process does not know."""
        led = self.leader == old.member_id
        self.remove(old)
        member = replace(old, member_id=member_id)
        self.add(member)
        if led:
            self.leader = member_id
        return member

    def update(self, member: Member, join: Join) -> None:
        """Take over what a member says in a new join."""
        self._known_by.subtract(member.names())
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.client_id = join.client_id
        member.client_host = join.client_host
        self._known_by.update(member.names())

    def shares_protocol(self, join: Join, known: Member | None) -> bool:
        """Return whether all other members know one of the protocols of a join."""
        others = len(self.members) - (known is not None)
        own = known.names() if known is not None else frozenset()
        return any(self._known_by[name] - (name in own) == others for name, _ in join.protocols)

    def elect_protocol(self) -> str:
        """Return the protocol with most votes; each member votes for its first that all know.

        A tie goes to the protocol that the leader would rather have.
        """
        shared = {name for name, count in self._known_by.items() if count == len(self.members)}
        assert shared, "a member without a common protocol was let in"
        votes = Counter(
            next(name for name, _ in member.protocols if name in shared)
            for member in self.members.values()
        )
        assert self.leader is not None
        taste = [name for name, _ in self.members[self.leader].protocols]
        return max(votes, key=lambda name: (votes[name], -taste.index(name)))

    def rebalance_timeout_ms(self) -> int:
        """Return how long the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)


def new_member(member_id: str, join: Join) -> Member:
    """Return the member that a first join describes."""
    return Member(
        member_id=member_id,
        instance_id=join.instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=join.protocols,
        is_new=True,
    )


def saved_member(saved: MemberSnapshot, protocol: str) -> Member:
    """Return the member that the log describes; it knows the protocol that was elected."""
    return Member(
        member_id=saved.member_id,
        instance_id=saved.instance_id,
        client_id=saved.client_id,
        client_host=saved.client_host,
        session_timeout_ms=saved.session_timeout_ms,
        rebalance_timeout_ms=saved.rebalance_timeout_ms,
        protocols=((protocol, saved.subscription),),
        assignment=saved.assignment,
    )


def save_member(member: Member, protocol: str | None, assignment: bytes) -> MemberSnapshot:
    """Return what the log keeps of a member."""
    return MemberSnapshot(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )

"""What members of a classic group say, what they hear, and what the log keeps of them."""

from collections.abc import Mapping

from chordmq.dataclass import dataclass

Protocols = tuple[tuple[str, bytes], ...]
"""Assignment protocols in the member's order of preference, each with the member's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a member says it is, and which generation it believes to be in."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A member asks to be part of the next generation."""

    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    takes_id_first: bool = False
    """The client understands that it must join again with the id it is given."""
    can_skip_assignment: bool = False
    """The client understands that it leads but need not compute an assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """One member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a join: the generation, and for its leader all members."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A member asks for its assignment; the leader brings everybody's."""

    member: Identity
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a sync."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A member that leaves: by its id, or by its instance id when an operator removes it."""

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """One member of a finished generation, as the log keeps it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A finished generation, as the log keeps it; without members the group is empty."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int = -1
    """Wall-clock time at which the group came to this state."""
    members: tuple[MemberSnapshot, ...] = ()

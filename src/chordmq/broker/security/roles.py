"""Roles: named sets of permissions, given to users and to groups of users."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from chordmq.broker.security.acl import ANY, CLUSTER_NAME, Kind, Match, Operation, Rule
from chordmq.errors import InvalidRequest

MEMBER_PREFIXES = ("User:", "Group:")


class Permission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a role allows."""

    kind: Kind
    name: str = ANY
    match: Match = Match.LITERAL
    operation: Operation


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What its members may do; members are written `User:alice` and `Group:ops`."""

    name: str
    permissions: tuple[Permission, ...] = ()
    members: frozenset[str] = frozenset()

    def rules(self) -> Iterator[Rule]:
        """Yield what the role means for each of its members."""
        for member in sorted(self.members):
            for permission in self.permissions:
                yield Rule(
                    kind=permission.kind,
                    name=permission.name,
                    match=permission.match,
                    principal=member,
                    operation=permission.operation,
                    role=self.name,
                )

    def with_members(self, members: Iterable[str]) -> "Role":
        """Return the role with other members."""
        chosen = frozenset(members)
        for member in chosen:
            if not member.startswith(MEMBER_PREFIXES) or member.endswith(":"):
                raise InvalidRequest(f"{member!r} is neither User:name nor Group:name")
        return replace(self, members=chosen)


def _on(kind: Kind, *operations: Operation) -> tuple[Permission, ...]:
    name = CLUSTER_NAME if kind is Kind.CLUSTER else ANY
    return tuple(Permission(kind=kind, name=name, operation=one) for one in operations)


_LOOKING = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_EVERYTHING = tuple(permission for kind in Kind for permission in _on(kind, Operation.ALL))
_OPERATING = (
    # Not to alter the cluster: whoever may do that may give themselves any right.
    *_on(Kind.CLUSTER, Operation.CREATE, Operation.ALTER_CONFIGS, *_LOOKING),
    *_on(
        Kind.TOPIC,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALTER_CONFIGS,
        *_LOOKING,
    ),
    *_on(Kind.GROUP, Operation.DELETE, Operation.ALTER_CONFIGS, *_LOOKING),
    *_on(Kind.TRANSACTIONAL_ID, Operation.DESCRIBE),
)
_PRODUCING = (
    *_on(Kind.TOPIC, Operation.WRITE, Operation.DESCRIBE),
    *_on(Kind.TRANSACTIONAL_ID, Operation.WRITE, Operation.DESCRIBE),
    *_on(Kind.CLUSTER, Operation.IDEMPOTENT_WRITE),
)
_CONSUMING = (
    *_on(Kind.TOPIC, Operation.READ, Operation.DESCRIBE),
    *_on(Kind.GROUP, Operation.READ, Operation.DESCRIBE),
)
_VIEWING = (
    *_on(Kind.CLUSTER, *_LOOKING),
    *_on(Kind.TOPIC, *_LOOKING),
    *_on(Kind.GROUP, *_LOOKING),
    *_on(Kind.TRANSACTIONAL_ID, Operation.DESCRIBE),
)
BUILT_IN = {
    role.name: role
    for role in (
        Role(name="admin", permissions=_EVERYTHING),
        # Runs the cluster, and neither reads nor writes what others keep in it.
        Role(name="operator", permissions=_OPERATING),
        Role(name="producer", permissions=_PRODUCING),
        Role(name="consumer", permissions=_CONSUMING),
        Role(name="viewer", permissions=_VIEWING),
    )
}
"""Roles that are always there; their permissions cannot be changed."""

"""Roles: what the built-in ones allow, and what their members get."""

import pytest

from chordmq.broker.security.acl import Acl, Kind, Match, Operation
from chordmq.broker.security.principal import Principal
from chordmq.broker.security.roles import BUILT_IN, Permission, Role
from chordmq.errors import InvalidRequest

HOST = "10.0.0.1"


def granted(role: Role, member: str = "User:alice") -> Acl:
    acl = Acl()
    acl.change(add=role.with_members([member]).rules())
    return acl


@pytest.mark.parametrize(
    ("role", "allowed", "denied"),
    [
        ("admin", [(Operation.ALTER, Kind.CLUSTER), (Operation.READ, Kind.TOPIC)], []),
        (
            "operator",
            [(Operation.CREATE, Kind.CLUSTER), (Operation.DELETE, Kind.TOPIC)],
            [
                (Operation.READ, Kind.TOPIC),
                (Operation.WRITE, Kind.TOPIC),
                (Operation.ALTER, Kind.CLUSTER),
            ],
        ),
        (
            "producer",
            [(Operation.WRITE, Kind.TOPIC), (Operation.IDEMPOTENT_WRITE, Kind.CLUSTER)],
            [(Operation.READ, Kind.TOPIC), (Operation.CREATE, Kind.TOPIC)],
        ),
        (
            "consumer",
            [(Operation.READ, Kind.TOPIC), (Operation.READ, Kind.GROUP)],
            [(Operation.WRITE, Kind.TOPIC), (Operation.DELETE, Kind.GROUP)],
        ),
        (
            "viewer",
            [(Operation.DESCRIBE, Kind.TOPIC), (Operation.DESCRIBE_CONFIGS, Kind.CLUSTER)],
            [(Operation.READ, Kind.TOPIC), (Operation.ALTER_CONFIGS, Kind.TOPIC)],
        ),
    ],
)
def test_a_built_in_role_allows_its_work_and_no_more(
    role: str, allowed: list[tuple[Operation, Kind]], denied: list[tuple[Operation, Kind]]
) -> None:
    """A10: roles have permissions on topics, groups and the cluster."""
    acl = granted(BUILT_IN[role])
    for operation, kind in allowed + denied:
        name = "kafka-cluster" if kind is Kind.CLUSTER else "x"
        is_allowed = acl.allows(Principal("alice"), HOST, operation, kind, name)
        assert is_allowed is ((operation, kind) in allowed), (operation, kind)
        assert not acl.allows(Principal("bob"), HOST, operation, kind, name)


def test_a_group_of_users_can_have_a_role() -> None:
    """A10: users and groups have roles."""
    mine = Permission(kind=Kind.TOPIC, name="pay-", match=Match.PREFIXED, operation=Operation.READ)
    acl = granted(Role(name="payments", permissions=(mine,)), "Group:finance")
    member = Principal("carol", frozenset({"finance"}))
    assert acl.allows(member, HOST, Operation.READ, Kind.TOPIC, "pay-in")
    assert not acl.allows(member, HOST, Operation.READ, Kind.TOPIC, "other")
    assert not acl.allows(Principal("carol"), HOST, Operation.READ, Kind.TOPIC, "pay-in")
    decision = acl.decide(member, HOST, Operation.READ, Kind.TOPIC, "pay-in")
    assert decision.rule is not None
    assert decision.rule.role == "payments"


@pytest.mark.parametrize("member", ["alice", "User:", "Role:x", ""])
def test_a_member_is_a_user_or_a_group(member: str) -> None:
    """A10: what is neither is refused."""
    with pytest.raises(InvalidRequest):
        BUILT_IN["admin"].with_members([member])

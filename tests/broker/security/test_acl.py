"""Who may do what: the engine against a model that looks at every rule, and its own claims."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.broker.security.acl import (
    ANY,
    Acl,
    Effect,
    Kind,
    Match,
    Operation,
    Rule,
    RuleFilter,
    identities,
)
from chordmq.broker.security.principal import Principal
from chordmq.errors import (
    ChordMQError,
    ClusterAccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
    TransactionalIdAccessDenied,
)

ALICE = Principal("alice")
BOB = Principal("bob", frozenset({"ops"}))
HOST = "10.0.0.1"
NAMES = ["a", "ab", "abc", "b"]
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def allow(operation: Operation, name: str, principal: str = "User:alice", **fields: object) -> Rule:
    chosen = {"kind": Kind.TOPIC, **fields}
    return Rule(name=name, principal=principal, operation=operation, **chosen)  # type: ignore[arg-type]


def deny(operation: Operation, name: str, principal: str = "User:alice", **fields: object) -> Rule:
    return allow(operation, name, principal, effect=Effect.DENY, **fields)


def acl_of(*rules: Rule) -> Acl:
    acl = Acl()
    acl.change(add=rules)
    return acl


def may(acl: Acl, operation: Operation, name: str, who: Principal = ALICE, at: str = HOST) -> bool:
    return acl.allows(who, at, operation, Kind.TOPIC, name)


rules = st.builds(
    Rule,
    kind=st.sampled_from([Kind.TOPIC, Kind.GROUP]),
    name=st.sampled_from([*NAMES, ANY]),
    match=st.sampled_from(Match),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*", "Group:ops"]),
    host=st.sampled_from([ANY, HOST, "10.0.0.2"]),
    operation=st.sampled_from(Operation),
    effect=st.sampled_from(Effect),
)


def naive(rules: Sequence[Rule], who: Principal, operation: Operation, name: str) -> bool:
    fitting = [
        rule
        for rule in rules
        if rule.kind is Kind.TOPIC
        and (
            name.startswith(rule.name) if rule.match is Match.PREFIXED else rule.name in (name, ANY)
        )
        and (
            rule.principal in (f"User:{who.name}", "User:*")
            or rule.principal.removeprefix("Group:") in who.groups
        )
        and rule.host in (ANY, HOST)
    ]
    exact = {operation, Operation.ALL}
    if any(rule.effect is Effect.DENY and rule.operation in exact for rule in fitting):
        return False
    enough = exact | IMPLIED.get(operation, set())
    return any(rule.effect is Effect.ALLOW and rule.operation in enough for rule in fitting)


@given(st.lists(rules, max_size=12), st.data())
def test_the_index_decides_as_a_look_at_every_rule_would(
    chosen: list[Rule], data: st.DataObject
) -> None:
    """C9: literal, prefixed and wildcard rules, allow and deny, users, groups and hosts."""
    acl = acl_of(*chosen)
    removed = data.draw(st.lists(st.sampled_from(chosen))) if chosen else []
    for kept in (chosen, [rule for rule in chosen if rule not in removed]):
        for who in (ALICE, BOB):
            for operation in Operation:
                for name in NAMES:
                    expected = naive(kept, who, operation, name)
                    assert may(acl, operation, name, who) is expected
        acl.change(remove=removed)


@given(st.lists(rules, max_size=8), st.sampled_from([ALICE, BOB]), st.sampled_from(Operation))
def test_something_is_allowed_somewhere_only_if_a_resource_can_be_named(
    chosen: list[Rule], who: Principal, operation: Operation
) -> None:
    """C9: what InitProducerId asks (KIP-679)."""
    names = {rule.name + tail for rule in chosen for tail in ("", "~")} | {"~"}
    possible = any(naive(chosen, who, operation, name) for name in names)
    found = acl_of(*chosen).allows_any(who, HOST, operation, Kind.TOPIC)
    # As in Kafka, a denied prefix of a wildcard's resources is not looked into.
    assert found or not possible or any(rule.effect is Effect.DENY for rule in chosen)
    assert possible or not found


def test_nothing_is_allowed_that_no_rule_allows() -> None:
    """C9: default deny."""
    assert not may(Acl(), Operation.READ, "a")
    assert may(Acl(allows_without_rules=True), Operation.READ, "a")


def test_with_rules_about_a_resource_only_they_count() -> None:
    """C9: allow.everyone.if.no.acl.found is for resources without any rule."""
    acl = Acl(allows_without_rules=True)
    acl.change(add=[allow(Operation.READ, "a", "User:bob")])
    assert not may(acl, Operation.READ, "a")
    assert may(acl, Operation.READ, "b")


def test_deny_beats_allow_however_narrow_or_wide() -> None:
    """C9: deny beats allow."""
    wide = acl_of(allow(Operation.ALL, "a"), deny(Operation.READ, ANY))
    assert not may(wide, Operation.READ, "a")
    assert may(wide, Operation.WRITE, "a")
    narrow = acl_of(allow(Operation.ALL, ANY), deny(Operation.READ, "a"))
    assert not may(narrow, Operation.READ, "a")
    assert may(narrow, Operation.READ, "b")
    # Who may not read it may still know that it is there.
    assert may(narrow, Operation.DESCRIBE, "a")


def test_a_change_counts_from_the_next_question_on() -> None:
    """C9: decisions are kept only until a rule changes."""
    acl = acl_of()
    assert not may(acl, Operation.READ, "a")
    rule = allow(Operation.READ, "a", match=Match.PREFIXED)
    acl.change(add=[rule])
    assert may(acl, Operation.READ, "abc")
    acl.change(remove=[rule])
    assert not may(acl, Operation.READ, "abc")
    assert acl.version == 3


def test_a_super_user_may_do_everything_as_long_as_it_is_one() -> None:
    """C9: super users are above every rule, and no decision about them is kept."""
    supers = {"alice"}
    acl = acl_of(deny(Operation.ALL, ANY))
    acl.is_super = lambda principal: principal.name in supers
    assert may(acl, Operation.READ, "a")
    assert acl.allows_any(ALICE, HOST, Operation.WRITE, Kind.TOPIC)
    supers.clear()
    assert not may(acl, Operation.READ, "a")


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Kind.TOPIC, TopicAccessDenied),
        (Kind.GROUP, GroupAccessDenied),
        (Kind.CLUSTER, ClusterAccessDenied),
        (Kind.TRANSACTIONAL_ID, TransactionalIdAccessDenied),
    ],
)
def test_each_kind_of_resource_has_its_own_refusal(kind: Kind, fault: type[ChordMQError]) -> None:
    """C9: and whoever keeps watch is told of it."""
    denied: list[object] = []
    acl = Acl()
    acl.on_denied = lambda *what: denied.append(what)
    with pytest.raises(fault, match="User:alice may not alter"):
        acl.check(ALICE, HOST, Operation.ALTER, kind, "x")
    assert denied == [(ALICE, HOST, Operation.ALTER, kind, "x")]


def test_a_decision_says_which_rule_made_it() -> None:
    """C9: `chordmq acls why` can explain."""
    rule = allow(Operation.READ, "a", match=Match.PREFIXED)
    decision = acl_of(rule).decide(ALICE, HOST, Operation.DESCRIBE, Kind.TOPIC, "ab")
    assert decision.is_allowed
    assert decision.rule == rule
    assert str(rule) == "allow User:alice read topic a*"
    assert acl_of().decide(ALICE, HOST, Operation.READ, Kind.TOPIC, "a").rule is None


def test_rules_are_found_by_name_and_by_the_resource_they_cover() -> None:
    """C9: what DescribeAcls filters by."""
    exact, prefix, every = (
        allow(Operation.READ, "ab"),
        allow(Operation.READ, "a", match=Match.PREFIXED),
        allow(Operation.READ, ANY),
    )
    there = {exact, prefix, every}
    assert {rule for rule in there if RuleFilter(name="ab").fits(rule)} == {exact}
    assert {rule for rule in there if RuleFilter(name="ab", covering=True).fits(rule)} == there
    assert {rule for rule in there if RuleFilter(match=Match.PREFIXED).fits(rule)} == {prefix}
    assert not any(RuleFilter(operation=Operation.ALL).fits(rule) for rule in there)


def test_a_principal_is_meant_by_name_by_group_and_as_everybody() -> None:
    """A10: groups come from the authentication back end."""
    assert identities(BOB) == {"User:bob", "User:*", "Group:ops"}

"""Decides who may do what: rules by resource, operation, principal and host; deny beats allow.

Nothing is allowed that no rule allows. A decision is kept until any rule changes, so that asking
again, as each produce request does, costs one look-up, and a change counts from the next request
on, on open connections as well.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import msgspec

from chordmq.broker.security.principal import Principal
from chordmq.dataclass import dataclass
from chordmq.errors import (
    ChordMQError,
    ClusterAccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
    TransactionalIdAccessDenied,
)

ANY = "*"
"""As a name: every resource of the kind. As a host: every host. As a user: everybody."""
CLUSTER_NAME = "kafka-cluster"
EVERYBODY = "User:*"
DECISIONS_MAX = 100_000
NAME_LENGTH_MAX = 1_000


class Kind(StrEnum):
    """What a rule is about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"
    DELEGATION_TOKEN = "delegation-token"  # noqa: S105 (a kind, not a secret)
    USER = "user"


class Operation(StrEnum):
    """What somebody wants to do with it."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster-action"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    IDEMPOTENT_WRITE = "idempotent-write"
    CREATE_TOKENS = "create-tokens"
    DESCRIBE_TOKENS = "describe-tokens"
    TWO_PHASE_COMMIT = "two-phase-commit"


class Match(StrEnum):
    """How a rule's name is compared with a resource's."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Effect(StrEnum):
    """What a rule that fits decides."""

    ALLOW = "allow"
    DENY = "deny"


# Who may change or read something may also know that it is there.
_ALLOWED_BY = {operation: frozenset({operation, Operation.ALL}) for operation in Operation}
_ALLOWED_BY[Operation.DESCRIBE] |= {
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
}
_ALLOWED_BY[Operation.DESCRIBE_CONFIGS] |= {Operation.ALTER_CONFIGS}
_DENIED_BY = {operation: frozenset({operation, Operation.ALL}) for operation in Operation}

_DENIALS: dict[Kind, type[ChordMQError]] = {
    Kind.TOPIC: TopicAccessDenied,
    Kind.GROUP: GroupAccessDenied,
    Kind.TRANSACTIONAL_ID: TransactionalIdAccessDenied,
}


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the list; `role` names the role that it comes from, if any.

    A document with a field that is not here is refused: a misspelt `effect` must not allow.
    """

    kind: Kind
    name: str
    match: Match = Match.LITERAL
    principal: str
    host: str = ANY
    operation: Operation
    effect: Effect = Effect.ALLOW
    role: str = ""

    def covers(self, kind: Kind, name: str) -> bool:
        """Return whether the rule is about this resource."""
        if kind is not self.kind:
            return False
        if self.match is Match.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY)

    def __str__(self) -> str:
        name = f"{self.name}*" if self.match is Match.PREFIXED else self.name
        text = f"{self.effect} {self.principal} {self.operation} {self.kind} {name}"
        if self.host != ANY:
            text += f" from {self.host}"
        return f"{text} (role {self.role})" if self.role else text


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFilter:
    """Which rules somebody asks for; None means any.

    With `covering`, the rules about the resource `name` are meant, not those that bear the name.
    """

    kind: Kind | None = None
    name: str | None = None
    match: Match | None = None
    covering: bool = False
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    effect: Effect | None = None

    def fits(self, rule: Rule) -> bool:
        """Return whether the rule is meant."""
        wanted = (self.kind, self.match, self.principal, self.host, self.operation, self.effect)
        there = (rule.kind, rule.match, rule.principal, rule.host, rule.operation, rule.effect)
        if any(want not in (None, has) for want, has in zip(wanted, there, strict=True)):
            return False
        if self.name is None:
            return True
        return rule.covers(rule.kind, self.name) if self.covering else rule.name == self.name


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and why."""

    is_allowed: bool
    reason: str
    rule: Rule | None = None


class Acl:
    """All rules, with the decisions that follow from them."""

    def __init__(self, *, allows_without_rules: bool = False) -> None:
        self.version = 0
        self.is_super: Callable[[Principal], bool] = lambda _: False
        """Returns whether the principal may do everything; asked anew each time."""
        self.on_denied: Callable[[Principal, str, Operation, Kind, str], None] | None = None
        """Called once per denied request and resource; the place for an audit."""
        self._allows_without_rules = allows_without_rules
        self._named: dict[tuple[Kind, str], dict[Rule, None]] = {}
        self._prefixed: dict[tuple[Kind, str], dict[Rule, None]] = {}
        self._prefix_lengths: dict[Kind, set[int]] = {}
        self._decisions: dict[tuple[object, ...], bool] = {}

    def __iter__(self) -> Iterator[Rule]:
        for index in (self._named, self._prefixed):
            for rules in index.values():
                yield from rules

    def change(self, *, add: Iterable[Rule] = (), remove: Iterable[Rule] = ()) -> None:
        """Remove and add rules; what was decided before is forgotten."""
        for rule in remove:
            index = self._index(rule)
            rules = index.get((rule.kind, rule.name), {})
            rules.pop(rule, None)
            if not rules:
                index.pop((rule.kind, rule.name), None)
        for rule in add:
            self._index(rule).setdefault((rule.kind, rule.name), {})[rule] = None
        self._prefix_lengths = {}
        for kind, prefix in self._prefixed:
            self._prefix_lengths.setdefault(kind, set()).add(len(prefix))
        self._decisions.clear()
        self.version += 1

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: Kind, name: str
    ) -> bool:
        """Return whether the principal may do this from there."""
        key = (principal.name, principal.groups, host, operation, kind, name)
        is_allowed = self._decisions.get(key)
        if is_allowed is None:
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            is_allowed = self._judge(principal, host, operation, kind, name).is_allowed
            self._decisions[key] = is_allowed
        return is_allowed or self.is_super(principal)

    def check(
        self, principal: Principal, host: str, operation: Operation, kind: Kind, name: str
    ) -> None:
        """Raise the kind's own error unless the principal may do this from there."""
        # Asked for every batch: what was allowed before is looked up here, without another call.
        key = (principal.name, principal.groups, host, operation, kind, name)
        if self._decisions.get(key) or self.allows(principal, host, operation, kind, name):
            return
        if self.on_denied is not None:
            self.on_denied(principal, host, operation, kind, name)
        raise denial(principal, operation, kind, name)

    def decide(
        self, principal: Principal, host: str, operation: Operation, kind: Kind, name: str
    ) -> Decision:
        """Decide afresh, and say which rule or setting decides."""
        if self.is_super(principal):
            return Decision(True, "a super user may do everything")
        return self._judge(principal, host, operation, kind, name)

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: Kind) -> bool:
        """Return whether there is, or could be, a resource with which the principal may do this."""
        if self.is_super(principal):
            return True
        names = identities(principal)
        rules = [
            rule
            for rule in self
            if rule.kind is kind and rule.principal in names and rule.host in (ANY, host)
        ]
        denying = [
            rule
            for rule in rules
            if rule.effect is Effect.DENY and rule.operation in _DENIED_BY[operation]
        ]
        if any(rule.match is Match.LITERAL and rule.name == ANY for rule in denying):
            return False
        if self._allows_without_rules:
            return True
        return any(
            rule.effect is Effect.ALLOW
            and rule.operation in _ALLOWED_BY[operation]
            and not any(_contains(deny, rule) for deny in denying)
            for rule in rules
        )

    def _judge(
        self, principal: Principal, host: str, operation: Operation, kind: Kind, name: str
    ) -> Decision:
        names = identities(principal)
        has_rules, allowing = False, None
        for rule in self._covering(kind, name):
            has_rules = True
            if rule.principal not in names or rule.host not in (ANY, host):
                continue
            if rule.effect is Effect.DENY:
                if rule.operation in _DENIED_BY[operation]:
                    return Decision(False, "a rule denies it", rule)
            elif allowing is None and rule.operation in _ALLOWED_BY[operation]:
                allowing = rule
        if allowing is not None:
            return Decision(True, "a rule allows it", allowing)
        if not has_rules and self._allows_without_rules:
            return Decision(True, "no rule is about it, and allow.everyone.if.no.acl.found is set")
        return Decision(False, "no rule allows it")

    def _covering(self, kind: Kind, name: str) -> Iterator[Rule]:
        for literal in {name, ANY}:
            yield from self._named.get((kind, literal), ())
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                yield from self._prefixed.get((kind, name[:length]), ())

    def _index(self, rule: Rule) -> dict[tuple[Kind, str], dict[Rule, None]]:
        return self._prefixed if rule.match is Match.PREFIXED else self._named


def identities(principal: Principal) -> frozenset[str]:
    """Return the names under which rules may mean this principal."""
    groups = (f"Group:{group}" for group in principal.groups)
    return frozenset({f"User:{principal.name}", EVERYBODY, *groups})


def denial(principal: Principal, operation: Operation, kind: Kind, name: str) -> ChordMQError:
    """Return the error for what the principal may not do."""
    fault = _DENIALS.get(kind, ClusterAccessDenied)
    return fault(f"User:{principal.name} may not {operation} {kind} {name}")


def _contains(wide: Rule, narrow: Rule) -> bool:
    """Return whether the first rule is about everything that the second is about."""
    if wide.match is Match.PREFIXED:
        is_any = narrow.match is Match.LITERAL and narrow.name == ANY
        return narrow.name.startswith(wide.name) and not is_any
    return narrow.match is Match.LITERAL and narrow.name == wide.name

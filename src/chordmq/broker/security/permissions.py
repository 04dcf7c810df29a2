"""ACLs, roles and quotas of the cluster: kept in memory, changed in the store first."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from chordmq.broker.security.acl import (
    ANY,
    CLUSTER_NAME,
    NAME_LENGTH_MAX,
    Acl,
    Kind,
    Rule,
    RuleFilter,
)
from chordmq.broker.security.quotas import Entity, Limit, Quotas
from chordmq.broker.security.quotas import check as check_quota
from chordmq.broker.security.roles import BUILT_IN, Role
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Delete, Event, Put
from chordmq.cluster.state import ACLS, QUOTAS, ROLES, acl_key, encode, name_of, named_key
from chordmq.dataclass import dataclass
from chordmq.errors import CannotStart, ChordMQError, InvalidRequest, UnknownRole

RULES_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AclSettings:
    """What decides where no ACL does, and where ACLs come from at the start."""

    file: str = ""
    """JSON file of ACLs, roles and quotas that are added at each start."""
    allow_everyone_if_no_acl_found: bool = False
    """Allow everybody to use what no ACL is about, instead of nobody."""


class Quota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a user, a client id, or both, or of an address, as documents write them."""

    user: str = ""
    client: str = ""
    ip: str = ""
    limits: dict[Limit, float]

    @property
    def entity(self) -> Entity:
        """Return whom the limits are for."""
        return Entity(user=self.user, client=self.client, ip=self.ip)


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything at once: the form of `acl.file`, of export and of import."""

    acls: list[Rule] = []
    roles: list[Role] = []
    quotas: list[Quota] = []


@dataclass(frozen=True, slots=True)
class Changed:
    """One change of permissions, for those who keep watch."""

    what: str
    """acl, role or quota."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    by: str = ""


class Permissions:
    """Who may do what, and how much of it."""

    def __init__(self, image: Image, settings: AclSettings) -> None:
        self.is_enforced = False
        """Whether ACLs are asked at all: as soon as clients can be told apart."""
        self.acl = Acl(allows_without_rules=settings.allow_everyone_if_no_acl_found)
        self.roles: dict[str, Role] = dict(BUILT_IN)
        self.quotas = Quotas()
        self.watchers: list[Callable[[Changed], None]] = []
        """Told what was changed on this node, and by whom."""
        self.listeners: list[Callable[[], None]] = []
        """Told that something has changed, here or on another node."""
        self._image = image
        self._rules: dict[str, Rule] = {}
        """By their keys in the store."""
        self._changing = asyncio.Lock()
        for family, hear in (
            (ACLS, self._hear_rules),
            (ROLES, self._hear_roles),
            (QUOTAS, self._hear_quotas),
        ):
            image.listen(family, hear)
            hear(image.told(family))
        self._file = settings.file

    async def load_file(self) -> None:
        """Add what `acl.file` holds, if it is set."""
        if not self._file:
            return
        try:
            text = await asyncio.to_thread(Path(self._file).read_bytes)
            await self.merge(read_document(text), by=f"acl.file {self._file}")
        except (OSError, ChordMQError) as error:
            raise CannotStart(f"acl.file {self._file} cannot be loaded: {error}") from None

    def rules(self, wanted: RuleFilter) -> list[Rule]:
        """Return the ACLs that a filter means, without what comes from roles."""
        found = [rule for rule in self.acl if not rule.role and wanted.fits(rule)]
        return sorted(found, key=str)

    async def add_rules(self, rules: Iterable[Rule], *, by: str = "") -> None:
        """Add ACLs; those that are there already stay."""
        wanted = [check_rule(rule) for rule in rules]
        async with self._changing:
            there = {rule for rule in self.acl if not rule.role}
            new = list(dict.fromkeys(rule for rule in wanted if rule not in there))
            if len(there) + len(new) > RULES_MAX:
                raise InvalidRequest(f"There may be {RULES_MAX} ACLs.")
            if new:
                await self._change_rules(new, [], by)

    async def remove_rules(self, wanted: Iterable[RuleFilter], *, by: str = "") -> list[list[Rule]]:
        """Remove ACLs; return for each filter which were meant."""
        async with self._changing:
            found = [self.rules(one) for one in wanted]
            gone = list(dict.fromkeys(rule for rules in found for rule in rules))
            if gone:
                await self._change_rules([], gone, by)
        return found

    def role(self, name: str) -> Role:
        """Return the role, or raise UnknownRole."""
        if name not in self.roles:
            raise UnknownRole(f"no role is called {name!r}; there are {', '.join(self.roles)}")
        return self.roles[name]

    async def save_role(self, role: Role, *, by: str = "") -> None:
        """Add a role or replace it; of a built-in role only the members can change."""
        check_role(role)
        async with self._changing:
            await self._save_role(role, by)

    async def set_member(
        self, name: str, member: str, *, is_member: bool = True, by: str = ""
    ) -> None:
        """Give a role to a user or group, or take it away."""
        async with self._changing:
            role = self.role(name)
            members = role.members | {member} if is_member else role.members - {member}
            await self._save_role(role.with_members(members), by)

    async def remove_role(self, name: str, *, by: str = "") -> None:
        """Delete a role; a built-in one only loses its members."""
        async with self._changing:
            self.role(name)
            await self._image.commit([], [Delete(named_key(ROLES, name))])
            self._tell(Changed("role", removed=(name,), by=by))

    async def set_limits(
        self, changes: Mapping[Entity, Mapping[Limit, float | None]], *, by: str = ""
    ) -> None:
        """Set limits, and remove (None) others, in one step."""
        async with self._changing:
            wanted = {}
            for entity, given in changes.items():
                kept = {**self.quotas.get(entity), **given}
                wanted[entity] = {name: kept[name] for name in kept if kept[name] is not None}
            await self._save_quotas({e: _numbers(limits) for e, limits in wanted.items()}, by)

    def document(self) -> Document:
        """Return everything that was set, without built-in roles that nobody has."""
        quotas = [Quota(**asdict(entity), limits=dict(rates)) for entity, rates in self.quotas]
        return Document(
            acls=self.rules(RuleFilter()),
            roles=[role for role in self.roles.values() if role != BUILT_IN.get(role.name)],
            quotas=sorted(quotas, key=lambda quota: (quota.user, quota.client, quota.ip)),
        )

    async def merge(self, document: Document, *, by: str = "") -> None:
        """Add everything in a document; roles and quotas of the same name are replaced."""
        quotas = {quota.entity: quota.limits for quota in document.quotas}
        for role in document.roles:
            check_role(role)
        for entity, limits in quotas.items():
            check_quota(entity, limits)
        await self.add_rules(document.acls, by=by)
        for role in document.roles:
            await self.save_role(role, by=by)
        async with self._changing:
            await self._save_quotas(quotas, by)

    async def replace_all(self, document: Document, *, by: str = "") -> None:
        """Add everything in a document, then remove what it does not name."""
        await self.merge(document, by=by)
        kept = set(document.acls)
        async with self._changing:
            gone = [rule for rule in self.rules(RuleFilter()) if rule not in kept]
            await self._change_rules([], gone, by)
        named = {role.name for role in document.roles}
        for role in self.document().roles:
            if role.name not in named:
                await self.remove_role(role.name, by=by)
        limited = {quota.entity for quota in document.quotas}
        async with self._changing:
            others: dict[Entity, Mapping[Limit, float]] = {
                entity: {} for entity, _ in self.quotas if entity not in limited
            }
            await self._save_quotas(others, by)

    def _hear_rules(self, events: list[Event]) -> None:
        gone = [rule for event in events if (rule := self._rules.pop(event.key, None))]
        for event in events:
            if event.entry is not None:
                self._rules[event.key] = msgspec.json.decode(event.entry.value, type=Rule)
        new = [self._rules[event.key] for event in events if event.entry is not None]
        self.acl.change(remove=gone, add=new)
        self._notify()

    def _hear_roles(self, events: list[Event]) -> None:
        for event in events:
            name = name_of(event.key)
            old, role = self.roles.pop(name, None), BUILT_IN.get(name)
            if event.entry is not None:
                stored = msgspec.json.decode(event.entry.value, type=Role)
                role = replace(role, members=stored.members) if role else stored
            self.acl.change(remove=old.rules() if old else (), add=role.rules() if role else ())
            if role is not None:
                self.roles[name] = role
        self._notify()

    def _hear_quotas(self, events: list[Event]) -> None:
        for event in events:
            if event.entry is not None:
                quota = msgspec.json.decode(event.entry.value, type=Quota)
                self.quotas.put(quota.entity, quota.limits)
            else:
                self.quotas.put(_entity(event.key), {})
        self._notify()

    async def _change_rules(self, add: list[Rule], remove: list[Rule], by: str) -> None:
        operations: list[Put | Delete] = [
            *(Delete(_rule_key(rule)) for rule in remove),
            *(Put(_rule_key(rule), encode(rule)) for rule in add),
        ]
        size = self._image.store.operations_max
        for start in range(0, len(operations), size):
            await self._image.commit([], operations[start : start + size])
        self._tell(Changed("acl", tuple(map(str, add)), tuple(map(str, remove)), by))

    async def _save_role(self, role: Role, by: str) -> None:
        if role.name in BUILT_IN:
            role = replace(role, permissions=())
        await self._image.commit([], [Put(named_key(ROLES, role.name), encode(role))])
        members = ", ".join(sorted(role.members)) or "nobody"
        self._tell(Changed("role", added=(f"{role.name} for {members}",), by=by))

    async def _save_quotas(self, quotas: Mapping[Entity, Mapping[Limit, float]], by: str) -> None:
        for entity, limits in quotas.items():
            check_quota(entity, limits)
        operations = [_quota_operation(entity, limits) for entity, limits in quotas.items()]
        size = self._image.store.operations_max
        for start in range(0, len(operations), size):
            await self._image.commit([], operations[start : start + size])
        for entity, limits in quotas.items():
            text = ", ".join(f"{name}={value:g}" for name, value in limits.items()) or "none"
            whom = entity.ip or f"{entity.user}/{entity.client}"
            self._tell(Changed("quota", added=(f"{whom}: {text}",), by=by))

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()

    def _tell(self, change: Changed) -> None:
        for watcher in self.watchers:
            watcher(change)


def read_document(data: bytes) -> Document:
    """Read a JSON document, or raise InvalidRequest."""
    try:
        document = msgspec.json.decode(data, type=Document)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"not a document of permissions: {error}") from None
    # Only a role itself gives what a role gives.
    return replace(document, acls=[replace(rule, role="") for rule in document.acls])


def as_json(value: object) -> Any:
    """Return a part of a document as plain lists and maps."""
    plain = msgspec.to_builtins(value)
    for rule in plain.get("acls", [plain] if isinstance(value, Rule) else []):
        if not rule.get("role"):
            rule.pop("role", None)
    return plain


def check_rule(rule: Rule) -> Rule:
    """Return the rule if it can mean something, else raise InvalidRequest."""
    _check_name(rule.kind, rule.name)
    kind, colon, name = rule.principal.partition(":")
    if not (colon and kind and name) or len(rule.principal) > NAME_LENGTH_MAX:
        raise InvalidRequest(f"{rule.principal!r} is no principal such as User:alice.")
    if not rule.host or len(rule.host) > NAME_LENGTH_MAX:
        raise InvalidRequest("A host is an address, or * for all.")
    return replace(rule, role="") if rule.role else rule


def check_role(role: Role) -> None:
    """Raise InvalidRequest for a role that cannot be."""
    if not role.name or len(role.name) > NAME_LENGTH_MAX:
        raise InvalidRequest("A role needs a name, and not a long one.")
    built_in = BUILT_IN.get(role.name)
    if built_in and role.permissions and set(role.permissions) != set(built_in.permissions):
        raise InvalidRequest(f"The permissions of the built-in role {role.name} are fixed.")
    for permission in role.permissions:
        _check_name(permission.kind, permission.name)
    role.with_members(role.members)


def _check_name(kind: Kind, name: str) -> None:
    if not name or len(name) > NAME_LENGTH_MAX:
        raise InvalidRequest("A resource needs a name, and not a long one.")
    if kind is Kind.CLUSTER and name not in (CLUSTER_NAME, ANY):
        raise InvalidRequest(f"The only cluster is called {CLUSTER_NAME}.")


def _rule_key(rule: Rule) -> str:
    return acl_key(
        rule.kind, rule.name, rule.match, rule.principal, rule.host, rule.operation, rule.effect
    )


def _quota_operation(entity: Entity, limits: Mapping[Limit, float]) -> Put | Delete:
    names = (entity.user, entity.client, *([entity.ip] if entity.ip else []))
    key = named_key(QUOTAS, *names)
    return Put(key, encode(Quota(**asdict(entity), limits=dict(limits)))) if limits else Delete(key)


def _entity(key: str) -> Entity:
    names = map(unquote, key.removeprefix(QUOTAS).split("/"))
    return Entity(**dict(zip(("user", "client", "ip"), names, strict=False)))


def _numbers(limits: Mapping[Limit, float | None]) -> dict[Limit, float]:
    return {name: value for name, value in limits.items() if value is not None}

"""ACLs, roles and quotas over HTTP, and which of them decides."""

from http import HTTPStatus

import msgspec
from msgspec.structs import replace

from chordmq.broker.security.acl import (
    ANY,
    CLUSTER_NAME,
    Decision,
    Effect,
    Kind,
    Match,
    Operation,
    Rule,
    RuleFilter,
)
from chordmq.broker.security.permissions import Document, Permissions, Quota
from chordmq.broker.security.principal import Principal
from chordmq.broker.security.quotas import Entity, Limit
from chordmq.broker.security.roles import Permission, Role
from chordmq.errors import InvalidRequest
from chordmq.fronts.admin.api import Api
from chordmq.fronts.admin.call import Call


class Acls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """ACLs, as they are listed, added and removed."""

    acls: list[Rule]


class Roles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The built-in roles and those that were added."""

    roles: list[Role]


class NewRole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a role is to allow, and to whom; without permissions a built-in role keeps its own."""

    permissions: list[Permission] = []
    members: list[str] = []


class Quotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of users and client ids."""

    quotas: list[Quota]


class NewLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits to set and (null) to remove; `<default>` stands for whoever has none of its own."""

    user: str = ""
    client: str = ""
    ip: str = ""
    limits: dict[Limit, float | None]


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ACLs are meant; with `covering`, all that are about the resource `name`."""

    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    kind: Kind | None = None
    name: str | None = None
    match: Match | None = None
    effect: Effect | None = None
    covering: bool = False


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """May this principal do that? `resource` reads `topic:orders`, or `cluster`."""

    principal: str
    operation: Operation
    resource: str
    host: str = ANY
    groups: str = ""
    """Names with commas."""


class Import(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether what the document does not name is removed."""

    replace: bool = False


async def list_acls(call: Call, query: Filter) -> Acls:
    """List the ACLs that the query means; all of them without one."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    return Acls(acls=call.broker.permissions.rules(_filter(query)))


async def add_acls(call: Call, body: Acls) -> Acls:
    """Add ACLs; those that are there already stay."""
    permissions = _altered(call)
    await permissions.add_rules(body.acls, by=_name(call))
    return body


async def remove_acls(call: Call, query: Filter) -> Acls:
    """Remove the ACLs that the query means, and return them; without a query nothing is meant."""
    permissions = _altered(call)
    if query == Filter():
        raise InvalidRequest("say which ACLs to remove; `name=*&covering=true` means many")
    (removed,) = await permissions.remove_rules([_filter(query)], by=_name(call))
    return Acls(acls=removed)


async def list_roles(call: Call) -> Roles:
    """List every role with its permissions and members."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    return Roles(roles=list(call.broker.permissions.roles.values()))


async def show_role(call: Call) -> Role:
    """Show one role."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    return call.broker.permissions.role(call.path("name"))


async def save_role(call: Call, body: NewRole) -> Role:
    """Add a role, or replace it."""
    permissions, name = _altered(call), call.path("name")
    role = Role(name=name, permissions=tuple(body.permissions), members=frozenset(body.members))
    await permissions.save_role(role, by=_name(call))
    return permissions.role(name)


async def remove_role(call: Call) -> None:
    """Delete a role; a built-in one only loses its members."""
    await _altered(call).remove_role(call.path("name"), by=_name(call))


async def give_role(call: Call) -> Role:
    """Give a role to `User:name` or `Group:name`."""
    return await _set_member(call, is_member=True)


async def take_role(call: Call) -> Role:
    """Take a role away from a user or group."""
    return await _set_member(call, is_member=False)


async def list_quotas(call: Call) -> Quotas:
    """List the limits of users and client ids."""
    call.check(Operation.DESCRIBE_CONFIGS, Kind.CLUSTER)
    return Quotas(quotas=call.broker.permissions.document().quotas)


async def set_quota(call: Call, body: NewLimits) -> Quotas:
    """Set and remove limits of one user, one client id, or both; or of one address."""
    call.check(Operation.ALTER_CONFIGS, Kind.CLUSTER)
    entity = Entity(user=body.user, client=body.client, ip=body.ip)
    await call.broker.permissions.set_limits({entity: body.limits}, by=_name(call))
    return Quotas(quotas=call.broker.permissions.document().quotas)


async def why(call: Call, query: Question) -> Decision:
    """Say whether something is allowed, and which rule decides."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    groups = frozenset(filter(None, query.groups.split(",")))
    principal = Principal(query.principal.removeprefix("User:"), groups)
    kind, name = _resource(query.resource)
    permissions = call.broker.permissions
    if not permissions.is_enforced:
        return Decision(True, "nobody has to log in, so no rule is asked")
    return permissions.acl.decide(principal, query.host, query.operation, kind, name)


async def export_all(call: Call) -> Document:
    """Return all ACLs, roles and quotas in the form of `acl.file`."""
    call.check(Operation.DESCRIBE, Kind.CLUSTER)
    return call.broker.permissions.document()


async def import_all(call: Call, query: Import, body: Document) -> Document:
    """Add all ACLs, roles and quotas of a document."""
    permissions = _altered(call)
    document = replace(body, acls=[replace(rule, role="") for rule in body.acls])
    if query.replace:
        await permissions.replace_all(document, by=_name(call))
    else:
        await permissions.merge(document, by=_name(call))
    return permissions.document()


ROUTES = [
    Api("GET", "/v1/acls", list_acls),
    Api("POST", "/v1/acls", add_acls, status=HTTPStatus.CREATED),
    Api("DELETE", "/v1/acls", remove_acls),
    Api("GET", "/v1/roles", list_roles),
    Api("GET", "/v1/roles/{name}", show_role),
    Api("PUT", "/v1/roles/{name}", save_role),
    Api("DELETE", "/v1/roles/{name}", remove_role),
    Api("PUT", "/v1/roles/{name}/members/{member}", give_role),
    Api("DELETE", "/v1/roles/{name}/members/{member}", take_role),
    Api("GET", "/v1/quotas", list_quotas),
    Api("PUT", "/v1/quotas", set_quota),
    Api("GET", "/v1/why", why),
    Api("GET", "/v1/permissions", export_all),
    Api("PUT", "/v1/permissions", import_all),
]


def _altered(call: Call) -> Permissions:
    call.check(Operation.ALTER, Kind.CLUSTER)
    return call.broker.permissions


async def _set_member(call: Call, *, is_member: bool) -> Role:
    permissions, name = _altered(call), call.path("name")
    await permissions.set_member(name, call.path("member"), is_member=is_member, by=_name(call))
    return permissions.role(name)


def _name(call: Call) -> str:
    return f"User:{call.principal.name}"


def _filter(query: Filter) -> RuleFilter:
    return RuleFilter(
        kind=query.kind,
        name=query.name,
        match=query.match,
        covering=query.covering,
        principal=query.principal,
        host=query.host,
        operation=query.operation,
        effect=query.effect,
    )


def _resource(text: str) -> tuple[Kind, str]:
    kind, colon, name = text.partition(":")
    if kind not in list(Kind) or not ((colon and name) or kind == Kind.CLUSTER):
        raise InvalidRequest(f"{text!r} is no resource such as topic:orders, group:g or cluster")
    return Kind(kind), name or CLUSTER_NAME

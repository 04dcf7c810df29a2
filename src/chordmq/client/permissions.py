"""ACLs and quotas of a cluster, seen and changed through Kafka's own APIs."""

from collections.abc import Iterable, Mapping

from chordmq.client.cluster import Cluster
from chordmq.client.errors import check
from chordmq.codecs.kafka.messages import alter_client_quotas as altering
from chordmq.codecs.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from chordmq.codecs.kafka.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from chordmq.codecs.kafka.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from chordmq.codecs.kafka.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from chordmq.codecs.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from chordmq.dataclass import dataclass

KINDS = {
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional-id": 5,
    "delegation-token": 6,
    "user": 7,
}
MATCHES = {"literal": 3, "prefixed": 4}
EFFECTS = {"deny": 2, "allow": 3}
OPERATIONS = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster-action": 9,
    "describe-configs": 10,
    "alter-configs": 11,
    "idempotent-write": 12,
    "create-tokens": 13,
    "describe-tokens": 14,
    "two-phase-commit": 15,
}
ANY, COVERING = 1, 2
CLUSTER_NAME = "kafka-cluster"
DEFAULT = "<default>"
"""As a user or client id: each one that has no quota of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One line: whether who may do what with which resource, and from where."""

    principal: str
    operation: str
    kind: str
    name: str
    match: str = "literal"
    host: str = "*"
    effect: str = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which ACLs are meant; None means any, `covering` all that are about the resource `name`."""

    principal: str | None = None
    operation: str | None = None
    kind: str | None = None
    name: str | None = None
    match: str | None = None
    host: str | None = None
    effect: str | None = None
    covering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of a user, a client id, or both, or of an address; empty parts do not matter."""

    user: str = ""
    client: str = ""
    ip: str = ""
    limits: Mapping[str, float]


async def list_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Return the ACLs that a filter means."""
    row = _filter(wanted)
    request = DescribeAclsRequest(
        resource_type_filter=row.resource_type_filter,
        resource_name_filter=row.resource_name_filter,
        pattern_type_filter=row.pattern_type_filter,
        principal_filter=row.principal_filter,
        host_filter=row.host_filter,
        operation=row.operation,
        permission_type=row.permission_type,
    )
    connection = await cluster.any_node()
    answer = await connection.call(request, DescribeAclsResponse)
    check(answer.error_code, "the list of ACLs", answer.error_message)
    return [
        Acl(
            principal=acl.principal,
            operation=_name(OPERATIONS, acl.operation),
            kind=_name(KINDS, resource.resource_type),
            name=resource.resource_name,
            match=_name(MATCHES, resource.pattern_type),
            host=acl.host,
            effect=_name(EFFECTS, acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    ]


async def add_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    """Add ACLs; those that are there already stay."""
    rows = [
        AclCreation(
            resource_type=KINDS[acl.kind],
            resource_name=acl.name,
            resource_pattern_type=MATCHES[acl.match],
            principal=acl.principal,
            host=acl.host,
            operation=OPERATIONS[acl.operation],
            permission_type=EFFECTS[acl.effect],
        )
        for acl in acls
    ]
    connection = await cluster.controller()
    answer = await connection.call(CreateAclsRequest(creations=rows), CreateAclsResponse)
    for row in answer.results:
        check(row.error_code, "the ACL", row.error_message)


async def remove_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Remove the ACLs that a filter means, and return them."""
    connection = await cluster.controller()
    request = DeleteAclsRequest(filters=[_filter(wanted)])
    answer = await connection.call(request, DeleteAclsResponse)
    (result,) = answer.filter_results
    check(result.error_code, "the ACLs", result.error_message)
    return [
        Acl(
            principal=acl.principal,
            operation=_name(OPERATIONS, acl.operation),
            kind=_name(KINDS, acl.resource_type),
            name=acl.resource_name,
            match=_name(MATCHES, acl.pattern_type),
            host=acl.host,
            effect=_name(EFFECTS, acl.permission_type),
        )
        for acl in result.matching_acls
    ]


async def list_quotas(cluster: Cluster) -> list[Quota]:
    """Return all limits of users and client ids."""
    connection = await cluster.any_node()
    answer = await connection.call(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    check(answer.error_code, "the list of quotas", answer.error_message)
    quotas = []
    for entry in answer.entries or []:
        parts = {one.entity_type: one.entity_name or DEFAULT for one in entry.entity}
        limits = {value.key: value.value for value in entry.values}
        user, client, ip = (parts.get(kind, "") for kind in ("user", "client-id", "ip"))
        quotas.append(Quota(user=user, client=client, ip=ip, limits=limits))
    return sorted(quotas, key=lambda quota: (quota.user, quota.client, quota.ip))


async def set_quota(
    cluster: Cluster,
    limits: Mapping[str, float | None],
    *,
    user: str = "",
    client: str = "",
    ip: str = "",
) -> None:
    """Set limits, and remove (None) others."""
    parts = [("user", user), ("client-id", client), ("ip", ip)]
    entry = AlterClientQuotasRequestEntryData(
        entity=[
            altering.EntityData(kind, None if name == DEFAULT else name)
            for kind, name in parts
            if name
        ],
        ops=[OpData(name, value or 0.0, value is None) for name, value in limits.items()],
    )
    connection = await cluster.controller()
    answer = await connection.call(
        AlterClientQuotasRequest(entries=[entry]), AlterClientQuotasResponse
    )
    for row in answer.entries:
        check(row.error_code, "the quota", row.error_message)


def _filter(wanted: AclFilter) -> DeleteAclsFilter:
    pattern = MATCHES[wanted.match] if wanted.match else ANY
    return DeleteAclsFilter(
        resource_type_filter=KINDS[wanted.kind] if wanted.kind else ANY,
        resource_name_filter=wanted.name,
        pattern_type_filter=COVERING if wanted.covering else pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=OPERATIONS[wanted.operation] if wanted.operation else ANY,
        permission_type=EFFECTS[wanted.effect] if wanted.effect else ANY,
    )


def _name(numbers: Mapping[str, int], number: int) -> str:
    return next((name for name, own in numbers.items() if own == number), f"number {number}")

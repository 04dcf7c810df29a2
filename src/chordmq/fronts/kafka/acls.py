"""DescribeAcls, CreateAcls, DeleteAcls."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from chordmq.broker.security.acl import Kind, Match, Operation, Rule, RuleFilter
from chordmq.codecs.kafka.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from chordmq.codecs.kafka.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from chordmq.codecs.kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from chordmq.errors import ChordMQError, InvalidRequest
from chordmq.fronts.kafka.access import EFFECTS, KINDS, MATCHES, OPERATIONS
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of

ANY = 1
COVERING = 2
"""As a pattern type: every rule about the resource with this name."""

Named = TypeVar("Named")


class Filter(Protocol):
    """Which ACLs are meant, in the form that two requests share."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """List the ACLs that a filter means, by resource."""
    try:
        call.check(Operation.DESCRIBE, Kind.CLUSTER)
        found = call.broker.permissions.rules(_filter(request))
    except ChordMQError as error:
        return DescribeAclsResponse(error_code=code_of(error), error_message=reason_of(error))
    resources: dict[tuple[Kind, str, Match], DescribeAclsResource] = {}
    for rule in found:
        resource = resources.setdefault(
            (rule.kind, rule.name, rule.match),
            DescribeAclsResource(
                resource_type=KINDS[rule.kind],
                resource_name=rule.name,
                pattern_type=MATCHES[rule.match],
            ),
        )
        resource.acls.append(
            AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=OPERATIONS[rule.operation],
                permission_type=EFFECTS[rule.effect],
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


async def create_acls(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    """Add ACLs; one that makes no sense does not hinder the others."""
    rows = []
    for creation in request.creations:
        row = AclCreationResult(error_message=None)
        try:
            call.check(Operation.ALTER, Kind.CLUSTER)
            await call.broker.permissions.add_rules([_rule(creation)], by=call.client.name)
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return CreateAclsResponse(results=rows)


async def delete_acls(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Remove the ACLs that filters mean, and name them."""
    rows = []
    for wanted in request.filters:
        row = DeleteAclsFilterResult(error_message=None)
        try:
            call.check(Operation.ALTER, Kind.CLUSTER)
            (removed,) = await call.broker.permissions.remove_rules(
                [_filter(wanted)], by=call.client.name
            )
            row.matching_acls = [_removed(rule) for rule in removed]
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return DeleteAclsResponse(filter_results=rows)


def _filter(wanted: Filter) -> RuleFilter:
    pattern = wanted.pattern_type_filter
    return RuleFilter(
        kind=_named_or_any(KINDS, wanted.resource_type_filter, "resource type"),
        name=wanted.resource_name_filter,
        match=None if pattern == COVERING else _named_or_any(MATCHES, pattern, "pattern type"),
        covering=pattern == COVERING,
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=_named_or_any(OPERATIONS, wanted.operation, "operation"),
        effect=_named_or_any(EFFECTS, wanted.permission_type, "permission type"),
    )


def _rule(creation: AclCreation) -> Rule:
    return Rule(
        kind=_named(KINDS, creation.resource_type, "resource type"),
        name=creation.resource_name,
        match=_named(MATCHES, creation.resource_pattern_type, "pattern type"),
        principal=creation.principal,
        host=creation.host,
        operation=_named(OPERATIONS, creation.operation, "operation"),
        effect=_named(EFFECTS, creation.permission_type, "permission type"),
    )


def _removed(rule: Rule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=KINDS[rule.kind],
        resource_name=rule.name,
        pattern_type=MATCHES[rule.match],
        principal=rule.principal,
        host=rule.host,
        operation=OPERATIONS[rule.operation],
        permission_type=EFFECTS[rule.effect],
    )


def _named(numbers: Mapping[Named, int], number: int, what: str) -> Named:
    for named, own in numbers.items():
        if own == number:
            return named
    raise InvalidRequest(f"There is no {what} {number}.")


def _named_or_any(numbers: Mapping[Named, int], number: int, what: str) -> Named | None:
    return None if number == ANY else _named(numbers, number, what)

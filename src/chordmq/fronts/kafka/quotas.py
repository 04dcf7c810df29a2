"""DescribeClientQuotas, AlterClientQuotas."""

from collections.abc import Iterable

from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.quotas import DEFAULT, Entity, Limit, check
from chordmq.codecs.kafka.messages import alter_client_quotas as altering
from chordmq.codecs.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from chordmq.codecs.kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from chordmq.errors import ChordMQError, InvalidRequest, UnsupportedVersion
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import code_of, reason_of

USER, CLIENT, IP = "user", "client-id", "ip"
EXACT, OF_DEFAULT, SPECIFIED = range(3)


def describe_client_quotas(
    call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """List the limits of the users and client ids that a filter means."""
    try:
        call.check(Operation.DESCRIBE_CONFIGS, Kind.CLUSTER)
        wanted = _components(request.components)
    except ChordMQError as error:
        return DescribeClientQuotasResponse(
            error_code=code_of(error), error_message=reason_of(error), entries=None
        )
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(kind, _wire(name)) for kind, name in _parts(entity).items()],
                values=[ValueData(limit, value) for limit, value in limits.items()],
            )
            for entity, limits in call.broker.permissions.quotas
            if _fits(wanted, entity, request.strict)
        ],
    )


async def alter_client_quotas(
    call: Call, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Set and remove limits; an entry that makes no sense does not hinder the others."""
    rows = []
    for entry in request.entries:
        row = AlterClientQuotasResponseEntryData(error_message=None, entity=entry.entity)
        try:
            call.check(Operation.ALTER_CONFIGS, Kind.CLUSTER)
            entity = _entity(entry.entity)
            changes = _changes(entry)
            check(entity, {name: value for name, value in changes.items() if value is not None})
            if not request.validate_only:
                await call.broker.permissions.set_limits({entity: changes}, by=call.client.name)
        except ChordMQError as error:
            row.error_code, row.error_message = code_of(error), reason_of(error)
        rows.append(row)
    return AlterClientQuotasResponse(entries=rows)


def _components(components: Iterable[ComponentData]) -> dict[str, str | None]:
    """Return which name each part must have; None for any."""
    wanted: dict[str, str | None] = {}
    for one in components:
        if one.entity_type not in (USER, CLIENT, IP):
            raise UnsupportedVersion(f"Custom entity type '{one.entity_type}' not supported")
        if one.entity_type in wanted:
            raise InvalidRequest(f"Duplicate filter component entity type {one.entity_type}")
        if one.match_type == EXACT:
            wanted[one.entity_type] = one.match or ""
        elif one.match_type == OF_DEFAULT:
            wanted[one.entity_type] = DEFAULT
        elif one.match_type == SPECIFIED:
            wanted[one.entity_type] = None
        else:
            raise InvalidRequest(f"There is no match type {one.match_type}.")
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination, IP filter component should not be "
            "used with user or clientId filter component."
        )
    return wanted


def _fits(wanted: dict[str, str | None], entity: Entity, strict: bool) -> bool:
    parts = _parts(entity)
    if strict and parts.keys() != wanted.keys():
        return False
    return all(kind in parts and name in (None, parts[kind]) for kind, name in wanted.items())


def _parts(entity: Entity) -> dict[str, str]:
    parts = {USER: entity.user, CLIENT: entity.client, IP: entity.ip}
    return {kind: name for kind, name in parts.items() if name}


def _wire(name: str) -> str | None:
    return None if name == DEFAULT else name


def _entity(parts: Iterable[altering.EntityData]) -> Entity:
    names: dict[str, str] = {}
    for part in parts:
        if part.entity_type not in (USER, CLIENT, IP):
            raise InvalidRequest(f"There are no quotas for a {part.entity_type!r}.")
        if part.entity_type in names:
            raise InvalidRequest(f"The {part.entity_type} stands there twice.")
        if part.entity_name in ("", DEFAULT):
            raise InvalidRequest(
                f"{part.entity_name!r} cannot be the name of a {part.entity_type}."
            )
        names[part.entity_type] = DEFAULT if part.entity_name is None else part.entity_name
    return Entity(user=names.get(USER, ""), client=names.get(CLIENT, ""), ip=names.get(IP, ""))


def _changes(entry: AlterClientQuotasRequestEntryData) -> dict[Limit, float | None]:
    changes: dict[Limit, float | None] = {}
    for change in entry.ops:
        if change.key not in list(Limit):
            raise InvalidRequest(f"There is no quota {change.key!r}.")
        changes[Limit(change.key)] = None if change.remove else change.value
    return changes

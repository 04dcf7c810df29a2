"""DescribeAcls, CreateAcls and DeleteAcls."""

import pytest

from chordmq.broker.broker import Broker
from chordmq.codecs.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from chordmq.codecs.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from chordmq.codecs.kafka.messages.describe_acls import DescribeAclsRequest
from tests.fronts.kafka.conftest import Ask

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, ALLOW, DENY = 3, 3, 2
INVALID_REQUEST = 42


def creation(**fields: object) -> AclCreation:
    chosen = {
        "resource_type": TOPIC,
        "resource_name": "t",
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
        **fields,
    }
    return AclCreation(**chosen)  # type: ignore[arg-type]


def every(**fields: object) -> DescribeAclsRequest:
    chosen = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **fields,
    }
    return DescribeAclsRequest(**chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", CreateAclsRequest.versions)
async def test_what_is_created_is_described_until_it_is_deleted(ask: Ask, version: int) -> None:
    """C2, C9: every version; pattern types from the first we speak on."""
    rows = [creation(), creation(resource_name="p", resource_pattern_type=PREFIXED, host="h")]
    answer = await ask(CreateAclsRequest(creations=rows), version)
    assert [row.error_code for row in answer.results] == [0, 0]
    found = await ask(every(), version)
    assert {(r.resource_name, r.pattern_type, r.acls[0].host) for r in found.resources} == {
        ("t", LITERAL, "*"),
        ("p", PREFIXED, "h"),
    }
    covering = every(resource_name_filter="pq", pattern_type_filter=MATCH)
    assert [r.resource_name for r in (await ask(covering, version)).resources] == ["p"]
    wanted = DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter="User:alice",
        host_filter=None,
        operation=READ,
        permission_type=ANY,
    )
    (result,) = (await ask(DeleteAclsRequest(filters=[wanted]), version)).filter_results
    assert {row.resource_name for row in result.matching_acls} == {"t", "p"}
    assert (await ask(every(), version)).resources == []


@pytest.mark.parametrize(
    "fault",
    [
        {"resource_type": ANY},
        {"resource_type": 99},
        {"resource_name": ""},
        {"resource_pattern_type": MATCH},
        {"operation": ANY},
        {"permission_type": 0},
        {"principal": "alice"},
        {"host": ""},
        {"resource_type": CLUSTER, "resource_name": "mine"},
    ],
)
async def test_an_acl_without_sense_is_refused_and_the_others_are_made(
    ask: Ask, broker: Broker, fault: dict[str, object]
) -> None:
    """C12: errors per row, as in Kafka."""
    answer = await ask(CreateAclsRequest(creations=[creation(**fault), creation()]))
    assert [row.error_code for row in answer.results] == [INVALID_REQUEST, 0]
    assert answer.results[0].error_message
    assert len(list(broker.permissions.acl)) == 1


async def test_a_filter_without_sense_is_refused(ask: Ask) -> None:
    """C12: unknown numbers are the client's fault."""
    answer = await ask(every(operation=99))
    assert (answer.error_code, answer.resources) == (INVALID_REQUEST, [])


async def test_rules_of_roles_are_not_acls(ask: Ask, broker: Broker) -> None:
    """A10: what a role gives is listed with the role."""
    await broker.permissions.set_member("viewer", "User:alice")
    assert (await ask(every())).resources == []

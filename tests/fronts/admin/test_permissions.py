"""ACLs, roles and quotas over HTTP."""

from typing import Any

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.security.acl import Kind, Operation
from chordmq.broker.security.principal import ANONYMOUS, Principal
from chordmq.fronts.admin import permissions

ACL = {
    "principal": "User:alice",
    "operation": "read",
    "kind": "topic",
    "name": "pay-",
    "match": "prefixed",
}
WHOLE = {"host": "*", "effect": "allow", "role": ""}


async def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def test_acls_are_added_listed_and_removed(http: httpx.AsyncClient) -> None:
    """C9: changed at run time through the HTTP API."""
    await ok(await http.post("/v1/acls", json={"acls": [ACL]}), 201)
    assert await ok(await http.get("/v1/acls")) == {"acls": [{**ACL, **WHOLE}]}
    about = {"kind": "topic", "name": "pay-in", "covering": "true"}
    assert len((await ok(await http.get("/v1/acls", params=about)))["acls"]) == 1
    assert (await http.delete("/v1/acls")).status_code == 400
    removed = await ok(await http.delete("/v1/acls", params={"principal": "User:alice"}))
    assert len(removed["acls"]) == 1
    assert await ok(await http.get("/v1/acls")) == {"acls": []}


async def test_roles_are_made_given_and_taken(http: httpx.AsyncClient, broker: Broker) -> None:
    """A10: users and groups have roles."""
    permission = {"kind": "topic", "name": "t", "operation": "write"}
    await ok(await http.put("/v1/roles/writer", json={"permissions": [permission]}))
    role = await ok(await http.put("/v1/roles/writer/members/Group:ops"))
    assert role["members"] == ["Group:ops"]
    member = Principal("x", frozenset({"ops"}))
    assert broker.permissions.acl.allows(member, "", Operation.WRITE, Kind.TOPIC, "t")
    await ok(await http.delete("/v1/roles/writer/members/Group:ops"))
    assert not broker.permissions.acl.allows(member, "", Operation.WRITE, Kind.TOPIC, "t")
    names = [role["name"] for role in (await ok(await http.get("/v1/roles")))["roles"]]
    assert names == ["admin", "operator", "producer", "consumer", "viewer", "writer"]
    await ok(await http.delete("/v1/roles/writer"), 204)
    assert (await http.get("/v1/roles/writer")).status_code == 404
    assert (await http.put("/v1/roles/writer/members/User:x")).status_code == 404
    assert (await http.put("/v1/roles/viewer/members/x")).status_code == 400


async def test_a_built_in_role_keeps_its_permissions(http: httpx.AsyncClient) -> None:
    """A10: whatever is put there."""
    before = await ok(await http.get("/v1/roles/viewer"))
    after = await ok(await http.put("/v1/roles/viewer", json={"members": ["User:x"]}))
    assert after == {**before, "members": ["User:x"]}
    assert (await ok(await http.get("/v1/roles/viewer"))) == after


async def test_quotas_are_set_and_removed(http: httpx.AsyncClient) -> None:
    """C2: the limits of Kafka's own API."""
    body: dict[str, Any] = {"user": "<default>", "limits": {"producer_byte_rate": 1000}}
    quotas = (await ok(await http.put("/v1/quotas", json=body)))["quotas"]
    limits = {"producer_byte_rate": 1000.0}
    assert quotas == [{"user": "<default>", "client": "", "ip": "", "limits": limits}]
    body["limits"] = {"producer_byte_rate": None}
    assert (await ok(await http.put("/v1/quotas", json=body)))["quotas"] == []
    assert (await http.put("/v1/quotas", json={"limits": {}})).status_code == 400


async def test_the_node_says_which_rule_decides(http: httpx.AsyncClient, broker: Broker) -> None:
    """C9: `why` names the rule, the setting, or that there is none."""
    question = {"principal": "User:alice", "operation": "describe", "resource": "topic:pay-in"}
    answer = await ok(await http.get("/v1/why", params=question))
    assert answer["reason"] == "nobody has to log in, so no rule is asked"
    broker.permissions.is_enforced = True
    broker.permissions.acl.is_super = lambda principal: principal is ANONYMOUS
    answer = await ok(await http.get("/v1/why", params=question))
    assert (answer["is_allowed"], answer["rule"]) == (False, None)
    await ok(await http.post("/v1/acls", json={"acls": [ACL]}), 201)
    answer = await ok(await http.get("/v1/why", params=question))
    assert answer == {
        "is_allowed": True,
        "reason": "a rule allows it",
        "rule": {**ACL, **WHOLE},
    }
    assert (await http.get("/v1/why", params={**question, "resource": "t"})).status_code == 400


async def test_everything_goes_out_and_in_as_one_document(http: httpx.AsyncClient) -> None:
    """C9: import adds, and replaces when told."""
    await ok(await http.post("/v1/acls", json={"acls": [ACL]}), 201)
    await ok(await http.put("/v1/roles/viewer/members/User:x"))
    document = await ok(await http.get("/v1/permissions"))
    other = {"acls": [{**ACL, "name": "other"}]}
    assert len((await ok(await http.put("/v1/permissions", json=other)))["acls"]) == 2
    replaced = await ok(await http.put("/v1/permissions?replace=true", json=document))
    assert replaced == document
    wrong = {"acls": [{**ACL, "effects": "deny"}]}
    assert (await http.put("/v1/permissions", json=wrong)).status_code == 400


@pytest.mark.parametrize("route", permissions.ROUTES, ids=lambda route: route.name)
async def test_nobody_without_rights_sees_or_changes_permissions(
    http: httpx.AsyncClient, broker: Broker, route: Any
) -> None:
    """C9, E13: every route asks for a right on the cluster."""
    broker.permissions.is_enforced = True
    bodies: dict[str, Any] = {
        "add_acls": {"acls": [ACL]},
        "save_role": {},
        "set_quota": {"user": "u", "limits": {}},
        "import_all": {},
    }
    (method,) = route.methods - {"HEAD"}
    path = route.path.format(name="viewer", member="User:x")
    params = {"principal": "User:x", "operation": "read", "resource": "cluster"}
    answer = await http.request(
        method,
        path,
        json=bodies.get(route.name),
        params=params if route.name == "why" else None,
    )
    assert answer.status_code == 403, answer.text

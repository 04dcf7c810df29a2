"""HTTP where clients have to log in: passwords, tokens, and rights that are taken away."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.running_node import RunningNode
from tests.secured_node import secured_node

PASSWORDS = {"admin": "wise-and-old", "alice": "wonderland-9"}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node where clients log in; `admin` may do everything, `alice` nothing."""
    with secured_node(tmp_path_factory.mktemp("secure"), PASSWORDS) as node:
        yield node


def client(node: RunningNode, user: str) -> httpx.AsyncClient:
    """Return a client that logs in with a password."""
    login = (user, PASSWORDS[user])
    return httpx.AsyncClient(base_url=node.http, auth=login, verify=False, timeout=60)


def rule(topic: str, operation: str) -> dict[str, Any]:
    """Return an ACL that allows alice something."""
    facts = {"kind": "topic", "name": topic, "principal": "User:alice", "operation": operation}
    return {"acls": [facts]}


async def test_nothing_is_open_to_who_does_not_log_in(secure: RunningNode) -> None:
    """C8: except whether the node is there."""
    async with httpx.AsyncClient(base_url=secure.http, verify=False, timeout=60) as nobody:
        for path in ("/v1/topics", "/v1/cluster", "/openapi.json", "/docs", "/metrics"):
            answer = await nobody.get(path)
            assert answer.status_code == 401
            assert "Basic" in answer.headers["www-authenticate"]
        wrong = await nobody.get("/v1/topics", auth=("admin", "guess"))
        assert (wrong.status_code, wrong.json()["error"]) == (401, "AuthenticationFailed")
        assert (await nobody.get("/healthz")).status_code == 200


async def test_passwords_and_tokens_give_the_rights_of_their_user(
    secure: RunningNode, name: str
) -> None:
    """C8: publish with a password, read with a token; without an ACL neither."""
    path = f"/v1/topics/{name}/records"
    async with client(secure, "admin") as admin, client(secure, "alice") as alice:
        assert (await admin.post("/v1/topics", json={"name": name})).status_code == 201
        assert (await alice.post(path, json={"value": "x"})).status_code == 403
        assert (await alice.get("/v1/topics")).json() == {"topics": []}
        assert (await alice.post("/v1/acls", json=rule(name, "all"))).status_code == 403
        for operation in ("write", "read"):
            answer = await admin.post("/v1/acls", json=rule(name, operation))
            assert answer.status_code < 300, answer.text
        assert (await alice.post(path, json={"value": "x"})).status_code == 200
        answer = await alice.post("/v1/users/alice/tokens", json={"label": "reader"})
        bearer = {"authorization": f"Bearer {answer.json()['token']}"}
    async with httpx.AsyncClient(
        base_url=secure.http, headers=bearer, verify=False, timeout=60
    ) as reader:
        (record,) = (await reader.get(path)).json()["records"]
        assert record["value"] == "x"


async def test_a_stream_ends_when_its_user_loses_the_right(secure: RunningNode, name: str) -> None:
    """C8: a change of ACLs counts on streams that are open."""
    path = f"/v1/topics/{name}"
    async with client(secure, "admin") as admin, client(secure, "alice") as alice:
        await admin.post("/v1/topics", json={"name": name})
        await admin.post("/v1/acls", json=rule(name, "read"))
        async with alice.stream("GET", f"{path}/stream") as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith("retry")
            answer = await admin.delete("/v1/acls", params={"kind": "topic", "name": name})
            assert answer.status_code == 200, answer.text
            await admin.post(f"{path}/records", json={"value": "secret"})
            rest = [line async for line in lines]
    assert any("TopicAccessDenied" in line for line in rest)
    assert not any("secret" in line for line in rest)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("localhost", 200),
        ("node", 200),
        ("[::", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
async def test_an_open_node_answers_no_page_of_another_site(
    node: RunningNode, host: str, status: int
) -> None:
    """C8: a name that leads to loopback does not open it to a browser's other pages."""
    async with httpx.AsyncClient(base_url=node.http, verify=False, timeout=60) as client:
        answer = await client.get("/v1/topics", headers={"host": host})
    assert answer.status_code == status

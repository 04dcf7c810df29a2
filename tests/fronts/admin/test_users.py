"""Users and tokens over HTTP."""

from collections.abc import AsyncIterator

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.security.auth import Authenticator
from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.login import Door
from tests.fronts.admin.test_doors import client_of, judge_of

ADMIN, ALICE = ("admin", "root-pw"), ("alice", "s3cret")


@pytest.fixture
def judge(broker: Broker) -> Authenticator:
    return judge_of(broker)


@pytest.fixture
async def http(judge: Authenticator, shared: Shared) -> AsyncIterator[httpx.AsyncClient]:
    await judge.users.add(*ADMIN, is_admin=True)
    async with client_of(Door(True, lambda: judge), shared) as client:
        yield client


async def test_an_administrator_adds_changes_and_deletes_users(
    http: httpx.AsyncClient, judge: Authenticator
) -> None:
    """C10: users by HTTP; no answer holds a credential."""
    body = {"name": "alice", "password": "s3cret"}
    answer = await http.post("/v1/users", json=body, auth=ADMIN)
    mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    alice = {"name": "alice", "admin": False, "mechanisms": mechanisms, "tokens": 0}
    assert (answer.status_code, answer.json()) == (201, alice)
    assert (await http.post("/v1/users", json=body, auth=ADMIN)).status_code == 409
    listed = (await http.get("/v1/users", auth=ADMIN)).json()["users"]
    assert [user["name"] for user in listed] == ["admin", "alice"]
    answer = await http.patch("/v1/users/alice", json={"admin": True}, auth=ADMIN)
    assert answer.json()["admin"] is True
    assert judge.users.get("alice").is_admin
    assert (await http.delete("/v1/users/alice", auth=ADMIN)).status_code == 204
    assert (await http.get("/v1/users/alice", auth=ADMIN)).status_code == 404
    assert (await http.delete("/v1/users/alice", auth=ADMIN)).status_code == 404


async def test_a_user_sees_and_changes_only_itself(
    http: httpx.AsyncClient, judge: Authenticator
) -> None:
    """A10, E13: its password and its tokens, nobody else's."""
    await judge.users.add(*ALICE)
    await judge.users.add("bob", "x")
    assert (await http.get("/v1/users/alice", auth=ALICE)).status_code == 200
    for method, path in [
        ("GET", "/v1/users"),
        ("GET", "/v1/users/bob"),
        ("DELETE", "/v1/users/alice"),
        ("GET", "/v1/users/bob/tokens"),
    ]:
        assert (await http.request(method, path, auth=ALICE)).status_code == 403, path
    for method, path in [
        ("PATCH", "/v1/users/alice"),
        ("PUT", "/v1/users/bob/password"),
        ("POST", "/v1/users/bob/tokens"),
        ("POST", "/v1/users"),
    ]:
        answer = await http.request(method, path, json={"admin": True}, auth=ALICE)
        assert answer.status_code == 403, path
    changed = await http.put("/v1/users/alice/password", json={"password": "new"}, auth=ALICE)
    assert changed.status_code == 204
    assert (await http.get("/v1/users/alice", auth=ALICE)).status_code == 401
    assert (await http.get("/v1/users/alice", auth=("alice", "new"))).status_code == 200


async def test_a_token_is_shown_once_and_can_be_revoked(
    http: httpx.AsyncClient, judge: Authenticator
) -> None:
    """B7: create and revoke."""
    await judge.users.add(*ALICE)
    body = {"label": "sensor 7", "lifetime_s": 60}
    made = (await http.post("/v1/users/alice/tokens", json=body, auth=ALICE)).json()
    bearer = {"Authorization": f"Bearer {made['token']}"}
    listed = await http.get("/v1/users/alice/tokens", headers=bearer)
    (row,) = listed.json()["tokens"]
    assert (row["id"], row["label"]) == (made["id"], "sensor 7")
    assert made["token"] not in listed.text
    gone = await http.delete(f"/v1/users/alice/tokens/{row['id']}", auth=ADMIN)
    assert gone.status_code == 204
    assert (await http.get("/v1/users/alice/tokens", headers=bearer)).status_code == 401
    gone = await http.delete(f"/v1/users/alice/tokens/{row['id']}", auth=ADMIN)
    assert gone.status_code == 404


@pytest.mark.parametrize(
    "body",
    [{}, {"name": 7}, {"name": ""}, {"name": "x", "password": ""}, {"name": "x", "admin": "yes"}],
)
async def test_a_body_that_makes_no_user_is_refused(
    http: httpx.AsyncClient, judge: Authenticator, body: dict[str, object]
) -> None:
    answer = await http.post("/v1/users", json=body, auth=ADMIN)
    assert answer.status_code == 400
    assert [user.name for user in judge.users] == ["admin"]


async def test_a_form_of_another_site_changes_nothing(
    http: httpx.AsyncClient, judge: Authenticator
) -> None:
    """E13: browsers post forms for anybody; they need permission to post JSON."""
    kind = {"Content-Type": "text/plain"}
    answer = await http.post("/v1/users", content='{"name": "x"}', headers=kind, auth=ADMIN)
    assert answer.status_code == 415
    assert judge.users.find("x") is None

"""The door of the HTTP front: who is let in, as whom, and who is not."""

from collections.abc import AsyncIterator

import httpx
import pytest

from chordmq.broker.broker import Broker
from chordmq.broker.security.auth import Authenticator
from chordmq.broker.security.auth_settings import AuthSettings
from chordmq.broker.security.users import Users
from chordmq.clock import SystemClock
from chordmq.fronts.admin.app import Admin, application
from chordmq.fronts.admin.call import Shared
from chordmq.fronts.admin.login import Door
from chordmq.metrics import Metrics


def judge_of(broker: Broker) -> Authenticator:
    """Return who checks the logins of a broker's users."""
    clock = SystemClock()
    settings = AuthSettings(mechanisms="SCRAM-SHA-512")
    return Authenticator(settings, Users(broker.image, clock), clock)


@pytest.fixture
def judge(broker: Broker) -> Authenticator:
    return judge_of(broker)


def client_of(door: Door, shared: Shared) -> httpx.AsyncClient:
    """Return a client in front of the door."""
    admin = Admin(
        metrics=Metrics(), waiting=list, info=lambda: {"node": 1}, door=door, shared=shared
    )
    app = application(admin)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://node")


@pytest.fixture
async def http(judge: Authenticator, shared: Shared) -> AsyncIterator[httpx.AsyncClient]:
    await judge.users.add("admin", "root-pw", is_admin=True)
    await judge.users.add("alice", "s3cret")
    async with client_of(Door(True, lambda: judge), shared) as client:
        yield client


async def test_only_health_is_for_everybody(http: httpx.AsyncClient) -> None:
    """E13: the rest wants to know who asks, and says how."""
    for path in ("/healthz", "/ready"):
        assert (await http.get(path)).status_code == 200
    for path in ("/metrics", "/v1/info", "/v1/log-levels", "/v1/users", "/v1/no-such-thing"):
        answer = await http.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert answer.json()["error"] == "AuthenticationFailed"


async def test_a_password_or_a_token_lets_in(http: httpx.AsyncClient, judge: Authenticator) -> None:
    """B7, E13: HTTP Basic and bearer tokens, against the same users as every other front."""
    assert (await http.get("/v1/info", auth=("alice", "s3cret"))).status_code == 200
    token, text = await judge.users.add_token("alice")
    bearer = {"Authorization": f"Bearer {text}"}
    assert (await http.get("/v1/info", headers=bearer)).status_code == 200
    assert (await http.get("/v1/info", auth=("alice", text))).status_code == 200
    await judge.users.remove_token("alice", token.id)
    assert (await http.get("/v1/info", headers=bearer)).status_code == 401


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic %%%",
        "Basic YWxpY2U=",
        "Basic YWxpY2U6d3Jvbmc=",
        "Bearer",
        "Bearer nonsense",
        "Digest username=alice",
        "Basic //79/A==",
    ],
)
async def test_what_proves_nothing_is_refused(http: httpx.AsyncClient, header: str) -> None:
    answer = await http.get("/v1/info", headers={"Authorization": header})
    assert answer.status_code == 401


async def test_changes_need_an_administrator(http: httpx.AsyncClient) -> None:
    """A10: knowing who asks is not enough."""
    change = {"chordmq.metrics": None}
    answer = await http.put("/v1/log-levels", json=change, auth=("alice", "s3cret"))
    assert (answer.status_code, answer.json()["error"]) == (403, "ClusterAccessDenied")
    answer = await http.put("/v1/log-levels", json=change, auth=("admin", "root-pw"))
    assert answer.status_code == 200


async def test_until_the_node_knows_its_users_a_closed_door_stays_closed(shared: Shared) -> None:
    """E13: a node that starts lets nobody in by accident."""
    async with client_of(Door(True, lambda: None), shared) as client:
        assert (await client.get("/v1/info")).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
    async with client_of(Door(False, lambda: None), shared) as client:
        assert (await client.get("/v1/info")).status_code == 200

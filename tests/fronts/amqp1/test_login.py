"""Who AMQP 1.0 clients are, what they may do, and that the management API asks the same."""

from collections.abc import Iterator

import httpx
import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection, SendException
from scramp import ScramClient

from chordmq.codecs.amqp1.composites import (
    Close,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from chordmq.codecs.amqp1.frames import AMQP_HEADER, SASL_HEADER
from chordmq.codecs.amqp1.values import Symbol
from tests.cli.command_line import CommandLine
from tests.fronts.amqp1.client import TIMEOUT_S, body_of, refusal
from tests.fronts.amqp1.test_connection import Raw
from tests.interop.fortress import PASSWORD, Fortress


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    """Give a node whose clients must log in."""
    strong = Fortress(tmp_path_factory.mktemp("fortress"))
    strong.node.start()
    yield strong
    strong.node.close()


def connect(fortress: Fortress, user: str, password: str = PASSWORD) -> BlockingConnection:
    """Log in with a password."""
    host, port = fortress.node.amqp_address
    return BlockingConnection(
        f"amqp://{host}:{port}",
        timeout=TIMEOUT_S,
        user=user,
        password=password,
        allowed_mechs="PLAIN",
        allow_insecure_mechs=True,
    )


def test_a_password_lets_in_and_a_wrong_one_does_not(fortress: Fortress) -> None:
    """E4, E13: PLAIN, judged like everywhere else."""
    connect(fortress, "alice").close()
    with pytest.raises(ConnectionException, match="uthentication"):
        connect(fortress, "alice", "wrong")


def test_scram_proves_the_password_without_saying_it(fortress: Fortress) -> None:
    """E4: SCRAM over SASL."""
    scram = ScramClient(["SCRAM-SHA-256"], "alice", PASSWORD)
    with Raw(fortress.node) as client:
        client.say(SASL_HEADER)
        offered = set(client.hear(SaslMechanisms).mechanisms)
        assert {"SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"} <= offered
        assert "ANONYMOUS" not in offered
        first = scram.get_client_first().encode()
        client.say(SaslInit(mechanism=Symbol("SCRAM-SHA-256"), initial_response=first))
        scram.set_server_first(client.hear(SaslChallenge).challenge.decode())
        client.say(SaslResponse(response=scram.get_client_final().encode()))
        outcome = client.hear(SaslOutcome)
        assert outcome.outcome == 0
        scram.set_server_final(outcome.additional_data.decode())
        client.say(AMQP_HEADER, Open(container_id="c"))
        assert client.hear(Open).container_id


def test_nobody_gets_past_the_login(fortress: Fortress) -> None:
    """C9: neither by leaving it out nor as nobody."""
    with Raw(fortress.node) as client:
        client.say(AMQP_HEADER, Open(container_id="c"))
        assert client.condition(Close) == "amqp:unauthorized-access"
    with Raw(fortress.node) as client:
        client.say(SASL_HEADER, SaslInit(mechanism=Symbol("ANONYMOUS")))
        assert client.hear(SaslOutcome).outcome == 1


def test_acls_decide_what_a_user_may_do(fortress: Fortress) -> None:
    """E13, C9: queues and topics have the same permissions as in every front."""
    owner = connect(fortress, "alice")
    sender = owner.create_sender("open")
    sender.send(Message(body="first"))
    owner.create_sender("shut").send(Message(body="x"))
    admin = CommandLine(fortress.bootstrap)
    login = ["--user", "admin", "--password", PASSWORD, "--tls-ca", fortress.ca]
    admin.ok(*login, "acls", "add", "User:mallory", "--allow", "read", "--topic", "open")
    guest = connect(fortress, "mallory")
    receiver = guest.create_receiver("open", credit=5)
    sender.send(Message(body="hello"))
    assert body_of(receiver.receive(timeout=TIMEOUT_S)) == "hello"
    for link in (
        {"target": "open"},
        {"target": "shut"},
        {"source": "shut"},
        {"target": "new"},
        {"source": "a/#"},
    ):
        assert "amqp:unauthorized-access" in refusal(guest, **link)
    relay = guest.create_sender(None)
    with pytest.raises(SendException):
        relay.send(Message(address="shut", body="x"))
    guest.close()
    with pytest.raises(SendException):
        sender.send(Message(body="x", user_id=b"somebody else"))
    sender.send(Message(body="x", user_id=b"alice"))
    owner.close()


def test_the_management_api_asks_for_the_same_login(fortress: Fortress) -> None:
    base = f"{fortress.node.http}/api"
    assert httpx.get(f"{base}/overview", auth=("guest", "guest"), timeout=60).status_code == 401
    mallory, admin = ("mallory", PASSWORD), ("admin", PASSWORD)
    assert httpx.get(f"{base}/overview", auth=mallory, timeout=60).status_code == 401
    assert httpx.get(f"{base}/whoami", auth=mallory, timeout=60).json() == {
        "name": "mallory",
        "tags": [],
    }
    assert (
        httpx.put(f"{base}/queues/%2F/mine", json={}, auth=mallory, timeout=60).status_code == 401
    )
    users = httpx.get(f"{base}/users", auth=admin, timeout=60).json()
    assert {"name": "admin", "tags": ["administrator"]} in users
    rights = {
        one["user"]: one for one in httpx.get(f"{base}/permissions", auth=admin, timeout=60).json()
    }
    assert rights["admin"]["read"] == ".*"
    new = {"password": PASSWORD, "tags": ""}
    assert httpx.put(f"{base}/users/eve", json=new, auth=mallory, timeout=60).status_code == 401
    assert httpx.put(f"{base}/users/eve", json=new, auth=admin, timeout=60).status_code == 201
    assert httpx.get(f"{base}/whoami", auth=("eve", PASSWORD), timeout=60).json()["name"] == "eve"
    assert httpx.delete(f"{base}/users/eve", auth=admin, timeout=60).status_code == 204

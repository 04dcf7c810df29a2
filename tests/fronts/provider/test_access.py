"""Who may come in over the provider's protocol, and what they may do."""

import json
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.conftest import StartNode
from tests.fronts.provider.client import DATA, DISCONNECT, HEARTBEAT, SUBSCRIBE, Client, data
from tests.running_node import RunningNode
from tests.secured_node import secured_node

PASSWORDS = {"admin": "wise-and-old", "alice": "wonderland-9"}
UNAUTHENTICATED, FORBIDDEN = 2, 3


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node where clients log in; `admin` may do everything, `alice` nothing."""
    with secured_node(tmp_path_factory.mktemp("secure"), PASSWORDS) as node:
        yield node


def call(node: RunningNode, user: str, method: str, path: str, **more: Any) -> Any:
    """Ask over HTTP as a user."""
    who = (user, PASSWORDS[user])
    answer = httpx.request(method, f"{node.http}{path}", auth=who, timeout=60, **more)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def token_of(node: RunningNode, user: str) -> dict[str, Any]:
    made: dict[str, Any] = call(node, user, "POST", f"/v1/users/{user}/tokens", json={"label": "p"})
    return made


def allow(node: RunningNode, kind: str, name: str, operation: str) -> None:
    facts = {"kind": kind, "name": name, "principal": "User:alice", "operation": operation}
    call(node, "admin", "POST", "/v1/acls", json={"acls": [facts]})


def logged_in(node: RunningNode, token: str) -> Client:
    client = Client(node.provider_address)
    client.send(HEARTBEAT, 1, json.dumps({"token": token, "client": "till"}).encode())
    assert client.receive()[:2] == (HEARTBEAT, 1)
    return client


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (DATA, data("t", b"v")),
        (HEARTBEAT, b""),
        (HEARTBEAT, b'{"token": "chordmq-wrong"}'),
        (SUBSCRIBE, b'{"topic": "t"}'),
        (SUBSCRIBE, b'{"topic": "t", "token": "chordmq-wrong"}'),
    ],
)
def test_nobody_comes_in_without_a_token(secure: RunningNode, kind: int, payload: bytes) -> None:
    """B7, D7: told why, then disconnected."""
    with Client(secure.provider_address) as client:
        client.send(kind, 1, payload)
        last = client.receive()
        assert (last.kind, last.status) == (DISCONNECT, UNAUTHENTICATED)
        with pytest.raises(EOFError):
            client.receive()


def test_a_token_opens_the_door_in_the_first_frame(secure: RunningNode, name: str) -> None:
    """D7: in a HEARTBEAT, or in SUBSCRIBE."""
    token = token_of(secure, "admin")["token"]
    with logged_in(secure, token) as writer, Client(secure.provider_address) as reader:
        writer.publish(name, b"v")
        reader.subscribe(name, token=token)
        assert reader.take(1)[0].value == b"v"


def test_acls_decide_what_is_read_and_written_also_while_connected(
    secure: RunningNode, name: str
) -> None:
    """C2: READ for topic and group, WRITE for DATA and RESET; looked at again when they change."""
    with logged_in(secure, token_of(secure, "admin")["token"]) as admin:
        admin.publish(name, b"v")
    with logged_in(secure, token_of(secure, "alice")["token"]) as alice:
        for kind, payload in (
            (DATA, data(name, b"v")),
            (5, json.dumps({"topic": name}).encode()),
            (SUBSCRIBE, json.dumps({"topic": name, "group": name}).encode()),
        ):
            alice.send(kind, 9, payload)
            assert alice.answer(9).status == FORBIDDEN
        allow(secure, "topic", name, "read")
        alice.send(SUBSCRIBE, 9, json.dumps({"topic": name, "group": name}).encode())
        assert alice.answer(9).status == FORBIDDEN
        allow(secure, "group", name, "read")
        alice.subscribe(name, group=name)
        assert alice.take(1)[0].value == b"v"
        rule = {"kind": "topic", "name": name, "principal": "User:alice"}
        call(secure, "admin", "DELETE", "/v1/acls", params=rule)
        last = alice.receive()
        assert (last.kind, last.status) == (DISCONNECT, FORBIDDEN)


def test_a_token_that_is_taken_back_ends_the_connection(secure: RunningNode) -> None:
    """C6: not with the next request, but now."""
    made = token_of(secure, "alice")
    with logged_in(secure, made["token"]) as alice:
        call(secure, "alice", "DELETE", f"/v1/users/alice/tokens/{made['id']}")
        last = alice.receive()
        assert (last.kind, last.status) == (DISCONNECT, UNAUTHENTICATED)


def test_the_protocol_speaks_tls_on_its_port(
    start_node: StartNode, tmp_path: Path, name: str
) -> None:
    """B7, D7: by setting."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for part in issued.cert_chain_pems:
        part.write_to_path(tmp_path / "certificate.pem", append=True)
    node = start_node(
        {
            "provider.tls.certificate": str(tmp_path / "certificate.pem"),
            "provider.tls.key": str(tmp_path / "key.pem"),
        }
    )
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    with Client(node.provider_address) as client:
        client.socket = trusted.wrap_socket(client.socket, server_hostname="127.0.0.1")
        assert client.publish(name, b"x" * 100_000) == [(0, 0)]
        client.subscribe(name)
        assert client.take(1)[0].value == b"x" * 100_000
        client.socket.sendall(struct.pack(">BQi", 77, 0, 0))
        assert client.receive().kind == DISCONNECT

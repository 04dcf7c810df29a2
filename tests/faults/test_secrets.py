"""Nothing that a node writes or answers holds a secret, however it was given one."""

import base64
from pathlib import Path

import httpx
import pytest
from scramp import ScramClient

from chordmq.clock import SystemClock
from tests.interop.fortress import PASSWORD, Fortress
from tests.wire import DESCRIBE_CONFIGS, METADATA, Wire, framed

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
WRONG = "a-wrong-guess-of-mine"
NEW = "a-brand-new-password"
SERVICE = "the-service-accounts-password"
NO_TLS = {
    "kafka.tls.certificate": "",
    "kafka.tls.key": "",
    "kafka.tls.client_ca": "",
    "kafka.tls.client_auth": "none",
}


@pytest.fixture
def fortress(tmp_path: Path) -> Fortress:
    """Give a node that logs all there is to log, and has a directory's password too."""
    return Fortress(
        tmp_path / "fortress",
        **NO_TLS,
        **{
            "logs.level": "debug",
            "auth.ldap.url": "ldap://127.0.0.1:1",
            "auth.ldap.search_base": "dc=example,dc=org",
            "auth.ldap.search_user": "cn=service",
            "auth.ldap.search_password": SERVICE,
        },
    )


def say(fortress: Fortress, mechanism: str, *messages: bytes) -> str:
    """Send SASL messages on a connection of their own; return all that comes back."""
    with Wire(fortress.node.address) as wire:
        answers = [wire.call(SASL_HANDSHAKE, 1, mechanism=mechanism)]
        for message in messages:
            answers.append(wire.call(SASL_AUTHENTICATE, 2, auth_bytes=message))
            if answers[-1].error_code:
                break
        return repr(answers)


def described(fortress: Fortress) -> str:
    """Log in and return every setting of the node, as administrators see them."""
    with Wire(fortress.node.address) as wire:
        wire.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        wire.call(SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{PASSWORD}".encode())
        broker = [{"resource_type": 4, "resource_name": "0", "configuration_keys": None}]
        settings = wire.call(
            DESCRIBE_CONFIGS, 4, resources=broker, include_synonyms=True,
            include_documentation=True,
        )  # fmt: skip
        assert settings.results[0].configs
        return repr(settings) + repr(wire.call(METADATA, 12, topics=None))


def logins(fortress: Fortress, token: str) -> list[str]:
    """Log in well and badly in every way; return the answers."""
    client = ScramClient(["SCRAM-SHA-256"], "alice", PASSWORD)
    first = client.get_client_first().encode()
    good, bad = f"\0alice\0{PASSWORD}".encode(), f"\0mallory\0{WRONG}".encode()
    # A directory that does not answer hears of this one.
    unknown = f"\0nobody\0{WRONG}".encode()
    answers = [say(fortress, "PLAIN", message) for message in (good, bad, unknown, good + b"\0")]
    answers.append(say(fortress, "SCRAM-SHA-256", first, good))
    for text in (token, token + "x"):
        message = f"n,,\x01auth=Bearer {text}\x01\x01".encode()
        answers.append(say(fortress, "OAUTHBEARER", message, b"\x01"))
    with Wire(fortress.node.address) as wire:
        # The password where no request has a place for it.
        wire.socket.sendall(framed(good))
        assert wire.is_closed_by_peer()
    return answers


def over_http(fortress: Fortress, token: str) -> tuple[list[str], str]:
    """Make and change users, fail in between; return the answers, and the token that was made."""
    admin = ("admin", PASSWORD)
    texts: list[str] = []
    with httpx.Client(base_url=fortress.node.http, timeout=60) as http:
        shown = ("/metrics", "/v1/info", "/v1/users")
        texts += [http.get(path, auth=admin).text for path in shown]
        http.post("/v1/users", json={"name": "new", "password": NEW}, auth=admin)
        again = http.post("/v1/users", json={"name": "new", "password": NEW}, auth=admin)
        broken = http.post(
            "/v1/users", content=f'{{"password": "{NEW}', auth=admin,
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        wrong = http.get("/v1/info", auth=("mallory", WRONG))
        bearer = http.get("/v1/info", headers={"Authorization": f"Bearer {token}x"})
        texts += [answer.text for answer in (again, broken, wrong, bearer)]
        made = http.post("/v1/users/new/tokens", json={}, auth=admin).json()["token"]
        texts.append(http.get("/v1/users/new/tokens", auth=admin).text)
    return texts, made


def test_no_secret_is_written_or_answered(fortress: Fortress) -> None:
    """C10, E13: logs, errors, metrics, settings and the database, searched for every secret."""
    token = fortress.issuer.token(SystemClock().now_ms() / 1000)
    try:
        fortress.node.start()
        answers = [*logins(fortress, token), described(fortress)]
        texts, made = over_http(fortress, token)
        assert fortress.node.stop() == 0
    finally:
        fortress.node.close()
    written = "".join([*answers, *texts, fortress.node.log.read_text()])
    for file in fortress.node.data.rglob("*"):
        if file.is_file():
            written += file.read_bytes().decode("latin-1")
    assert "login failed" in written
    key = Path(fortress.key).read_text().splitlines()[1]
    pair = base64.b64encode(f"mallory:{WRONG}".encode()).decode()
    secrets = [PASSWORD, WRONG, NEW, SERVICE, token, token.split(".")[2], made, key, pair]
    assert [secret for secret in secrets if secret in written] == []

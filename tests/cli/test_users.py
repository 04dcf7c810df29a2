"""The commands `users` and `certs`, and the options that say who asks, on a node with locks."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chordmq.cli.commands import app
from tests.cli.command_line import CommandLine, Outcome
from tests.running_node import RunningNode

PASSWORD = "first-password"


class Locked:
    """A node whose certificates and first administrator were made on the command line."""

    def __init__(self, directory: Path) -> None:
        self.certs = directory / "certs"
        plain = CommandLine("")
        plain.ok("certs", "init", "--dir", str(self.certs), "--host", "broker.test")
        plain.ok("certs", "client", "carol", "--dir", str(self.certs))
        files = {"certificate": self.certs / "node.pem", "key": self.certs / "node.key"}
        settings = {f"{one}.tls.{k}": str(v) for one in ("kafka", "http") for k, v in files.items()}
        self.node = Guarded(
            directory / "node",
            {
                "auth.mechanisms": "SCRAM-SHA-512,PLAIN",
                "auth.super_users": "User:CN=carol",
                "kafka.tls.client_ca": str(self.certs / "ca.pem"),
                "kafka.tls.client_auth": "optional",
                **settings,
            },
        )
        self.offline("add", "admin", "--admin", "--new-password", PASSWORD)

    def offline(self, *arguments: str) -> Outcome:
        data = str(self.node.data)
        return CommandLine("").ok("users", *arguments, "--data-dir", data)

    def __call__(self, *arguments: str, who: str = f"admin:{PASSWORD}") -> Outcome:
        user, _, password = who.partition(":")
        environment = {
            "CHORDMQ_BOOTSTRAP": f"localhost:{self.node.address[1]}",
            "CHORDMQ_URL": f"https://localhost:{self.node.http_address[1]}",
            "CHORDMQ_TLS_CA": str(self.certs / "ca.pem"),
            "CHORDMQ_USER": user,
            "CHORDMQ_PASSWORD": password,
        }
        result = CliRunner(env=environment).invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)


class Guarded(RunningNode):
    """A node whose HTTP speaks TLS."""

    @property
    def http(self) -> str:
        return f"https://localhost:{self.http_address[1]}"

    def answers(self, path: str) -> bool:
        context = ssl.create_default_context(cafile=self.settings["kafka.tls.client_ca"])
        try:
            with urllib.request.urlopen(f"{self.http}{path}", timeout=5, context=context) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    locked = Locked(tmp_path_factory.mktemp("locked"))
    try:
        locked.node.start()
        yield locked
    finally:
        locked.node.close()


def test_the_first_administrator_lets_the_others_in(locked: Locked, name: str) -> None:
    """C8, C10: five minutes from nothing to a node with TLS and logins."""
    added = locked("users", "add", name, "--new-password", "pw", "--admin")
    assert added.status == 0, added.err
    assert locked("topics", "create", name, who=f"{name}:pw").status == 0
    listed = json.loads(locked("topics", "list", "--json", who=f"{name}:pw").out)
    assert name in {row["name"] for row in listed}
    rows = {row["name"]: row for row in json.loads(locked("users", "list", "--json").out)}
    assert rows[name]["admin"] is True
    assert locked("users", "password", name, "--new-password", "new").status == 0
    refused = locked("topics", "list", who=f"{name}:pw")
    assert (refused.status, "SASL_AUTHENTICATION_FAILED" in refused.err) == (1, True)
    assert locked("topics", "list", who=f"{name}:new").status == 0
    assert locked("users", "delete", name).status == 0
    assert locked("users", "list", who=f"{name}:new").status == 1


def test_a_token_is_printed_once_and_works_until_it_is_revoked(locked: Locked, name: str) -> None:
    """B7: tokens for producers and consumers."""
    locked("users", "add", name, "--no-password", "--admin")
    text = locked("users", "token", "add", name, "--label", "sensor").out.strip()
    assert locked("--mechanism", "PLAIN", "topics", "list", who=f"{name}:{text}").status == 0
    assert locked("--token", text, "topics", "list", who=name).status == 0
    assert locked("--token", text, "users", "list", who="").status == 0
    (row,) = json.loads(locked("users", "token", "list", name, "--json").out)
    assert text not in json.dumps(row)
    assert locked("users", "token", "revoke", name, row["id"]).status == 0
    assert locked("--token", text, "users", "list", who="").status == 1


def test_a_certificate_made_here_names_its_client(locked: Locked) -> None:
    """A10, C8: `certs client` and mutual TLS."""
    files = [str(locked.certs / f"carol.{suffix}") for suffix in ("pem", "key")]
    options = ["--tls-certificate", files[0], "--tls-key", files[1]]
    assert locked(*options, "topics", "list", who="").status == 0


def test_who_says_nothing_about_itself_is_told_what_is_missing(locked: Locked) -> None:
    outcome = locked("topics", "list", who="")
    assert outcome.status == 1
    assert "--user" in outcome.err
    outcome = locked("users", "list", who="")
    assert (outcome.status, "log in" in outcome.err) == (1, True)


def test_a_node_that_nobody_vouches_for_is_not_talked_to(locked: Locked) -> None:
    """C8: the client checks the certificate too."""
    outcome = locked("--tls-ca", str(locked.certs / "carol.pem"), "topics", "list")
    assert outcome.status == 3
    assert "not trusted" in outcome.err
    outcome = locked("--tls-ca", str(locked.certs / "carol.pem"), "users", "list")
    assert (outcome.status, "not trusted" in outcome.err) == (3, True)


def test_a_running_node_keeps_its_users_to_itself(locked: Locked) -> None:
    outcome = CommandLine("")("users", "list", "--data-dir", str(locked.node.data))
    assert outcome.status == 1
    assert "--data-dir" in outcome.err


def test_users_of_a_stopped_node_are_listed_and_changed(tmp_path: Path) -> None:
    """C10: the bootstrap path."""
    cli = CommandLine("")
    at = ["--data-dir", str(tmp_path)]
    cli.ok("users", "add", "admin", "--admin", "--new-password", "x", *at)
    cli.ok("users", "add", "alice", "--new-password", "x", *at)
    again = cli("users", "add", "alice", "--new-password", "x", *at)
    assert (again.status, "already" in again.err) == (1, True)
    cli.ok("users", "password", "alice", "--new-password", "y", *at)
    cli.ok("users", "delete", "alice", *at)
    (row,) = cli.ok("users", "list", "--json", *at).data
    assert (row["name"], row["admin"]) == ("admin", True)


def test_private_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    """C8: and a certificate is made anew without touching the authority."""
    cli, at = CommandLine(""), ["--dir", str(tmp_path / "certs")]
    cli.ok("certs", "init", *at)
    keys = list((tmp_path / "certs").glob("*.key"))
    assert {key.name for key in keys} == {"ca.key", "node.key"}
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)
    authority = (tmp_path / "certs" / "ca.pem").read_bytes()
    before = (tmp_path / "certs" / "node.pem").read_bytes()
    cli.ok("certs", "init", *at)
    assert (tmp_path / "certs" / "ca.pem").read_bytes() == authority
    assert (tmp_path / "certs" / "node.pem").read_bytes() != before
    for name in ("ca", "../x", ""):
        assert cli("certs", "client", name, *at).status != 0
    assert cli("certs", "client", "x", "--dir", str(tmp_path / "none")).status == 1

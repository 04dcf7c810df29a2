"""`chordmq acls`: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode


def test_acls_are_added_listed_and_removed(cli: CommandLine, name: str) -> None:
    """C9: the CLI changes ACLs at run time, also of prefixes."""
    added = cli(
        "acls", "add", "User:x", "--allow", "read", "--deny", "write", "--topic", f"{name}*"
    )
    assert added.status == 0, added.err
    rows = cli("acls", "list", "--topic", f"{name}-7", "--json").data
    assert {(row["effect"], row["operation"], row["match"]) for row in rows} == {
        ("allow", "read", "prefixed"),
        ("deny", "write", "prefixed"),
    }
    table = cli("acls", "list", "--topic", f"{name}*").lines
    assert [line.split() for line in table][1] == [
        "User:x", "allow", "read", "topic", f"{name}*", "*",
    ]  # fmt: skip
    removed = cli("acls", "remove", "--topic", f"{name}*", "--operation", "read", "--json").data
    assert [row["operation"] for row in removed] == ["read"]
    assert len(cli("acls", "remove", "--topic", f"{name}*", "--json").data) == 1
    assert cli("acls", "list", "--topic", f"{name}*", "--json").data == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "User:x", "--topic", "t"),
        ("add", "User:x", "--allow", "read"),
        ("add", "User:x", "--allow", "dance", "--topic", "t"),
        ("add", "User:x", "--allow", "read", "--topic", "t", "--group", "g"),
        ("remove",),
        ("import", "no-such-file.json"),
    ],
)
def test_half_a_rule_is_wrong_usage(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    """Status 2, and a word on what is missing."""
    outcome = cli("acls", *arguments)
    assert outcome.status == 2
    assert outcome.err


def test_a_principal_without_a_kind_is_refused(cli: CommandLine) -> None:
    """C12: by the broker, with its reason."""
    outcome = cli("acls", "add", "alice", "--allow", "read", "--topic", "t")
    assert outcome.status == 1
    assert "User:alice" in outcome.err


def test_a_document_goes_out_and_in(
    cli: CommandLine, node: RunningNode, name: str, tmp_path: Path
) -> None:
    """C9: JSON export and import over HTTP."""
    url = ("--url", node.http)
    assert cli("acls", "add", "User:x", "--allow", "all", "--group", name).status == 0
    document = cli("acls", "export", *url).data
    assert name in {acl["name"] for acl in document["acls"]}
    mine = {"acls": [acl for acl in document["acls"] if acl["name"] == name]}
    file = tmp_path / "acls.json"
    file.write_text(json.dumps(mine))
    assert cli("acls", "remove", "--group", name).status == 0
    imported = cli("acls", "import", str(file), *url)
    assert imported.status == 0, imported.err
    assert len(cli("acls", "remove", "--group", name, "--json").data) == 1


def test_why_is_answered_by_the_node(cli: CommandLine, node: RunningNode) -> None:
    """C9: here nobody has to log in."""
    outcome = cli("acls", "why", "User:x", "read", "topic:t", "--url", node.http)
    assert outcome.out == "allowed: nobody has to log in, so no rule is asked\n"

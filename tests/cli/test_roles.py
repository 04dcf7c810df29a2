"""`chordmq roles`: what it prints, and what it refuses."""

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode


def test_a_role_is_made_given_shown_and_deleted(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    """A10: roles are named sets of permissions, given to users and groups."""
    url = ("--url", node.http)
    saved = cli("roles", "save", name, "--allow", "read=topic:pay-*", *url)
    assert saved.out == f"{name} is given to nobody\n"
    assert cli("roles", "give", name, "Group:finance", *url).status == 0
    changed = cli("roles", "save", name, "--allow", "create=cluster", *url)
    assert changed.out == f"{name} is given to Group:finance\n"
    roles = {role["name"]: role for role in cli("roles", "list", "--json", *url).data}
    assert [one["name"] for one in roles[name]["permissions"]] == ["kafka-cluster"]
    assert {"admin", "operator", "producer", "consumer", "viewer"} <= roles.keys()
    assert "create cluster" in cli("roles", "list", *url).out
    assert cli("roles", "take", name, "Group:finance", *url).status == 0
    assert cli("roles", "delete", name, *url).out == f"deleted {name}\n"
    assert cli("roles", "delete", name, *url).status == 1


def test_a_permission_that_cannot_be_read_is_wrong_usage(
    cli: CommandLine, node: RunningNode
) -> None:
    """Status 2."""
    url = ("--url", node.http)
    for arguments in (("x",), ("x", "--allow", "read"), ("x", "--allow", "read=topic")):
        assert cli("roles", "save", *arguments, *url).status == 2
    assert cli("roles", "save", "x", "--allow", "dance=topic:t", *url).status == 1

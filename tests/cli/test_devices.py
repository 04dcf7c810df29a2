"""`chordmq devices`: who there is, shadows and commands."""

from tests.cli.command_line import CommandLine
from tests.iot.things import Thing
from tests.running_node import RunningNode


def test_devices_are_shown_changed_and_commanded(
    cli: CommandLine, node: RunningNode, name: str
) -> None:
    """E9, E10, X4: for people and for programs."""
    url = f"--url={node.http}"
    with Thing(node, name) as thing:
        wanted = ("devices", "command", "send", name, "dim", '{"to": 40}', "--wait=60", url)
        assert 'succeeded: {"to": 40}' in cli.ok(*wanted).out
        changed = cli.ok("devices", "shadow", "set", name, '{"light": 40}', url).data
        assert changed["state"]["delta"] == {"light": 40}
        thing.wait_for("shadow/update/delta")
        assert name in cli.ok("devices", "list", "--connected", url).out
        found = cli.ok("devices", "show", name, url, "--json").data
    assert found["is_connected"] is True
    assert [one["name"] for one in found["commands"]] == ["dim"]
    assert cli.ok("devices", "shadow", "get", name, url).data == changed

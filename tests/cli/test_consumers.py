"""`chordmq consumers`: who reads what."""

from tests.cli.command_line import CommandLine
from tests.fronts.framed.client import Client as FramedClient
from tests.fronts.provider.client import Client
from tests.running_node import RunningNode


def test_remote_consumers_are_shown(cli: CommandLine, node: RunningNode, name: str) -> None:
    """D9, X4: for people and for programs, whatever protocol they speak."""
    url = f"--url={node.http}"
    hello = f"CONSUMER topic={name} mode=broadcast start=earliest name=board"
    with Client(node.provider_address) as till:
        till.publish(name, b"a", b"b", b"c")
        till.subscribe(name, group="tills", index="shared", credit=2, client="till 7")
        till.take(2)
        with FramedClient(node.framed_address, hello) as board:
            board.take(3)
            shown = cli.ok("consumers", url).out
            found = cli.ok("consumers", url, "--json").data
    assert "till 7" in shown
    mine = {one["protocol"]: one for one in found if one["topic"] == name}
    assert (mine["provider"]["group"], mine["provider"]["index"]) == ("tills", "shared")
    assert (mine["provider"]["unacknowledged"], mine["provider"]["lag"]) == (2, 3)
    assert (mine["framed"]["group"], mine["framed"]["index"]) == ("framed.board", "own")
    assert (mine["framed"]["unacknowledged"], mine["framed"]["delivered"]) == (3, 3)

"""`chordmq queues`: what waits in the queues of AMQP clients."""

from tests.cli.command_line import CommandLine
from tests.fronts.amqp.client import connected, publish
from tests.running_node import RunningNode


def test_queues_are_shown(cli: CommandLine, node: RunningNode, name: str) -> None:
    """X4, E4: for people and for programs."""
    url = f"--url={node.http}"
    with connected(node) as channel:
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True, arguments={"x-max-length": 9})
        publish(channel, "", name, *"abc")
        channel.basic_get(name)
        shown = cli.ok("queues", url).out
        found = cli.ok("queues", url, "--json").data
    assert name in shown
    mine = next(one for one in found if one["name"] == name)
    assert (mine["ready"], mine["unacknowledged"], mine["consumers"]) == (2, 1, 0)
    assert mine["arguments"] == {"x-max-length": 9}

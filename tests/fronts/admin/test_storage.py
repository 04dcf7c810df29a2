"""How far the logs have grown, over HTTP."""

import httpx

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode


def test_the_positions_are_those_of_the_files(node: RunningNode, name: str) -> None:
    """X4: all logs at one moment, for a backup."""
    CommandLine(node.bootstrap).ok("topics", "create", name)
    CommandLine(node.bootstrap).ok("produce", name, stdin="one\ntwo\n")
    found = httpx.get(f"{node.http}/v1/storage/positions", timeout=60).json()
    assert found["data_dir"] == str(node.data)
    position = found["logs"][f"{name}-0"]
    assert (position["segment"], position["next_offset"]) == (0, 2)
    path = node.data / "topics" / f"{name}-0" / "00000000000000000000.log"
    assert position["size"] == path.stat().st_size

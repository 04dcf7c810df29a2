"""The command line, pointed at the node that the tests share."""

import pytest

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode


@pytest.fixture
def cli(node: RunningNode) -> CommandLine:
    """Give the command line of the shared node."""
    return CommandLine(node.bootstrap)

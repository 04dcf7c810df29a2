"""The command `mirror`: what it refuses, and why; what it does is shown in tests/topology."""

import pytest

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode, free_port


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--from", "http://a", "--to", "kafka://b:9092"), "not to"),
        (("--from", "http://a", "--to", "http://b", "--topics", "("), "subpattern"),
        (("--from", "http://a", "--to", "http://b", "--schedule", "noon"), "08:00"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    options: tuple[str, ...], reason: str
) -> None:
    done = CommandLine("")("mirror", "run", *options)
    assert done.status == 2
    assert reason in done.err


def test_a_group_of_a_cluster_that_is_away_is_not_moved(node: RunningNode) -> None:
    """C17: with the address that does not answer."""
    nobody = f"http://127.0.0.1:{free_port()}"
    done = CommandLine("")("mirror", "move", "g", "--from", nobody, "--to", node.http)
    assert done.status == 3
    assert nobody in done.err


def test_a_group_that_nobody_knows_is_refused(node: RunningNode) -> None:
    done = CommandLine("")("mirror", "move", "nobody-x", "--from", node.http, "--to", node.http)
    assert done.status == 1
    assert "nobody-x" in done.err

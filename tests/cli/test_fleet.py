"""The fleet of simulated devices: every message is sent, answered and received."""

import pytest

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode, free_port


@pytest.mark.parametrize("qos", [0, 1])
def test_devices_are_simulated(node: RunningNode, cli: CommandLine, name: str, qos: int) -> None:
    """E3, C16: many connections, each with a message from time to time."""
    host, port = node.mqtt_address
    result = cli.ok(
        "bench", "mqtt", "-a", f"{host}:{port}", "-d", "50", "--interval", "0.1",
        "--seconds", "1", "--qos", str(qos), "--prefix", f"{name}/devices", "--json",
    ).data  # fmt: skip
    assert (result["sent"], result["received"]) == (500, 500)
    assert result["answered"] == (500 if qos else 0)


def test_no_broker_is_said_so(cli: CommandLine) -> None:
    outcome = cli("bench", "mqtt", "-a", f"127.0.0.1:{free_port()}", "-d", "1")
    assert outcome.status != 0

"""`chordmq demo`: a fleet that measures, obeys and answers, on a real node."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.command_line import ENVIRONMENT, CommandLine
from tests.running_node import RunningNode, free_port
from tests.waiting import wait_until


@pytest.fixture
def fleet(node: RunningNode) -> Iterator[subprocess.Popen[str]]:
    host, port = node.mqtt_address
    process = subprocess.Popen(
        [sys.executable, "-m", "chordmq", "demo", "-d", "4", "-a", f"{host}:{port}", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # `make test &` ignores it
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_fleet_measures_obeys_its_shadows_and_answers_commands(
    cli: CommandLine, node: RunningNode, fleet: subprocess.Popen[str]
) -> None:
    """E8, X4: one command, and there is something to see."""
    url = f"--url={node.http}"
    wait_until(lambda: "pump-002" in cli("devices", "list", "--connected", url).out)
    sent = cli.ok("devices", "command", "send", "pump-002", "identify", "--wait=60", url)
    assert 'succeeded: {"device": "pump-002", "did": "identify"}' in sent.out
    cli.ok("devices", "shadow", "set", "pump-002", '{"interval_s": 0.5}', url)

    def has_obeyed() -> bool:
        shadow = cli.ok("devices", "shadow", "get", "pump-002", url).data
        return bool(shadow["state"]["reported"].get("interval_s") == 0.5)

    wait_until(has_obeyed)
    found = cli.ok("devices", "show", "pump-002", url, "--json").data
    assert (found["model"], found["tags"]["fleet"]) == ("pump", "demo")
    readings = ("consume", "iotsphere.devices", "--from", "earliest")
    wait_until(lambda: '"unit":"bar"' in cli.ok(*readings).out)
    fleet.send_signal(signal.SIGINT)
    told = json.loads(fleet.communicate(timeout=60)[0])
    assert fleet.returncode == 0
    assert told["sent"] > 0
    assert told["commands"] == 1


def test_without_a_node_it_says_what_to_do(cli: CommandLine) -> None:
    outcome = cli("demo", "-a", f"127.0.0.1:{free_port()}", "--seconds", "1")
    assert outcome.status == 3
    assert "chordmq up" in outcome.err
    assert cli("demo", "-a", "nowhere").status == 2

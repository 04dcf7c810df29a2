"""`chordmq gateway`: a process that carries between a node and a broker."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chordmq.drivers.adapter import Message, Subscription
from chordmq.drivers.addresses import open_driver
from tests.cli.command_line import ENVIRONMENT
from tests.drivers.reading import Seen, subscribing
from tests.drivers.servers import OTHERS, SERVERS
from tests.running_node import RunningNode, die_with_parent

GATEWAY = [sys.executable, "-m", "chordmq", "gateway"]


@pytest.mark.parametrize("kind", OTHERS)
async def test_the_gateway_carries_until_it_is_stopped_and_goes_on_after_a_kill(
    kind: str, node: RunningNode, tmp_path: Path, name: str
) -> None:
    """E7: what was published while it was dead comes afterwards."""
    server = SERVERS[kind](tmp_path / kind)
    server.start()
    address = f"chordmq://{node.bootstrap}"
    command = [*GATEWAY, "--driver", server.address, "--node", address, "--name", name]
    command += ["--in", f"{name}/x/#", "--out", f"{name}/y/#"]
    try:
        async with open_driver(address) as here, open_driver(server.address) as there:
            wanted = Subscription(filter=f"{name}/x/#", index=f"{name}-i")
            got = Seen()
            async with subscribing(here, wanted, got):
                with running(command):
                    await there.publish([Message(name=f"{name}/x/k", value=b"before")])
                    await got.wait(1)
                await there.publish([Message(name=f"{name}/x/k", value=b"while it was dead")])
                with running(command):
                    await got.wait(2)
        assert got.values == ["before", "while it was dead"]
    finally:
        server.close()


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    """Run the gateway, once it says that it carries, until kill -9."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT,
        preexec_fn=die_with_parent,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("carrying between"):
                    break
            else:
                raise AssertionError("".join(said))
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("address", ["nats://127.0.0.1:4222", "nonsense"])
def test_an_address_without_a_driver_is_a_mistake_in_the_command(address: str) -> None:
    done = subprocess.run(
        [*GATEWAY, "--driver", address], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "is none of chordmq, kafka, rabbitmq" in done.stderr

"""Applications that a node runs itself."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from chordmq.client.hosting import Hosting
from chordmq.client.hosting_settings import AppsSettings
from chordmq.errors import CannotStart
from tests.running_node import RunningNode

APP = """
from chordmq.client.app import ConsumerApp

app = ConsumerApp()
failures = 1

@app.consumer("orders", group="billing", dead_letter="", session_timeout_ms=6000)
async def note(message):
    global failures
    if failures:
        failures -= 1
        raise ValueError("at first")
    with open("seen.txt", "a") as file:
        file.write(message.value.decode())
"""


def test_a_node_runs_an_application_and_starts_it_again(tmp_path: Path) -> None:
    """D10: in the node's own process, by the same code; its failures do not end the node."""
    (tmp_path / "hosted_billing.py").write_text(APP)
    node = RunningNode(tmp_path, {"apps.run": "hosted_billing:app"})
    try:
        node.start()
        producer = Producer({"bootstrap.servers": node.bootstrap})
        producer.produce("orders", b"one")
        assert producer.flush(60) == 0
        seen = tmp_path / "seen.txt"
        deadline = time.monotonic() + 60
        while not seen.exists() or not seen.read_text():
            assert node.is_running()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert seen.read_text() == "one"
        assert node.stop() == 0
    finally:
        node.close()


@pytest.mark.parametrize("place", ["no_such_module", "json:app"])
async def test_an_application_that_cannot_be_loaded_is_refused_by_name(place: str) -> None:
    with pytest.raises(CannotStart, match=place):
        Hosting(AppsSettings(run=place), "127.0.0.1:1")

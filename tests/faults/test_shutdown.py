"""A node that is told to stop: bounded time, nothing lost, nothing left half done."""

import subprocess
import sys

import pytest
from kio.schema.errors import ErrorCode

from tests.faults.test_crash import Sender, create_topic, read_log
from tests.running_node import RunningNode
from tests.wire import PRODUCE, Wire, produce_fields, record_batch, stored


def test_a_stopped_node_keeps_what_it_acknowledged(own_node: RunningNode, name: str) -> None:
    """C13: SIGTERM under load ends the process with 0, and the producer goes on afterwards."""
    topic = create_topic(own_node, name)
    sender = Sender(topic, {"bootstrap.servers": own_node.bootstrap, "enable.idempotence": True})
    sender.send_until(1000)
    assert own_node.stop() == 0
    own_node.start()
    sender.send_until(2000)
    sender.finish()
    assert read_log(own_node, topic) == [b"%08d" % number for number in range(sender.sent)]


def test_requests_that_have_arrived_are_answered_before_the_end(
    own_node: RunningNode, name: str
) -> None:
    """C13: a batch that was taken is acknowledged, and its connection is then closed."""
    topic = create_topic(own_node, name)
    with Wire(own_node.address) as wire:
        sent = [
            wire.send(PRODUCE, 9, **produce_fields(topic, record_batch([b"%d" % number])))
            for number in range(20)
        ]
        first = wire.receive(PRODUCE, 9, sent[0])
        assert first.responses[0].partition_responses[0].error_code is ErrorCode.none
        assert own_node.stop() == 0
        acknowledged = 1
        while (frame := wire.receive_frame()) is not None:
            assert int.from_bytes(frame[:4], "big") == sent[acknowledged]
            acknowledged += 1
    own_node.start()
    assert len(read_log(own_node, topic)) >= acknowledged


def test_a_waiting_fetch_does_not_delay_the_end(own_node: RunningNode, name: str) -> None:
    """C13: idle and parked clients are let go at once, whatever they wait for."""
    topic = create_topic(own_node, name)
    with Wire(own_node.address) as parked, Wire(own_node.address):
        parked.send_fetch(topic, 0, max_wait=600_000)
        assert not parked.has_answer(within_s=0.2)
        assert own_node.stop() == 0
        assert parked.is_closed_by_peer()


def test_a_stopped_node_listens_no_more_and_comes_back_whole(
    own_node: RunningNode, name: str
) -> None:
    """C13, X2: stop and start are ordinary events."""
    topic = create_topic(own_node, name)
    for number in range(3):
        with Wire(own_node.address) as wire:
            assert wire.produce(topic, record_batch([b"%d" % number])).base_offset == number
        assert own_node.stop() == 0
        with pytest.raises(ConnectionRefusedError):
            Wire(own_node.address)
        own_node.start()
    with Wire(own_node.address) as wire:
        assert [value for _, value in stored(wire.fetch(topic, 0).records)] == [b"0", b"1", b"2"]


def test_two_nodes_cannot_share_a_data_directory(own_node: RunningNode) -> None:
    """D5: the second refuses to start and says why, and the first goes on."""
    command = [sys.executable, "-m", "chordmq", "serve", "--set", f"data_dir={own_node.data}"]
    command += ["--set", "kafka.port=0", "--set", "http.port=0", "--set", "framed.port=0"]
    for front in ("mqtt", "amqp", "provider", "capnp", "grpc"):
        command += ["--set", f"{front}.port=0"]
    second = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert second.returncode != 0
    assert str(own_node.data) in (second.stdout + second.stderr).decode()
    assert own_node.is_ready()

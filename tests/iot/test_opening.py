"""Devices are looked after from their first message on."""

import socket
from contextlib import closing
from pathlib import Path

from chordmq.iot.devices import SHADOW_UPDATE, Address
from chordmq.iot.opening import MESSAGE
from tests.conftest import StartNode
from tests.iot.things import Asker, Thing, until
from tests.running_node import RunningNode


def is_open(address: tuple[str, int]) -> bool:
    """Return whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


def test_the_topic_of_devices_is_found_without_loading_what_looks_after_them() -> None:
    assert str(Address("x", SHADOW_UPDATE)) == MESSAGE


def test_the_first_message_of_a_device_is_answered(tmp_path: Path) -> None:
    """X2: the service is loaded with the first topic of devices, not with the node."""
    node = RunningNode(tmp_path)
    node.start(wait=False)  # for waiting would mean to ask over HTTP, which opens it, too
    with closing(node):
        until(lambda: is_open(node.mqtt_address))
        with Thing(node, "first") as thing:
            thing.publish("shadow/update", {"state": {"reported": {"light": 40}}})
            accepted = thing.wait_for("shadow/update/accepted")
    assert accepted["state"]["reported"] == {"light": 40}


def test_the_first_who_asks_for_devices_is_told_that_there_are_none(start_node: StartNode) -> None:
    with Asker(start_node()) as asker:
        assert asker.ok("GET", "")["devices"] == []

"""The doctor knows who holds a port, which addresses lead nowhere, and who could listen in."""

import os
import socket
from pathlib import Path

import pytest

from chordmq.cli.diagnosis import network
from tests.cli.diagnosis.places import only, place


def test_the_program_that_holds_a_port_is_named() -> None:
    """X4: doctor, ports taken and by whom."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert f"(process {os.getpid()})" in network.holder_of(taken.getsockname()[1])


def test_an_address_that_leads_other_machines_to_themselves_is_found() -> None:
    """X4: doctor, advertised address."""
    found = only(network.told_addresses, place("kafka.host=0.0.0.0"))
    assert found.status == "fail"
    assert "kafka.advertised_host" in (found.fix or "")
    told = place("kafka.host=0.0.0.0", "kafka.advertised_host=localhost")
    assert only(network.told_addresses, told).status == "fail"
    told = place("kafka.host=0.0.0.0", "kafka.advertised_host=mq.example.org")
    assert list(network.told_addresses(told)) == []
    assert list(network.told_addresses(place())) == []


def test_passwords_that_everybody_could_read_are_found(tmp_path: Path) -> None:
    """X4: doctor, no TLS with passwords on a public address."""
    found = only(network.exposure, place("auth.mechanisms=SCRAM-SHA-512", "mqtt.host=0.0.0.0"))
    assert found.detail.startswith("mqtt takes passwords on 0.0.0.0:")
    plain = place("auth.mechanisms=PLAIN", "kafka.host=0.0.0.0")
    assert only(network.exposure, plain).check == "exposure"
    scram = place("auth.mechanisms=SCRAM-SHA-512", "kafka.host=0.0.0.0")
    assert list(network.exposure(scram)) == [], "it sends no password"
    tls = f"kafka.tls.certificate={tmp_path}/node.pem"
    assert list(network.exposure(place("auth.mechanisms=PLAIN", "kafka.host=0.0.0.0", tls))) == []


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("/opt/venv/bin/python /opt/venv/bin/chordmq serve (process 7)", True),
        ("python3 -m chordmq serve --set kafka.port=1 (process 7)", True),
        ("/home/me/chordmq/.venv/bin/python -m pytest -q (process 7)", False),
        ("python3 -m http.server --directory /srv/chordmq (process 7)", False),
        ("", False),
    ],
)
def test_a_program_is_known_by_its_name_and_not_by_where_it_lies(
    command: str, is_ours: bool
) -> None:
    """X4: who works in a directory with our name runs other programs there, too."""
    assert network.is_node(command) is is_ours

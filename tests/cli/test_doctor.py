"""The doctor finds what is wrong with a machine and says how to mend it."""

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode, free_port


def checks(outcome_data: Any) -> dict[str, dict[str, Any]]:
    return {row["check"]: row for row in outcome_data["checks"]}


@pytest.fixture
def nowhere() -> CommandLine:
    """Give a command line without a node."""
    return CommandLine(f"127.0.0.1:{free_port()}")


def ports(kafka: int, http: int) -> list[str]:
    """Return options for these ports, and for no other: those may be somebody else's."""
    given = ["--kafka-port", str(kafka), "--http-port", str(http)]
    for front in ("framed", "provider", "mqtt", "amqp", "capnp", "grpc"):
        given += ["--set", f"{front}.port=0"]
    return given


def test_a_fit_machine_passes(nowhere: CommandLine, tmp_path: Path) -> None:
    """X4: the doctor checks Python, limits, disk, ports, clock and acceleration."""
    arguments = ["doctor", "--data-dir", str(tmp_path / "new" / "data")]
    arguments += ports(free_port(), free_port())
    found = checks(nowhere.ok(*arguments, "--json").data)
    for check in ("Python", "event loop", "checksums", "data directory", "Kafka port", "clock"):
        assert found[check]["status"] == "ok", found[check]
    assert {"open files", "disk space", "HTTP port", "advertised address"} <= set(found)
    assert "Python" in nowhere.ok(*arguments).out


def test_a_running_node_is_recognised(node: RunningNode, tmp_path: Path) -> None:
    arguments = ["doctor", "--data-dir", str(tmp_path), "--json"]
    arguments += ports(node.address[1], node.http_address[1])
    found = checks(CommandLine(node.bootstrap).ok(*arguments).data)
    assert "cluster" in found["Kafka port"]["detail"]
    assert "a node (ready)" in found["HTTP port"]["detail"]
    assert found["advertised address"]["detail"].endswith("answers")


def test_a_port_taken_by_a_stranger_fails_with_a_fix(nowhere: CommandLine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        arguments = ["doctor", "--data-dir", str(tmp_path), *ports(free_port(), taken)]
        outcome = nowhere(*arguments, "--json")
        assert outcome.status == 1
        assert outcome.data["ok"] is False
        found = checks(outcome.data)["HTTP port"]
        assert found["status"] == "fail"
        assert "http.port" in found["fix"]


def test_a_data_directory_that_cannot_be_used_fails_with_a_fix(
    nowhere: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = ["doctor", "--data-dir", str(file / "data"), *ports(free_port(), free_port())]
    assert "FAIL" in nowhere(*arguments).out
    outcome = nowhere(*arguments, "--json")
    assert outcome.status == 1
    assert "--data-dir" in checks(outcome.data)["data directory"]["fix"]


def test_settings_that_a_node_would_refuse_are_found(nowhere: CommandLine) -> None:
    """X4: the doctor checks the node's own settings."""
    outcome = nowhere("doctor", "--set", "kafka.prt=1", "--json")
    assert outcome.status == 1
    assert "kafka.port" in checks(outcome.data)["settings"]["detail"]


def test_a_node_is_checked_with_its_own_file(nowhere: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("insecure: true\nkafka: {host: 0.0.0.0}\n")
    arguments = ["doctor", "--config", str(file), *ports(free_port(), free_port())]
    found = nowhere(*arguments, "--data-dir", str(tmp_path), "--json").data["checks"]
    told = [row for row in found if row["check"] == "advertised address"]
    assert told[0]["status"] == "fail"
    assert "kafka.advertised_host" in told[0]["fix"]

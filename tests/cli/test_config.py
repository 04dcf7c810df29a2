"""Settings shown with where they come from, explained, checked, and changed on running nodes."""

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode


def test_settings_are_shown_with_where_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: `config show` tells default, file, environment and flag apart."""
    cli = CommandLine("127.0.0.1:1")
    file = tmp_path / "node.yaml"
    file.write_text("kafka: {port: 19092}\n")
    monkeypatch.setenv("CHORDMQ_HTTP_PORT", "18080")
    arguments = ["config", "show", "--config", str(file), "--set", "mqtt.port=11883"]
    rows = {row["name"]: row for row in cli.ok(*arguments, "--json").data}
    assert rows["kafka.port"]["source"] == "file"
    assert rows["http.port"]["source"] == "environment"
    assert rows["mqtt.port"]["source"] == "flag"
    assert rows["amqp.port"]["source"] == "default"
    lines = cli.ok(*arguments, "kafka.port", "-o", "wide").lines
    assert [line.split() for line in lines] == [
        ["SETTING", "VALUE", "FROM", "DEFAULT"],
        ["kafka.port", "19092", "file", "9092"],
    ]


def test_a_file_is_checked_and_the_setting_that_is_wrong_is_named(tmp_path: Path) -> None:
    cli = CommandLine("127.0.0.1:1")
    file = tmp_path / "node.yaml"
    file.write_text("kafka: {port: 19092}\n")
    assert "1 settings" in cli.ok("config", "validate", str(file)).out
    file.write_text("kafka: {prt: 19092}\n")
    outcome = cli("config", "validate", str(file))
    assert outcome.status == 2
    assert "kafka.port" in outcome.err


def test_a_setting_is_explained() -> None:
    cli = CommandLine("127.0.0.1:1")
    shown = cli.ok("config", "explain", "log.retention.ms").out
    assert "Age after which segments are deleted" in shown
    assert "CHORDMQ_BROKER_LOG_RETENTION_MS" in shown
    assert "chordmq config set log.retention.ms=" in shown
    assert cli("config", "explain", "no.such").status == 2


def test_settings_of_a_running_node_are_changed_and_given_back(own_node: RunningNode) -> None:
    """X4: dynamic settings over the wire."""
    cli = CommandLine(own_node.bootstrap)

    def value() -> tuple[str, str]:
        (row,) = cli.ok("config", "get", "log.retention.ms", "--json").data
        return row["value"], row["source"]

    assert value() == ("604800000", "default")
    cli.ok("config", "set", "broker.log.retention.ms=86400000")
    assert value() == ("86400000", "broker (dynamic)")
    changed = cli.ok("config", "get", "--changed", "--json").data
    assert "log.retention.ms" in [row["name"] for row in changed]
    cli.ok("config", "set", "--reset", "log.retention.ms")
    assert value() == ("604800000", "default")


def test_what_cannot_be_changed_is_refused_with_the_reason(cli: CommandLine) -> None:
    outcome = cli("config", "set", "log.retention.ms=soon")
    assert outcome.status == 1
    assert "it is not a whole number" in outcome.err
    assert cli("config", "set").status == 2
    assert cli("config", "get", "no.such.setting").status == 2

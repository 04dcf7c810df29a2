"""`chordmq audit`: the trail of a real node, over the wire, from its data and from an export."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.conftest import StartNode
from tests.running_node import RunningNode


@pytest.fixture
def audited(start_node: StartNode) -> RunningNode:
    return start_node({"audit.enabled": "on", "audit.head_interval_s": "0.2"})


def told(cli: CommandLine, *options: str) -> list[tuple[str, str]]:
    rows: list[dict[str, Any]] = cli.ok("audit", "show", "--json", *options).data
    return [(row["act"], row["obj"]) for row in rows if row["act"] != "head"]


def test_changes_are_shown_and_the_trail_is_whole_from_wherever_it_is_read(
    audited: RunningNode, tmp_path: Path
) -> None:
    """E13: every change of topics and settings, checked over the wire and offline."""
    cli = CommandLine(audited.bootstrap)
    cli.ok("topics", "create", "orders", "--partitions", "2")
    cli.ok("topics", "alter", "orders", "--set", "retention.ms=1000", "--partitions", "3")
    cli.ok("topics", "delete", "orders", "--yes")
    key = str(audited.data / "audit/public.pem")
    expected = [
        ("topic.create", "orders, 2 partitions"),
        ("settings.change", "topic orders: retention.ms"),
        ("topic.grow", "orders, 3 partitions"),
        ("topic.delete", "orders"),
    ]
    # A change is answered before its record is written: even the first may still be on its way.
    while told(cli)[-1:] != expected[-1:]:
        pass
    assert told(cli)[1:] == expected
    assert told(cli, "--act", "topic.d") == expected[-1:]
    assert "the audit trail is whole" in cli.ok("audit", "verify", "--public-key", key).out
    export = tmp_path / "audit.jsonl"
    export.write_text(cli.ok("audit", "export").out)
    cli.ok("audit", "verify", "--file", str(export), "--public-key", key)
    audited.kill9()
    offline = cli.ok("audit", "verify", "--data-dir", str(audited.data), "--json").data
    assert offline["records"] >= 5
    audited.start()
    audited.stop()
    assert cli.ok("audit", "verify", "--data-dir", str(audited.data), "--json").data["unsigned"] < 2


def test_a_copy_of_the_data_that_somebody_edited_is_found_out(
    audited: RunningNode, tmp_path: Path
) -> None:
    """E13: the exit status is 1, and the first bad record is named."""
    cli = CommandLine(audited.bootstrap)
    for number in range(5):
        cli.ok("topics", "create", f"topic-{number}")
    audited.stop()
    rows = cli.ok("audit", "show", "--json", "--data-dir", str(audited.data)).data
    (edited,) = (row["seq"] for row in rows if "topic-3" in row["obj"])
    copy = tmp_path / "copy"
    shutil.copytree(audited.data, copy)
    (segment,) = (copy / "topics/__audit-0").glob("*.log")
    segment.write_bytes(segment.read_bytes().replace(b"topic-3", b"topic-9"))
    outcome = cli("audit", "verify", "--data-dir", str(copy), "--json")
    assert outcome.status == 1
    assert json.loads(outcome.err)["error"]["first_bad"] == edited
    head = tmp_path / "head.json"
    head.write_text(cli.ok("audit", "head", "--data-dir", str(audited.data)).out)
    shutil.rmtree(copy)
    shutil.copytree(audited.data, copy)
    (segment,) = (copy / "topics/__audit-0").glob("*.log")
    segment.write_bytes(b"")
    (copy / "audit/head.json").unlink()
    (copy / "meta.db").unlink()
    assert cli("audit", "verify", "--data-dir", str(copy)).status == 0
    outcome = cli("audit", "verify", "--data-dir", str(copy), "--head", str(head))
    assert outcome.status == 1
    assert "the log ends before it" in outcome.err


def test_clients_cannot_write_or_delete_the_trail(audited: RunningNode) -> None:
    cli = CommandLine(audited.bootstrap)
    assert cli("topics", "delete", "__audit", "--yes").status == 1
    assert cli("produce", "__audit", stdin="forged\n").status == 1


def test_a_node_does_not_vouch_for_itself(audited: RunningNode) -> None:
    outcome = CommandLine(audited.bootstrap)("audit", "verify")
    assert outcome.status == 2
    assert "--public-key" in outcome.err

"""`chordmq top`: rates are differences, and a real node is shown with what it does."""

import pytest

from chordmq.cli.top import Change, Sample, read_sample, size
from tests.cli.command_line import CommandLine
from tests.running_node import RunningNode, free_port

BEFORE = """\
# TYPE chordmq_partitions gauge
chordmq_partitions{topic="a"} 1.0
chordmq_partitions{topic="b"} 4.0
# TYPE chordmq_records_in counter
chordmq_records_in_total{topic="a"} 100.0
chordmq_records_in_total{topic="b"} 7.0
# TYPE chordmq_bytes_in counter
chordmq_bytes_in_total{topic="a"} 1000.0
chordmq_bytes_in_total{topic="b"} 5000.0
"""
AFTER = BEFORE.replace("100.0", "300.0").replace("1000.0", "3000.0")


def test_rates_are_differences_by_time() -> None:
    change = Change(read_sample(BEFORE, 10.0), read_sample(AFTER, 12.0))
    assert change.node()["records_in_per_s"] == 100
    assert [(row["topic"], row["bytes_in_per_s"]) for row in change.topics()] == [
        ("a", 1000.0), ("b", 0.0),
    ]  # fmt: skip


def test_a_node_that_was_started_again_has_no_negative_rates() -> None:
    change = Change(read_sample(AFTER, 10.0), read_sample(BEFORE, 12.0))
    assert change.node()["records_in_per_s"] == 0
    assert Change(Sample(1), Sample(1)).node()["cpu_cores"] == 0


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (3e12, "3.0 TB")]
)
def test_sizes_are_written_for_people(number: float, text: str) -> None:
    assert size(number) == text


def test_a_node_is_shown(cli: CommandLine, node: RunningNode, name: str) -> None:
    """X4: for people and for programs."""
    cli.ok("topics", "create", name)
    cli.ok("produce", name, stdin="one\n")
    look = ("top", "--once", "--interval", "0.1", f"--url={node.http}")
    shown = cli.ok(*look).out
    assert "kafka" in shown
    assert "loop lag" in shown
    told = cli.ok(*look, "--json").data
    row = next(row for row in told["topics"] if row["topic"] == name)
    assert row["log_bytes"] > 0
    assert {front["front"] for front in told["fronts"]} >= {"kafka", "mqtt", "amqp", "http"}
    assert told["node"]["memory_bytes"] > 1e6


def test_no_node_is_said_so(cli: CommandLine) -> None:
    assert cli("top", "--once", f"--url=http://127.0.0.1:{free_port()}").status == 3

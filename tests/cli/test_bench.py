"""Benchmarks count what they wrote and read it back."""

import pytest

from chordmq.cli.bench import percentiles, throughput
from tests.cli.command_line import CommandLine


def test_produce_is_measured_and_read_back(cli: CommandLine, name: str) -> None:
    """C16: a benchmark command of its own, with counts verified by a consumer."""
    arguments = ["bench", "produce", "-t", name, "-n", "2345", "--size", "50", "-p", "2"]
    result = cli.ok(*arguments, "--json").data
    assert result["bench"] == "produce"
    assert (result["records"], result["verified"], result["partitions"]) == (2345, 2345, 2)
    assert result["bytes"] == 2345 * 50
    assert result["records_per_s"] > 0
    assert set(result["ack_latency_ms"]) == {"p50", "p90", "p99", "p999", "max"}
    assert cli.ok(*arguments, "--json").data["verified"] == 2345, "only what this run wrote"
    assert "records per s" in cli.ok(*arguments, "--no-verify").out


def test_consume_is_measured(cli: CommandLine, name: str) -> None:
    """C16: consume throughput."""
    cli.ok("produce", name, stdin="x" * 9 + "\n" + "y" * 9 + "\n")
    result = cli.ok("bench", "consume", "-t", name, "--json").data
    assert (result["records"], result["bytes"]) == (2, 18)
    assert result["records_per_s"] > 0
    assert cli("bench", "consume", "-t", f"{name}-none").status == 1


def test_latency_is_measured_end_to_end(cli: CommandLine, name: str) -> None:
    """C16: end-to-end latency with percentiles; every record sent is seen."""
    result = cli.ok(
        "bench", "latency", "-t", name, "--rate", "200", "--seconds", "1", "--json"
    ).data
    assert (result["sent"], result["verified"]) == (200, 200)
    ranks = result["latency_ms"]
    assert 0 < ranks["p50"] <= ranks["p90"] <= ranks["p99"] <= ranks["p999"] <= ranks["max"]


def test_percentiles_are_those_of_the_samples() -> None:
    samples = [number / 1000 for number in range(1, 1001)]
    assert percentiles(samples) == {
        "p50": 501.0, "p90": 901.0, "p99": 991.0, "p999": 1000.0, "max": 1000.0,
    }  # fmt: skip
    assert percentiles([]) == {}


def test_throughput_is_per_second_and_in_megabytes() -> None:
    assert throughput(10, 5_000_000, 2.0) == {
        "records": 10, "bytes": 5_000_000, "seconds": 2.0, "records_per_s": 5.0,
        "mb_per_s": pytest.approx(2.5),
    }  # fmt: skip

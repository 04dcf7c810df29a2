"""The command `sql`, as far as no Spark has to start; tests/chordmq_spark/test_sql.py does."""

from pathlib import Path

import pytest

from chordmq.cli.exits import EXIT_CANNOT_CONNECT, EXIT_USAGE
from tests.cli.command_line import CommandLine


def test_a_machine_without_java_is_told_what_to_install(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: before anything else is tried."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = cli("sql", "SELECT 1")
    assert (done.status, done.out) == (EXIT_USAGE, "")
    assert "Spark needs Java 17" in done.err
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME is {tmp_path}, where there is no Java" in cli("sql", "SELECT 1").err


def test_a_query_without_a_table_that_is_there_is_refused(cli: CommandLine, name: str) -> None:
    table = name.replace("-", "_")  # one word, of which no topic of others can be a part
    done = cli("sql", f"SELECT * FROM {table}", "--directory", "no-archive")
    assert done.status == EXIT_USAGE
    assert "names no topic; `chordmq topics list` shows them" in done.err


def test_a_table_that_two_topics_would_be_is_refused(cli: CommandLine, name: str) -> None:
    for topic in (f"{name}-x", f"{name}_x"):
        cli.ok("topics", "create", topic)
    table = f"{name}_x".replace("-", "_")
    done = cli("sql", f"SELECT * FROM {table}", "--directory", "no-archive", "--json")
    assert done.status == EXIT_USAGE
    assert f"{name}-x and {name}_x would both be the table {table}" in done.err


def test_a_node_that_does_not_answer_is_named_at_once() -> None:
    done = CommandLine("127.0.0.1:1")("sql", "SELECT * FROM orders")
    assert done.status == EXIT_CANNOT_CONNECT
    assert "127.0.0.1:1" in done.err

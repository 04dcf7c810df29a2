"""Topics created, shown, changed and deleted from the command line."""

from tests.cli.command_line import CommandLine


def test_a_topic_is_created_shown_changed_and_deleted(cli: CommandLine, name: str) -> None:
    """X4: topics from the command line, for people and for programs."""
    cli.ok("topics", "create", name, "--partitions", "3", "--set", "retention.ms=60000")
    cli.ok("produce", name, stdin="a\nb\n")

    (row,) = [row for row in cli.ok("topics", "list", "--json").data if row["name"] == name]
    (topic,) = cli.ok("--json", "topics", "describe", name).data
    assert row == {
        "name": name, "partitions": 3, "replicas": 1, "records": 2, "internal": False,
        "id": topic["id"],
    }  # fmt: skip
    assert name in cli.ok("topics", "list").out

    assert [part["partition"] for part in topic["partitions"]] == [0, 1, 2]
    assert sum(part["records"] for part in topic["partitions"]) == 2
    changed = {row["name"]: row["value"] for row in topic["settings"] if row["source"] == "topic"}
    assert changed == {"retention.ms": "60000"}
    shown = cli.ok("topics", "describe", name).out
    assert "retention.ms" in shown
    assert "segment.bytes" not in shown
    assert "segment.bytes" in cli.ok("topics", "describe", name, "--settings").out

    cli.ok("topics", "alter", name, "--partitions", "4", "--reset", "retention.ms")
    altered = cli.ok("topics", "alter", name, "--set", "segment.bytes=2000000", "--json").data
    assert len(altered["partitions"]) == 4
    changed = {row["name"]: row["value"] for row in altered["settings"] if row["source"] == "topic"}
    assert changed == {"segment.bytes": "2000000"}

    assert cli.ok("topics", "delete", name, "--yes").out == f"deleted {name}\n"
    assert name not in cli.ok("topics", "list").out


def test_deleting_asks_first(cli: CommandLine, name: str) -> None:
    cli.ok("topics", "create", name)
    assert cli("topics", "delete", name, stdin="n\n").status == 1
    assert name in cli.ok("topics", "list").out
    cli.ok("topics", "delete", name, stdin="y\n")
    assert name not in cli.ok("topics", "list").out


def test_a_topic_that_is_there_is_refused_or_let_be(cli: CommandLine, name: str) -> None:
    assert cli.ok("topics", "create", name, "--json").data == [{"name": name, "created": True}]
    again = cli("topics", "create", name)
    assert again.status == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert "--if-not-exists" in again.err
    assert cli.ok("topics", "create", name, "--if-not-exists", "--json").data == [
        {"name": name, "created": False}
    ]


def test_a_refusal_is_json_too_when_asked(cli: CommandLine, name: str) -> None:
    """X4: programs get Kafka's code and name."""
    import json

    outcome = cli("topics", "create", name, "--set", "no.such=1", "--json")
    assert outcome.status == 1
    error = json.loads(outcome.err)["error"]
    assert (error["name"], error["code"]) == ("INVALID_CONFIG", 40)


def test_an_unknown_topic_is_told_with_a_hint(cli: CommandLine, name: str) -> None:
    outcome = cli("topics", "describe", name)
    assert outcome.status == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in outcome.err
    assert "chordmq topics list" in outcome.err


def test_a_setting_without_a_value_is_wrong_usage(cli: CommandLine, name: str) -> None:
    assert cli("topics", "create", name, "--set", "retention.ms").status == 2

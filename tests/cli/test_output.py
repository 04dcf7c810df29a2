"""The same result as a table, a wide table, JSON or YAML, whichever is asked for."""

import json

import pytest
import yaml

from tests.cli.command_line import CommandLine, all_commands

FORMLESS = {"consume"}
"""Their `-o` says how a record is written."""


def test_every_command_with_json_has_every_other_form() -> None:
    """X4: JSON and YAML for programs, tables and wide tables for people."""
    forms = {"--json", "--yaml", "-o"}
    with_json = 0
    for name, command in all_commands().items():
        flags = {flag for param in command.params for flag in param.opts}
        if "--json" in flags and name not in FORMLESS:
            assert forms <= flags, name
            with_json += 1
    assert with_json > 50


def test_yaml_holds_what_json_holds(cli: CommandLine, name: str) -> None:
    cli.ok("topics", "create", name, "--partitions", "2", "--set", "retention.ms=86400000")
    expected = cli.ok("topics", "describe", name, "--json").data
    for arguments in (
        ("topics", "describe", name, "--yaml"),
        ("topics", "describe", name, "-o", "yaml"),
        ("--yaml", "topics", "describe", name),
        ("-o", "yaml", "topics", "describe", name),
        ("topics", "describe", name, "--json", "-o", "yaml"),
    ):
        shown = cli.ok(*arguments).out
        assert yaml.safe_load(shown) == expected
        with pytest.raises(ValueError, match="Expecting"):
            json.loads(shown)


def test_a_wide_table_has_columns_that_a_table_lacks(cli: CommandLine, name: str) -> None:
    cli.ok("topics", "create", name)
    (topic,) = [one for one in cli.ok("topics", "list", "-o", "json").data if one["name"] == name]
    assert topic["id"] in cli.ok("topics", "list", "-o", "wide").out
    narrow = cli.ok("topics", "list", "-o", "table").out
    assert topic["id"] not in narrow
    assert narrow == cli.ok("topics", "list").out


def test_the_form_nearest_to_the_command_wins(cli: CommandLine, name: str) -> None:
    cli.ok("topics", "create", name)
    assert "PARTITION" in cli.ok("--json", "topics", "describe", name, "-o", "table").out
    assert cli.ok("-o", "yaml", "topics", "describe", name, "-o", "json").data


def test_a_form_that_is_none_is_wrong_usage(cli: CommandLine) -> None:
    outcome = cli("topics", "list", "-o", "xml")
    assert outcome.status == 2
    assert "yaml" in outcome.err

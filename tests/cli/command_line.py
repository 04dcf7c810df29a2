"""Runs the command line inside the test's process, as fast as a function call."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
import typer
from typer.testing import CliRunner

from chordmq.cli.commands import app

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDEVMODE"}
"""For commands as processes: development mode would print warnings between their lines."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command `chordmq` with a broker to talk to."""

    bootstrap: str

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Outcome:
        """Run a command, whatever comes of it."""
        result = CliRunner().invoke(app, ["--bootstrap", self.bootstrap, *arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def ok(self, *arguments: str, stdin: str | bytes | None = None) -> Outcome:
        """Run a command that must succeed."""
        outcome = self(*arguments, stdin=stdin)
        assert outcome.status == 0, outcome.err
        return outcome


def all_commands() -> dict[str, click.Command]:
    """Return every command that is no group, by its words."""
    found = dict(_below(typer.main.get_command(app), ""))
    return {words: one for words, one in found.items() if not isinstance(one, click.Group)}


def all_groups() -> list[click.Group]:
    """Return every command that has others below it, the root first."""
    found = _below(typer.main.get_command(app), "")
    return [one for _, one in found if isinstance(one, click.Group)]


def _below(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _below(found, f"{words} {name}".strip())

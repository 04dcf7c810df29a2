"""What a command prints: tables for people, JSON or YAML for programs, one line for a failure."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click
import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PIPED_WIDTH = 240
WIDE_WIDTH = 10_000
FORM = "chordmq.form"
"""Where the context of a command keeps the form that was asked for."""


class Form:
    """The forms of output, as `-o` names them."""

    TABLE, WIDE, JSON, YAML = ALL = ("table", "wide", "json", "yaml")
    DOCUMENTS = (JSON, YAML)


def show_json(data: object) -> None:
    """Print one document: JSON, or the same as YAML where that was asked for."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    if _form() != Form.YAML:
        print(text)
        return
    import yaml

    plain = json.loads(text)
    print(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, explicit_start=True), end="")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns named `#…` hold numbers, those named `+…` are for the wide form."""
    from rich.table import Table

    is_wide = _form() == Form.WIDE
    shown = [number for number, name in enumerate(columns) if is_wide or not name.startswith("+")]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in (columns[number].removeprefix("+") for number in shown):
        is_number = name.startswith("#")
        table.add_column(
            name.removeprefix("#"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(_text(row[number]) for number in shown))
    out = console()
    if is_wide:
        out.width = WIDE_WIDTH
    out.print(table)


def show_facts(facts: Mapping[str, object]) -> None:
    """Print names and values below each other."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name:<{width}}  {_text(value)}")


def say(message: str) -> None:
    """Print a remark that is not the result: it goes to standard error."""
    print(message, file=sys.stderr)


def fail(message: str, status: int, *, as_json: bool = False, **facts: Any) -> NoReturn:
    """End the command with one line that says what went wrong."""
    if as_json:
        print(json.dumps({"error": {"message": message, **facts}}), file=sys.stderr)
    else:
        say(f"chordmq: {message}")
    raise typer.Exit(status)


def console() -> "Console":
    """Return a console on standard output that cuts nothing when its output is piped."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def progress(unit: str) -> "Progress":
    """Return a progress display on standard error, invisible when nobody watches."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit + " {task.fields[rate]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def thousands(number: float) -> str:
    """Write a number so that people can read it."""
    return f"{number:,.0f}"


def _form() -> str | None:
    """Return the form that the running command was asked for by `-o` or `--yaml`."""
    context = click.get_current_context(silent=True)
    return context.meta.get(FORM) if context else None


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return thousands(cell)
    return str(cell)

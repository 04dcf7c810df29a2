"""What a command prints: tables for people, JSON for programs, and one line for a failure."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_CANNOT_CONNECT = 3
EXIT_INTERRUPTED = 130

PIPED_WIDTH = 240


def show_json(data: object) -> None:
    """Print one JSON document."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns whose name starts with `#` hold numbers and stand to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        is_number = column.startswith("#")
        table.add_column(
            column.removeprefix("#"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    console().print(table)


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


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return thousands(cell)
    return str(cell)
